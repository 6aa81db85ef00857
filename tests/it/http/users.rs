//! `/users` and the payments of a subscription: what is found, and what is refused.

use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::events::Actor;
use subscription_core::store::{EventQuery, PageLimit};

use super::world::{Answer, HttpWorld, payment_body, problem, text};

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";

async fn get(world: &HttpWorld, path: &str) -> Answer {
    world.server("GET", path, &[], "").await
}

/// The first letters of the addresses on a page.
async fn initials(world: &HttpWorld, query: &str) -> String {
    let page = get(world, &format!("/users?{query}")).await;
    assert_eq!(page.status, 200, "{query} {page:?}");
    let users = page.json()["data"].as_array().unwrap().clone();
    users.iter().map(|user| text(&user["email"]).chars().next().unwrap()).collect()
}

/// Ann, Ben and Cat, a second apart.
async fn three_users(world: &HttpWorld) -> [String; 3] {
    let mut ids = Vec::new();
    for name in ["ann", "ben", "cat"] {
        world.auth.clock.advance(Duration::from_secs(1));
        ids.push(world.sign_up(name).await.id);
    }
    ids.try_into().unwrap()
}

#[tokio::test]
async fn users_are_listed_newest_first_and_by_each_filter() {
    let world = HttpWorld::new().await;
    assert_eq!(initials(&world, "").await, "");
    let [ann, ben, cat] = three_users(&world).await;

    for (query, found) in [
        ("", "cba"),
        ("limit=2", "cb"),
        ("email=ben%40example.com", "b"),
        ("email=%20BEN@Example.COM", "b"),
        ("email=nobody@example.com", ""),
        ("email_starts_with=ben", "b"),
        ("email_starts_with=BEN@ex", "b"),
        ("email_starts_with=be_", ""),
        ("email_starts_with=be%25", ""),
        (&*format!("id={ann}&id={cat}"), "ca"),
        (&*format!("id={NOBODY}&id={ben}"), "b"),
        (&*format!("id={NOBODY}"), ""),
    ] {
        assert_eq!(initials(&world, query).await, found, "{query}");
    }
}

#[tokio::test]
async fn a_list_of_users_is_walked_by_its_cursors_and_no_other() {
    let world = HttpWorld::new().await;
    let [ann, ben, cat] = three_users(&world).await;
    let ids = format!("id={ann}&id={ben}&id={cat}");

    for (query, found) in [("", "cba"), ("email_starts_with=ann", "a"), (&*ids, "cba")] {
        let (mut seen, mut cursor) = (String::new(), String::new());
        loop {
            let page = get(&world, &format!("/users?{query}&limit=1{cursor}")).await.json();
            seen.push(text(&page["data"][0]["email"]).chars().next().unwrap());
            assert_eq!(page["has_more"], page["next_cursor"].is_string());
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
            let other = get(&world, &format!("/users?id={ann}{cursor}")).await;
            assert_eq!(other.problem(), problem(400, "invalid_cursor"));
        }
        assert_eq!(seen, found, "{query}");
    }
}

#[tokio::test]
async fn bad_parameters_of_a_list_of_users_are_refused_by_name() {
    let world = HttpWorld::new().await;
    let many = vec![format!("id={NOBODY}"); 51].join("&");
    let enough = vec![format!("id={NOBODY}"); 50].join("&");
    assert_eq!(get(&world, &format!("/users?{enough}")).await.status, 200);

    for (query, parameter) in [
        ("email=", "email"),
        ("email=ann", "email"),
        ("email=a+b@example.com", "email"),
        ("email=a@example.com&email=a@example.com", "email"),
        ("email_starts_with=", "email_starts_with"),
        ("email_starts_with=an", "email_starts_with"),
        ("email_starts_with=%20an%20", "email_starts_with"),
        ("email_starts_with=an+n", "email_starts_with"),
        ("email_starts_with=ann@b%C3%BC", "email_starts_with"),
        (&*format!("email_starts_with={}", "a".repeat(255)), "email_starts_with"),
        ("email_starts_with=ann&email_starts_with=ben", "email_starts_with"),
        ("id=", "id"),
        ("id=x", "id"),
        (&*many, "id"),
        ("email=a@example.com&email_starts_with=ann", "email_starts_with"),
        (&*format!("email=a@example.com&id={NOBODY}"), "id"),
        (&*format!("id={NOBODY}&email_starts_with=ann"), "id"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("sort=email", "sort"),
        ("x=1", "x"),
    ] {
        let refused = get(&world, &format!("/users?{query}")).await;
        assert_eq!(refused.problem(), problem(400, "invalid_query"), "{query}");
        assert_eq!(refused.json()["parameter"], parameter, "{query}");
        assert_eq!(refused.header("cache-control"), Some("no-store"), "{query}");
    }
    for cursor in ["", "x", "AAAA"] {
        let refused = get(&world, &format!("/users?cursor={cursor}")).await;
        assert_eq!(refused.problem(), problem(400, "invalid_cursor"), "{cursor}");
    }
    for path in [format!("/users/{NOBODY}?x=1"), format!("/users/{NOBODY}/sessions?limit=1")] {
        assert_eq!(get(&world, &path).await.problem(), problem(400, "invalid_query"), "{path}");
    }
}

#[tokio::test]
async fn a_user_has_a_version_and_its_sessions_show_no_token() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    world.auth.clock.advance(Duration::from_secs(1));
    let second = world.sign_in("ann").await;

    let path = format!("/users/{}", ann.id);
    let user = get(&world, &path).await;
    let sessions = get(&world, &format!("{path}/sessions")).await;

    assert_eq!((user.header("etag"), &user.json()["version"]), (Some("\"2\""), &json!(2)));
    assert_eq!(user.header("cache-control"), Some("no-store"));
    let known = world.server("GET", &path, &[("if-none-match", "\"2\"")], "").await;
    assert_eq!((known.status, known.text()), (304, ""));
    let own = world.person("GET", "/authentication/tokens", &second.bearer).await;
    let without_current = |mut body: Value| {
        for session in body["data"].as_array_mut().unwrap() {
            session.as_object_mut().unwrap().remove("current");
        }
        body
    };
    assert_eq!(sessions.json(), without_current(own.json()));
    assert_eq!(sessions.json()["data"].as_array().unwrap().len(), 2);
    for session in sessions.json()["data"].as_array().unwrap() {
        assert!(session.get("current").is_none() && session.get("salt").is_none(), "{session}");
    }
}

#[tokio::test]
async fn revoking_ends_every_session_once_and_names_the_client() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    world.sign_in("ann").await;
    let ben = world.sign_up("ben").await;
    let path = format!("/users/{}/revoke-sessions", ann.id);
    let feed = async || {
        let all = EventQuery::after(0, PageLimit::MAX);
        world.auth.store.events(&all).await.unwrap().items
    };
    let before = feed().await.len();

    let first = world.server("POST", &path, &[], "").await;
    let told = feed().await.split_off(before);
    let again = world.server("POST", &path, &[], "{}").await;

    assert_eq!((first.status, first.text()), (200, r#"{"revoked":2}"#));
    assert_eq!((again.status, again.text()), (200, r#"{"revoked":0}"#));
    assert_eq!(told.len(), 3, "two sessions and their user: {told:?}");
    let server = Actor::Client("server".parse().unwrap());
    assert!(told.iter().all(|recorded| recorded.event.actor == server), "{told:?}");
    assert_eq!(feed().await.len(), before + told.len(), "the second call changed nothing");
    let refused = world.person("GET", "/authentication/tokens", &ann.bearer).await;
    assert_eq!(refused.problem(), problem(401, "session_revoked"));
    let other = world.person("GET", "/authentication/tokens", &ben.bearer).await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn an_account_that_is_being_deleted_is_answered_as_an_unknown_one() {
    let world = HttpWorld::new().await;
    let [ann, _, cat] = three_users(&world).await;
    world.auth.close(ann.parse().unwrap()).await;

    assert_eq!(initials(&world, "").await, "cb");
    assert_eq!(initials(&world, "email=ann@example.com").await, "");
    assert_eq!(initials(&world, "email_starts_with=ann").await, "");
    assert_eq!(initials(&world, &format!("id={ann}&id={cat}")).await, "c");
    for (method, rest) in [("GET", ""), ("GET", "/sessions"), ("POST", "/revoke-sessions")] {
        let mut answers = Vec::new();
        for id in ["x", "me", NOBODY, &*ann] {
            let path = format!("/users/{id}{rest}");
            let refused = world.server(method, &path, &[("x-request-id", "same")], "").await;
            assert_eq!(refused.problem(), problem(404, "not_found"), "{method} {path}");
            answers.push((refused.text().replace(id, "ID"), refused.headers));
        }
        assert_eq!(answers[2], answers[3], "{method} {rest}");
    }
}

#[tokio::test]
async fn the_payments_of_a_subscription_are_listed_newest_first_while_there_are_any() {
    let world = HttpWorld::new().await;
    let subscription = world.subscription("ann", &json!({})).await;
    let other = world.subscription("ben", &json!({})).await;
    let path = format!("/subscriptions/{}", text(&subscription["id"]));
    let payments = format!("{path}/payments");
    assert_eq!(get(&world, &payments).await.json()["data"], json!([]));
    let mut made = Vec::new();
    for _ in 0..3 {
        world.auth.clock.advance(Duration::from_secs(1));
        made.push(world.made("/subscription-payments", &payment_body(&subscription)).await);
        world.made("/subscription-payments", &payment_body(&other)).await;
    }
    let newest: Vec<_> = made.iter().rev().cloned().collect();

    let all = get(&world, &payments).await;
    let first = get(&world, &format!("{payments}?limit=2")).await.json();
    let rest = format!("{payments}?cursor={}", text(&first["next_cursor"]));

    assert_eq!(all.json()["data"], json!(newest));
    assert_eq!(first["data"], json!(newest[..2]));
    assert_eq!(get(&world, &rest).await.json()["data"], json!(newest[2..]));
    let elsewhere = rest.replace(&text(&subscription["id"]), &text(&other["id"]));
    assert_eq!(get(&world, &elsewhere).await.problem(), problem(400, "invalid_cursor"));
    assert_eq!(world.server("DELETE", &path, &[], "").await.status, 204);
    assert_eq!(get(&world, &payments).await.json()["data"], json!(newest));
    for payment in &made {
        let path = format!("/subscription-payments/{}", text(&payment["id"]));
        assert_eq!(world.server("DELETE", &path, &[], "").await.status, 204);
    }
    for gone in [payments, rest, format!("/subscriptions/{NOBODY}/payments")] {
        assert_eq!(get(&world, &gone).await.problem(), problem(404, "not_found"), "{gone}");
    }
}

#[tokio::test]
async fn the_payments_of_a_user_are_listed_newest_first_for_all_subscriptions() {
    let world = HttpWorld::new().await;
    let first = world.subscription("ann", &json!({})).await;
    let plan = world.plan("second").await;
    let body = json!({ "user_id": first["user_id"], "subscription_plan_id": plan["id"] });
    let second = world.made("/subscriptions", &body).await;
    let other = world.subscription("ben", &json!({})).await;
    let mut made = Vec::new();
    for of in [&first, &second, &first] {
        world.auth.clock.advance(Duration::from_secs(1));
        made.push(world.made("/subscription-payments", &payment_body(of)).await);
        world.made("/subscription-payments", &payment_body(&other)).await;
    }
    made.reverse();
    let payments = format!("/users/{}/payments", text(&first["user_id"]));

    let page = get(&world, &format!("{payments}?limit=2")).await.json();
    let rest = format!("{payments}?cursor={}", text(&page["next_cursor"]));

    assert_eq!(get(&world, &payments).await.json()["data"], json!(made));
    assert_eq!(page["data"], json!(made[..2]));
    assert_eq!(get(&world, &rest).await.json()["data"], json!(made[2..]));
    let elsewhere = rest.replace(&text(&first["user_id"]), &text(&other["user_id"]));
    assert_eq!(get(&world, &elsewhere).await.problem(), problem(400, "invalid_cursor"));
    let nobody = get(&world, &format!("/users/{NOBODY}/payments")).await.json();
    assert_eq!(nobody["data"], json!([]));
}

#[tokio::test]
async fn bad_parameters_of_a_list_of_payments_are_refused_by_name() {
    let world = HttpWorld::new().await;
    let subscription = world.subscription("ann", &json!({})).await;
    let payments = format!("/subscriptions/{}/payments", text(&subscription["id"]));

    for query in ["limit=0", "limit=x", "limit=1&limit=1", "sort=created_at", "status=succeeded"] {
        let refused = get(&world, &format!("{payments}?{query}")).await;
        assert_eq!(refused.problem(), problem(400, "invalid_query"), "{query}");
        assert_eq!(refused.json()["parameter"], query.split('=').next().unwrap(), "{query}");
    }
    let refused = get(&world, &format!("{payments}?cursor=x")).await;
    assert_eq!(refused.problem(), problem(400, "invalid_cursor"));
    assert_eq!(get(&world, "/subscriptions/x/payments").await.problem(), problem(404, "not_found"));
    let all = get(&world, "/subscription-payments").await;
    assert_eq!(all.problem(), problem(405, "method_not_allowed"));
}
