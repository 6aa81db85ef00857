//! Links to the portal: who makes them, what a person sees and does with one, and what else it opens: nothing.

use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::auth::{ClientKind, Scope};
use subscription_core::store::PageLimit;

use super::world::{Answer, HttpWorld, PORTAL, WEB, add, payment_body, plan_body, problem, text};

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";
const PAGE: &str = "https://account.example";

/// A plan that the clock bills for 19.99 USD, and a subscription of a user to it, with what `more` adds.
async fn billed(world: &HttpWorld, user: &str, slug: &str, more: &Value) -> Value {
    let mut plan = plan_body(slug);
    add(&mut plan, &json!({ "currency": "USD" }));
    let plan = world.made("/subscription-plans", &plan).await;
    let mut body = json!({ "user_id": user, "subscription_plan_id": plan["id"] });
    add(&mut body, more);
    world.made("/subscriptions", &body).await
}

/// What is the same in every answer of the same kind.
fn without_id(answer: &Answer) -> String {
    let id = answer.header("x-request-id").unwrap();
    format!("{:?} {}", answer.headers, answer.text()).replace(id, "")
}

#[tokio::test]
async fn a_link_leads_to_the_page_and_is_neither_stored_nor_cached() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let before = world.auth.service.events(0, PageLimit::MAX).await.unwrap().len();
    let path = format!("/users/{}/portal-links", ann.id);

    let made = world.server("POST", &path, &[], "").await;

    assert_eq!((made.status, made.header("cache-control")), (201, Some("no-store")));
    let body = made.json();
    assert!(text(&body["url"]).starts_with(&format!("{PORTAL}#token=spt_")), "{body}");
    assert_eq!(body["expires_at"], "2025-01-31T00:30:00.000000Z");
    world.auth.clock.advance(Duration::from_secs(1));
    let again = world.server("POST", &path, &[], "").await.json();
    assert_ne!(again["url"], body["url"]);
    assert_eq!(world.auth.service.events(0, PageLimit::MAX).await.unwrap().len(), before);
    for user in [NOBODY, "x"] {
        let path = format!("/users/{user}/portal-links");
        let refused = world.server("POST", &path, &[], "").await;
        assert_eq!(refused.problem(), problem(404, "not_found"), "{user}");
    }
    world.auth.close(ann.id.parse().unwrap()).await;
    let refused = world.server("POST", &path, &[], "").await;
    assert_eq!(refused.problem(), problem(409, "account_closing"));
}

#[tokio::test]
async fn only_the_scope_of_its_own_makes_links_and_only_where_there_is_a_page() {
    assert!(!Scope::PortalWrite.is_public());
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let path = format!("/users/{}/portal-links", ann.id);
    let all_but = |scope| scope != Scope::PortalWrite;
    let support = world.client("support", ClientKind::Confidential, all_but).await;
    let refused = world.call("POST", &path, &[("client-id", &support)], "").await;
    assert_eq!(refused.problem(), problem(403, "scope_missing"));

    let without_page = world.allowing(&[]);
    let refused = without_page.server("POST", &path, &[], "").await;
    assert_eq!(refused.problem(), problem(404, "route_not_found"));
    let document = without_page.call("GET", "/openapi.json", &[], "").await.json();
    assert_eq!(document["paths"].get("/users/{user_id}/portal-links"), None);
}

#[tokio::test]
async fn a_person_sees_the_same_by_link_as_by_session_and_is_the_actor_of_changes() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let made = billed(&world, &ann.id, "pro", &json!({})).await;
    let link = world.portal_link(&ann.id).await;

    for path in
        ["/me/entitlement", "/me/subscriptions", "/me/payments", "/me/checkout-link?plan=pro"]
    {
        let by_link = world.portal("GET", path, &link).await;
        let by_session = world.person("GET", path, &ann.bearer).await;
        assert_eq!((by_link.status, by_link.text()), (200, by_session.text()), "{path}");
        assert_eq!(by_link.header("cache-control"), Some("no-store"), "{path}");
    }
    // A client that is sent with it is not looked at.
    let headers = [("authorization", &*link), ("client-id", "nobody")];
    assert_eq!(world.call("GET", "/me/entitlement", &headers, "").await.status, 200);
    let id = text(&made["id"]);
    for verb in ["cancel", "resume"] {
        let path = format!("/me/subscriptions/{id}/{verb}");
        assert_eq!(world.portal("POST", &path, &link).await.status, 200, "{verb}");
    }
    let events = world.auth.service.events(0, PageLimit::MAX).await.unwrap();
    let actors = events.iter().rev().take(2).map(|recorded| {
        let actor = &recorded.event.actor;
        format!("{} by {actor}", recorded.event.name())
    });
    let changed = format!("subscription.status_changed by user:{}", ann.id);
    assert_eq!(actors.collect::<Vec<_>>(), [changed.clone(), changed]);
}

#[tokio::test]
async fn where_users_are_another_systems_every_uuid_gets_a_link() {
    let world = HttpWorld::new().await;
    let made = world.on_clock("ann", &json!({})).await;
    let ann = text(&made["user_id"]);
    let world = world.with_users_of_others();
    for (user, count) in [(&*ann, 1), (NOBODY, 0)] {
        let link = world.portal_link(user).await;
        let page = world.portal("GET", "/me/subscriptions", &link).await;
        assert_eq!(page.json()["data"].as_array().unwrap().len(), count, "{user}");
    }
}

#[tokio::test]
async fn what_is_not_genuine_gets_the_same_bytes_on_every_route() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let link = world.portal_link(&ann.id).await;
    let cut = &link[..link.len() - 1];
    let forged = format!("{}AAAA", &link[..link.len() - 4]);
    let refresh = format!("Bearer spt_{}", &ann.refresh_token[4..]);
    let path = "/me/subscriptions";

    let refused = world.portal("GET", path, "Bearer spt_x").await;
    assert_eq!(refused.problem(), problem(401, "token_invalid"));
    assert_eq!(refused.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
    for token in [cut, &forged, &refresh] {
        assert_eq!(without_id(&world.portal("GET", path, token).await), without_id(&refused));
    }
    // Without the prefix it is an access token, which needs a client.
    let other = world.portal("GET", path, &ann.bearer).await;
    assert_eq!(other.problem(), problem(401, "client_id_missing"));
    world.auth.clock.advance(Duration::from_secs(1_800 + 31));
    let expired = world.portal("GET", path, &link).await;
    assert_eq!(expired.problem(), problem(401, "token_expired"));
}

#[tokio::test]
async fn a_link_ends_with_its_account() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let ben = world.sign_up("ben").await;
    let link = world.portal_link(&ann.id).await;
    let other = world.portal_link(&ben.id).await;
    // A log-out does not end it.
    world.person("POST", "/authentication/tokens/revoke-all", &ann.bearer).await;
    assert_eq!(world.portal("GET", "/me/entitlement", &link).await.status, 200);
    let ann = world.sign_in("ann").await;
    let path = format!("/authentication/delete-my-account/{}", ann.id);
    assert_eq!(world.person("DELETE", &path, &ann.bearer).await.status, 204);
    world.auth.close(ben.id.parse().unwrap()).await;

    for path in
        ["/me/entitlement", "/me/subscriptions", "/me/payments", "/me/checkout-link?plan=pro"]
    {
        let refused = world.portal("GET", path, &link).await;
        assert_eq!(refused.problem(), problem(401, "session_revoked"), "{path}");
        let refused = world.portal("GET", path, &other).await;
        assert_eq!(refused.problem(), problem(409, "account_closing"), "{path}");
    }
}

#[tokio::test]
async fn payments_are_the_persons_own_newest_first_page_by_page() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let ben = world.sign_up("ben").await;
    let first = billed(&world, &ann.id, "pro", &json!({})).await;
    world.auth.clock.advance(Duration::from_secs(1));
    let second = billed(&world, &ann.id, "team", &json!({})).await;
    let foreign = billed(&world, &ben.id, "other", &json!({})).await;
    world.auth.clock.advance(Duration::from_secs(1));
    let mut imported = payment_body(&second);
    add(&mut imported, &json!({ "external_payment_id": "pay_1", "metadata": { "order": "1" } }));
    world.made("/subscription-payments", &imported).await;
    let link = world.portal_link(&ann.id).await;
    let read = async |path: &str| world.portal("GET", path, &link).await;

    let all = read("/me/payments").await.json();
    let ids: Vec<_> =
        all["data"].as_array().unwrap().iter().map(|it| &it["subscription_id"]).collect();
    assert_eq!(ids, [&second["id"], &second["id"], &first["id"]]);
    let shown = &all["data"][2];
    let payment = world.newest_payment(&first).await;
    assert_eq!(
        *shown,
        json!({
            "id": payment["id"], "subscription_id": first["id"], "amount": 19.99, "currency": "USD",
            "status": "pending", "kind": "initial", "lines": [{ "kind": "period", "amount": 19.99 }],
            "period_start": "2025-01-31T00:00:00.000000Z",
            "period_end": "2025-02-28T00:00:00.000000Z", "due_at": "2025-01-31T00:00:00.000000Z",
            "next_attempt_at": null, "created_at": payment["created_at"],
        })
    );
    assert_eq!((&all["data"][0]["lines"], &all["data"][0]["kind"]), (&Value::Null, &Value::Null));
    let path = format!("/me/payments?subscription_id={}&limit=1", text(&second["id"]));
    let page = read(&path).await.json();
    let next = format!("{path}&cursor={}", text(&page["next_cursor"]));
    assert_eq!(page["data"][0], all["data"][0]);
    assert_eq!(read(&next).await.json()["data"], json!([all["data"][1]]));
    // The cursor is the person's: also with a session at a client, and not with another person's link.
    assert_eq!(world.person("GET", &next, &ann.bearer).await.status, 200);
    let page = read("/me/payments?limit=1").await.json();
    let next = format!("/me/payments?limit=1&cursor={}", text(&page["next_cursor"]));
    assert_eq!(world.person("GET", &next, &ann.bearer).await.status, 200);
    let other = world.portal("GET", &next, &world.portal_link(&ben.id).await).await;
    assert_eq!(other.problem(), problem(400, "invalid_cursor"));

    let asked = async |id: &str| read(&format!("/me/payments?subscription_id={id}")).await;
    let theirs = asked(&text(&foreign["id"])).await;
    let unknown = asked(NOBODY).await;
    assert_eq!(theirs.problem(), problem(404, "not_found"));
    assert_eq!(without_id(&theirs), without_id(&unknown));
    for query in ["subscription_id=x", "limit=0", "status=pending", "cursor=x&cursor=y"] {
        let refused = read(&format!("/me/payments?{query}")).await;
        assert_eq!(refused.problem(), problem(400, "invalid_query"), "{query}");
    }
}

#[tokio::test]
async fn a_person_sees_what_is_charged_next_and_what_changes_then() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let made = billed(&world, &ann.id, "pro", &json!({})).await;
    let path = format!("/subscriptions/{}", text(&made["id"]));
    let link = world.portal_link(&ann.id).await;
    let mine =
        async || world.portal("GET", "/me/subscriptions", &link).await.json()["data"][0].clone();
    let post = async |verb: &str, body: &str| {
        let answer = world.server("POST", &format!("{path}/{verb}"), &[], body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let renewal = "2025-02-28T00:00:00.000000Z";

    let shown = mine().await;
    assert_eq!(shown["next_charge"], json!({ "at": renewal, "amount": 19.99, "currency": "USD" }));
    assert_eq!((&shown["credit"], &shown["discount"]), (&json!(0), &Value::Null));
    assert_eq!(shown["scheduled_change"], Value::Null);

    post("discount", r#"{"amount":5,"periods":1}"#).await;
    let shown = mine().await;
    assert_eq!(shown["discount"]["amount"], 5);
    assert_eq!(shown["next_charge"]["amount"], 14.99);
    let mut team = plan_body("team");
    add(&mut team, &json!({ "currency": "USD", "price": "30.00", "name": "Team" }));
    let team = world.made("/subscription-plans", &team).await;
    let change = json!({ "subscription_plan_id": team["id"], "effective": "period_end" });
    post("change-plan", &change.to_string()).await;
    let shown = mine().await;
    // The discount ends with the plan.
    assert_eq!(shown["next_charge"]["amount"], 30.0);
    let scheduled = &shown["scheduled_change"];
    assert_eq!(
        (&scheduled["action"], &scheduled["effective_at"]),
        (&json!("change_plan"), &json!(renewal))
    );
    assert_eq!(scheduled["plan"], json!({ "slug": "team", "name": "Team" }));

    world.server("DELETE", &format!("{path}/scheduled-change"), &[], "").await;
    post("pause", "").await;
    let shown = mine().await;
    assert_eq!(
        (&shown["next_charge"], &shown["scheduled_change"]["plan"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(shown["scheduled_change"]["action"], "pause");
    // Nobody knows what callers will charge.
    let theirs = world.subscription("ben", &json!({})).await;
    let link = world.portal_link(&text(&theirs["user_id"])).await;
    let shown = world.portal("GET", "/me/subscriptions", &link).await.json();
    assert_eq!(shown["data"][0]["next_charge"], Value::Null);
    // Nothing is ever charged for a plan that is free.
    let free = json!({ "price": "0" });
    let cat = world.sign_up("cat").await;
    billed(&world, &cat.id, "free", &free).await;
    let shown = world.person("GET", "/me/subscriptions", &cat.bearer).await.json();
    assert_eq!(shown["data"][0]["next_charge"], Value::Null);
}

#[tokio::test]
async fn the_page_may_read_the_answers_to_calls_without_a_client() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let link = world.portal_link(&ann.id).await;
    let granted = |answer: &Answer| answer.header("access-control-allow-origin").map(str::to_owned);
    let from = async |method: &str, origin: &str, more: &[(&str, &str)]| {
        let headers = [&[("origin", origin)], more].concat();
        world.call(method, "/me/subscriptions", &headers, "").await
    };
    let asks = [("access-control-request-method", "GET")];

    let preflight = from("OPTIONS", PAGE, &asks).await;
    assert_eq!((preflight.status, granted(&preflight)), (204, Some(PAGE.into())));
    for authorization in [&*link, "Bearer spt_x"] {
        let answer = from("GET", PAGE, &[("authorization", authorization)]).await;
        assert_eq!(granted(&answer), Some(PAGE.into()), "{answer:?}");
    }
    // Clients grant their own origins.
    for client in [WEB, &world.server] {
        let answer =
            from("GET", PAGE, &[("client-id", client), ("authorization", &ann.bearer)]).await;
        assert_eq!(granted(&answer), None, "{client}");
    }
    for origin in
        ["https://evil.example", "https://account.example:444", "http://account.example", "null"]
    {
        assert_eq!(granted(&from("OPTIONS", origin, &asks).await), None, "{origin}");
        let answer = from("GET", origin, &[("authorization", &*link)]).await;
        assert_eq!(granted(&answer), None, "{origin}");
    }
}
