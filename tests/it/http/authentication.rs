//! `/authentication`: accounts, sessions and their tokens.

use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::auth::{ClientKind, Scope};

use super::world::{Answer, HttpWorld, Person, WEB, plan_body, problem, text};

const SIGN_IN: &str = "/authentication/sign-in";
const SIGN_UP: &str = "/authentication/sign-up";
const REFRESH: &str = "/authentication/refresh-token";
const LOGGED_IN: &str = "/authentication/user-logged-in";
const TOKENS: &str = "/authentication/tokens";
const LOGOUT: &str = "/authentication/tokens/logout";
const REVOKE_ALL: &str = "/authentication/tokens/revoke-all";
const REVOKE_OTHERS: &str = "/authentication/tokens/revoke-all-except-current";

const WEB_ONLY: [(&str, &str); 1] = [("client-id", WEB)];

/// The routes that take an access token of a live session.
fn bearer_routes(person: &Person) -> Vec<(&'static str, String)> {
    vec![
        ("POST", LOGGED_IN.into()),
        ("GET", TOKENS.into()),
        ("POST", REVOKE_ALL.into()),
        ("POST", REVOKE_OTHERS.into()),
        ("DELETE", format!("/authentication/delete-my-account/{}", person.id)),
    ]
}

fn is_private(answer: &Answer) {
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer:?}");
}

async fn refresh(world: &HttpWorld, token: &str) -> Answer {
    let body = json!({ "refresh_token": token }).to_string();
    world.call("POST", REFRESH, &WEB_ONLY, body).await
}

/// Refuses a token as the contract has it.
fn is_challenged(answer: &Answer, code: &str, what: &str) {
    assert_eq!(answer.problem(), problem(401, code), "{what}");
    let challenge = Some("Bearer error=\"invalid_token\"");
    assert_eq!(answer.header("www-authenticate"), challenge, "{what}");
    is_private(answer);
}

#[tokio::test]
async fn signing_up_in_and_refreshing_give_the_same_body() {
    let world = HttpWorld::new().await;
    let body = world.proof("ann", |_| {});

    let up = world.call("POST", SIGN_UP, &WEB_ONLY, body.clone()).await;
    let in_again = world.call("POST", SIGN_IN, &WEB_ONLY, body).await;
    let refreshed = refresh(&world, &text(&up.json()["refresh_token"])).await;

    let id = text(&up.json()["auth_id"]);
    for (answer, status) in [(up, 201), (in_again, 200), (refreshed, 200)] {
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        is_private(&answer);
        let mut body = answer.json();
        for name in ["access_token", "refresh_token", "session_id"] {
            assert!(!text(&body[name].take()).is_empty(), "{name}");
        }
        let user = json!({
            "id": id, "email": "ann@example.com", "created_at": "2025-01-31T00:00:00.000000Z",
        });
        let expected = json!({
            "access_token": null, "token_type": "Bearer", "expires_in": 600, "refresh_token": null,
            "refresh_expires_in": 1_209_600, "auth_id": id, "session_id": null, "user": user,
        });
        assert_eq!(body, expected);
    }
}

#[tokio::test]
async fn identities_that_are_not_proved_are_refused() {
    let world = HttpWorld::new().await;
    world.sign_up("ann").await;
    let bad_token = json!({ "access_token": "x.y.z", "email": "ann@example.com" }).to_string();
    let unknown = json!({ "access_token": "x.y.z", "email": "zoe@example.com" }).to_string();
    let other = |claims: &mut Value| claims["email"] = json!("eve@example.com");
    let unverified = |claims: &mut Value| claims["email_verified"] = json!(false);
    let unsaid = |claims: &mut Value| {
        claims.as_object_mut().unwrap().remove("email_verified");
    };

    for path in [SIGN_UP, SIGN_IN] {
        for (body, status, code) in [
            (bad_token.clone(), 401, "identity_rejected"),
            (unknown.clone(), 401, "identity_rejected"),
            (world.proof("ben", other), 403, "email_mismatch"),
            (world.proof("ben", unverified), 403, "email_not_verified"),
            (world.proof("ben", unsaid), 403, "email_not_verified"),
        ] {
            let refused = world.call("POST", path, &WEB_ONLY, body).await;
            assert_eq!(refused.problem(), problem(status, code), "{path}");
            is_private(&refused);
        }
        let id = [("client-id", WEB), ("x-request-id", "same")];
        let known = world.call("POST", path, &id, bad_token.clone()).await;
        let not = world.call("POST", path, &id, unknown.clone()).await;
        assert_eq!(known.body, not.body, "{path} tells who has an account");
        assert_eq!(known.headers, not.headers);
    }
}

#[tokio::test]
async fn accounts_are_made_once_and_found_only_where_they_are() {
    let world = HttpWorld::new().await;
    world.sign_up("ann").await;
    let same_email = |claims: &mut Value| claims["sub"] = json!("somebody else");

    for (path, body, status, code) in [
        (SIGN_UP, world.proof("ann", |_| {}), 409, "account_exists"),
        (SIGN_UP, world.proof("ann", same_email), 409, "email_in_use"),
        (SIGN_IN, world.proof("ann", same_email), 404, "account_not_found"),
        (SIGN_IN, world.proof("zoe", |_| {}), 404, "account_not_found"),
    ] {
        let refused = world.call("POST", path, &WEB_ONLY, body).await;
        assert_eq!(refused.problem(), problem(status, code), "{path}");
        is_private(&refused);
    }
}

#[tokio::test]
async fn bodies_of_authentication_take_their_fields_and_no_others() {
    let world = HttpWorld::new().await;

    for path in [SIGN_UP, SIGN_IN] {
        let empty = world.call("POST", path, &WEB_ONLY, "{}").await;
        assert_eq!(empty.faults(), ["access_token required", "email required"]);
        for field in ["id", "auth_id", "is_admin", "client_id", "email_verified"] {
            let mut body: Value = serde_json::from_str(&world.proof("ann", |_| {})).unwrap();
            body[field] = json!("x");
            let refused = world.call("POST", path, &WEB_ONLY, body.to_string()).await;
            assert_eq!(refused.faults(), [format!("{field} unknown_field")]);
        }
    }
    assert_eq!(
        world.call("POST", REFRESH, &WEB_ONLY, "{}").await.faults(),
        ["refresh_token required"]
    );
}

#[tokio::test]
async fn who_is_logged_in_is_told_with_their_session() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;

    let told = world.person("POST", LOGGED_IN, &ann.bearer).await;

    assert_eq!(told.status, 200, "{told:?}");
    is_private(&told);
    let (start, session) = ("2025-01-31T00:00:00.000000Z", &told.json()["session"]);
    let expected = json!({
        "id": ann.session, "current": true, "client": "web", "issuer": "https://id.example.com",
        "created_at": start, "auth_time": start, "last_refreshed_at": start,
        "last_seen_at": start, "expires_at": "2025-05-01T00:00:00.000000Z",
        "idle_expires_at": "2025-02-14T00:00:00.000000Z", "ip": "127.0.0.1", "user_agent": null,
    });
    assert_eq!(*session, expected);
    let user = json!({ "id": ann.id, "email": "ann@example.com", "created_at": start });
    let whole = json!({ "logged_in": true, "auth_id": ann.id, "user": user, "session": session });
    assert_eq!(told.json(), whole);
}

#[tokio::test]
async fn sessions_are_listed_newest_first_and_ended_one_by_one_or_together() {
    let world = HttpWorld::new().await;
    let first = world.sign_up("ann").await;
    world.auth.clock.advance(Duration::from_secs(1));
    let second = world.sign_in("ann").await;
    world.auth.clock.advance(Duration::from_secs(1));
    let third = world.sign_in("ann").await;

    let listed = world.person("GET", TOKENS, &second.bearer).await;
    assert_eq!(listed.status, 200);
    is_private(&listed);
    let told: Vec<_> = listed.json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| {
            (
                text(&session["id"]),
                session["current"].as_bool().unwrap(),
                session.as_object().unwrap().len(),
            )
        })
        .collect();
    let expected = [(&third, false, 12), (&second, true, 12), (&first, false, 12)];
    assert_eq!(told, expected.map(|(of, current, fields)| (of.session.clone(), current, fields)));
    for secret in [&first, &second].map(|person| &person.refresh_token) {
        assert!(!listed.text().contains(secret.as_str()));
    }

    let out = world.person("POST", LOGOUT, &first.bearer).await;
    assert_eq!((out.status, out.text()), (200, r#"{"revoked":1}"#));
    is_private(&out);
    let again = world.person("POST", LOGOUT, &first.bearer).await;
    assert_eq!((again.status, again.text()), (200, r#"{"revoked":0}"#));
    is_challenged(&world.person("GET", TOKENS, &first.bearer).await, "session_revoked", "first");

    let others = world.person("POST", REVOKE_OTHERS, &second.bearer).await;
    assert_eq!((others.status, others.text()), (200, r#"{"revoked":1}"#));
    is_challenged(&world.person("GET", TOKENS, &third.bearer).await, "session_revoked", "third");
    let all = world.person("POST", REVOKE_ALL, &second.bearer).await;
    assert_eq!((all.status, all.text()), (200, r#"{"revoked":1}"#));
    is_challenged(&world.person("GET", TOKENS, &second.bearer).await, "session_revoked", "second");
    let refused = refresh(&world, &second.refresh_token).await;
    assert_eq!(refused.problem(), problem(401, "session_revoked"));
}

#[tokio::test]
async fn tokens_that_do_not_count_are_told_apart_by_what_to_do() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    world.client("app", ClientKind::Public, Scope::is_public).await;
    let mut all = bearer_routes(&ann);
    all.push(("POST", LOGOUT.into()));

    for (method, path) in &all {
        for header in ["", "Bearer", "Bearer ", "Basic YTpi", "Token x"] {
            let refused = world.person(method, path, header).await;
            is_challenged(&refused, "token_missing", &format!("{path} {header}"));
        }
        let none = world.call(method, path, &WEB_ONLY, "").await;
        is_challenged(&none, "token_missing", path);
        let cut = &ann.bearer[..ann.bearer.len() - 2];
        for token in ["Bearer x", "Bearer a b", "bearer a.b.c", cut] {
            let refused = world.person(method, path, token).await;
            is_challenged(&refused, "token_invalid", &format!("{path} {token}"));
        }
        let theirs = [("client-id", "app"), ("authorization", &*ann.bearer)];
        let refused = world.call(method, path, &theirs, "").await;
        is_challenged(&refused, "token_invalid", path);
    }
    world.auth.clock.advance(Duration::from_mins(11));
    for (method, path) in bearer_routes(&ann) {
        let refused = world.person(method, &path, &ann.bearer).await;
        is_challenged(&refused, "token_expired", &path);
    }
    let out = world.person("POST", LOGOUT, &ann.bearer).await;
    assert_eq!((out.status, out.text()), (200, r#"{"revoked":1}"#), "expired but genuine");
}

#[tokio::test]
async fn refresh_tokens_are_refused_alike_unless_they_were_stolen() {
    let world = HttpWorld::new().await;
    world.client("app", ClientKind::Public, Scope::is_public).await;
    let ann = world.sign_up("ann").await;

    let forged = refresh(&world, "srt_AAAA").await;
    assert_eq!(forged.problem(), problem(401, "refresh_token_invalid"));
    is_private(&forged);
    let body = json!({ "refresh_token": ann.refresh_token }).to_string();
    let other = world.call("POST", REFRESH, &[("client-id", "app")], body).await;
    assert_eq!(other.problem(), problem(401, "refresh_token_invalid"));

    let second = Person::from(&refresh(&world, &ann.refresh_token).await.json());
    assert_eq!(world.person("GET", TOKENS, &ann.bearer).await.status, 200, "rotation kills none");
    assert_eq!(refresh(&world, &second.refresh_token).await.status, 200);
    let stolen = refresh(&world, &ann.refresh_token).await;
    assert_eq!(stolen.problem(), problem(401, "refresh_token_reused"));
    let after = refresh(&world, &second.refresh_token).await;
    assert_eq!(after.problem(), problem(401, "session_revoked"));

    let ben = world.sign_up("ben").await;
    world.auth.clock.advance(Duration::from_hours(15 * 24));
    let late = refresh(&world, &ben.refresh_token).await;
    assert_eq!(late.problem(), problem(401, "session_expired"));
}

#[tokio::test]
async fn an_account_is_deleted_by_its_user_alone() {
    let world = HttpWorld::new().await;
    let (ann, ben) = (world.sign_up("ann").await, world.sign_up("ben").await);
    let path = |id: &str| format!("/authentication/delete-my-account/{id}");
    let mut refusals = Vec::new();

    for id in [&*ben.id, "01940000-0000-7000-8000-000000000000", "me", "%20", "1"] {
        let headers =
            [("client-id", WEB), ("authorization", &*ann.bearer), ("x-request-id", "same")];
        let refused = world.call("DELETE", &path(id), &headers, "").await;
        assert_eq!(refused.problem(), problem(403, "auth_id_mismatch"), "{id}");
        is_private(&refused);
        refusals.push((refused.headers, refused.body));
    }
    assert!(refusals.windows(2).all(|two| two[0] == two[1]), "they tell who exists");

    let gone = world.person("DELETE", &path(&ann.id), &ann.bearer).await;
    assert_eq!((gone.status, gone.text()), (204, ""));
    is_private(&gone);
    is_challenged(&world.person("GET", TOKENS, &ann.bearer).await, "session_revoked", "gone");
    assert_eq!(refresh(&world, &ann.refresh_token).await.status, 401);
    assert_ne!(world.sign_up("ann").await.id, ann.id);
    assert_eq!(world.person("GET", TOKENS, &ben.bearer).await.status, 200);
}

#[tokio::test]
async fn an_account_that_is_being_deleted_refuses_all_calls_but_its_deletion() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let plan = world.server("POST", "/subscription-plans", &[], plan_body("pro").to_string()).await;
    let new = json!({ "user_id": ann.id, "subscription_plan_id": plan.json()["id"] }).to_string();
    world.auth.close(ann.id.parse().unwrap()).await;
    let mut bearer_routes = bearer_routes(&ann);
    let (method, deletion) = bearer_routes.pop().unwrap();
    bearer_routes.push(("POST", LOGOUT.into()));

    let mut refusals = vec![
        world.call("POST", SIGN_UP, &WEB_ONLY, world.proof("ann", |_| {})).await,
        world.call("POST", SIGN_IN, &WEB_ONLY, world.proof("ann", |_| {})).await,
        refresh(&world, &ann.refresh_token).await,
        world.server("POST", "/subscriptions", &[], new.clone()).await,
    ];
    for (method, path) in bearer_routes {
        refusals.push(world.person(method, &path, &ann.bearer).await);
    }

    for refused in refusals {
        assert_eq!(refused.problem(), problem(409, "account_closing"), "{:?}", refused.sent);
    }
    assert_eq!(world.person(method, &deletion, &ann.bearer).await.status, 204);
    assert_eq!(world.server("POST", "/subscriptions", &[], new).await.status, 422);
    world.sign_up("ann").await;
}
