//! The contract's endpoints, walked from one table: who may call, and with which methods.

use std::collections::BTreeMap;

use subscription_core::auth::{ClientKind, Scope};

use super::world::{HttpWorld, WEB, problem, text};

/// An endpoint, the scope of its client, and whether it takes an access token.
pub(super) type Endpoint = (&'static str, &'static str, Scope, bool);

/// Section 1 of the contract, line by line, and the routes that were added to it.
pub(super) const ENDPOINTS: &[Endpoint] = &[
    ("POST", "/authentication/sign-in", Scope::Auth, false),
    ("POST", "/authentication/sign-up", Scope::Auth, false),
    ("POST", "/authentication/user-logged-in", Scope::Auth, true),
    ("POST", "/authentication/refresh-token", Scope::Auth, false),
    ("DELETE", "/authentication/delete-my-account/x", Scope::Auth, true),
    ("GET", "/authentication/tokens", Scope::Auth, true),
    ("POST", "/authentication/tokens/logout", Scope::Auth, true),
    ("POST", "/authentication/tokens/revoke-all", Scope::Auth, true),
    ("POST", "/authentication/tokens/revoke-all-except-current", Scope::Auth, true),
    ("GET", "/subscription-plans", Scope::PlansRead, false),
    ("GET", "/subscription-plans/x", Scope::PlansRead, false),
    ("POST", "/subscription-plans", Scope::PlansWrite, false),
    ("PUT", "/subscription-plans/x", Scope::PlansWrite, false),
    ("DELETE", "/subscription-plans/x", Scope::PlansWrite, false),
    ("GET", "/subscriptions", Scope::SubscriptionsRead, false),
    ("GET", "/subscriptions/x", Scope::SubscriptionsRead, false),
    ("POST", "/subscriptions", Scope::SubscriptionsWrite, false),
    ("PUT", "/subscriptions/x", Scope::SubscriptionsWrite, false),
    ("DELETE", "/subscriptions/x", Scope::SubscriptionsWrite, false),
    ("GET", "/subscription-payments/x", Scope::PaymentsRead, false),
    ("POST", "/subscription-payments", Scope::PaymentsWrite, false),
    ("PUT", "/subscription-payments/x", Scope::PaymentsWrite, false),
    ("DELETE", "/subscription-payments/x", Scope::PaymentsWrite, false),
    ("GET", "/users/x/entitlement", Scope::SubscriptionsRead, false),
    ("GET", "/subscription-plans/x/checkout-link", Scope::SubscriptionsRead, false),
    ("GET", "/me/entitlement", Scope::Auth, true),
    ("GET", "/me/subscriptions", Scope::Auth, true),
    ("GET", "/me/checkout-link", Scope::Auth, true),
    ("POST", "/me/subscriptions/x/cancel", Scope::Auth, true),
    ("POST", "/me/subscriptions/x/resume", Scope::Auth, true),
];

/// True if answers to a path must not be stored by caches.
fn is_private(path: &str) -> bool {
    ["/authentication", "/users/", "/me/"].iter().any(|area| path.starts_with(area))
}

pub(super) const BESIDE: [&str; 6] = [
    "/.well-known/jwks.json",
    "/health/live",
    "/health/ready",
    "/metrics",
    "/openapi.json",
    "/docs",
];

#[tokio::test]
async fn every_endpoint_asks_for_a_client_with_its_scope() {
    let world = HttpWorld::new().await;
    let (mut lacking, mut only) = (BTreeMap::new(), BTreeMap::new());
    for (nth, scope) in Scope::ALL.into_iter().enumerate() {
        let kind = ClientKind::Confidential;
        let all_but = world.client(&format!("but-{nth}"), kind, |other| other != scope).await;
        let only_one = world.client(&format!("only-{nth}"), kind, |other| other == scope).await;
        lacking.insert(scope, all_but);
        only.insert(scope, only_one);
    }

    for (method, path, scope, bearer) in ENDPOINTS.iter().copied() {
        let what = format!("{method} {path}");
        let nobody = world.call(method, path, &[], "{}").await;
        assert_eq!(nobody.problem(), problem(401, "client_id_missing"), "{what}");
        let unknown = world.call(method, path, &[("client-id", "nobody")], "{}").await;
        assert_eq!(unknown.problem(), problem(401, "client_unknown"), "{what}");
        let lacks = world.call(method, path, &[("client-id", &*lacking[&scope])], "{}").await;
        assert_eq!(lacks.problem(), problem(403, "scope_missing"), "{what}");
        assert!(text(&lacks.json()["detail"]).contains(scope.as_str()), "{what}");
        let has = world.call(method, path, &[("client-id", &*only[&scope])], "{}").await;
        if bearer {
            assert_eq!(has.problem(), problem(401, "token_missing"), "{what}");
        } else {
            assert!(![401, 403, 405].contains(&has.status), "{what} {has:?}");
        }
    }
}

#[tokio::test]
async fn a_browser_gets_no_further_than_its_scopes() {
    let world = HttpWorld::new().await;

    for (method, path, scope, _) in ENDPOINTS.iter().copied() {
        let answer = world.call(method, path, &[("client-id", WEB)], "{}").await;
        assert_eq!(answer.status == 403, !scope.is_public(), "{method} {path}");
    }
}

#[tokio::test]
async fn other_methods_are_refused_with_those_that_there_are() {
    let world = HttpWorld::new().await;
    let mut allowed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (method, path, ..) in ENDPOINTS.iter().copied() {
        allowed.entry(path).or_default().push(method);
    }
    for path in BESIDE {
        allowed.insert(path, vec!["GET"]);
    }

    for (path, methods) in allowed {
        let mut expected = methods.clone();
        if methods.contains(&"GET") {
            expected.push("HEAD");
        }
        expected.push("OPTIONS");
        expected.sort_unstable();
        let sorted = |allow: Option<&str>| {
            let mut names: Vec<_> = allow.unwrap().split(", ").map(str::to_owned).collect();
            names.sort_unstable();
            names
        };
        let options = world.call("OPTIONS", path, &[], "").await;
        assert_eq!((options.status, options.text()), (204, ""), "{path}");
        assert_eq!(sorted(options.header("allow")), expected, "{path}");
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get"]
        {
            if expected.contains(&method) {
                continue;
            }
            let refused = world.server(method, path, &[], "").await;
            assert_eq!(refused.status, 405, "{method} {path}");
            assert_eq!(sorted(refused.header("allow")), expected, "{method} {path}");
            if method != "HEAD" {
                assert_eq!(refused.problem(), problem(405, "method_not_allowed"));
            }
            let private = is_private(path).then_some("no-store");
            assert_eq!(refused.header("cache-control"), private, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn head_answers_as_get_does_without_the_body() {
    let world = HttpWorld::new().await;
    world.plan("pro").await;
    let id = ("x-request-id", "same");

    for path in ["/subscription-plans", "/subscription-plans/pro", "/subscription-plans/none"] {
        let get = world.server("GET", path, &[id], "").await;
        let mut head = world.server("HEAD", path, &[id], "").await;

        assert_eq!((head.status, head.text()), (get.status, ""), "{path}");
        let length = head.headers.remove("content-length").unwrap();
        assert_eq!(length, get.body.len().to_string(), "{path}");
        assert_eq!(head.headers, get.headers, "{path}");
    }
}

#[tokio::test]
async fn paths_that_there_are_not_are_told_apart_from_records_that_there_are_not() {
    let world = HttpWorld::new().await;

    for path in ["/", "/x", "/subscription", "/subscriptions/x/y", "/authentication", "/v1"] {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"] {
            let refused = world.server(method, path, &[], "").await;
            assert_eq!(refused.status, 404, "{method} {path}");
            if method != "HEAD" {
                assert_eq!(refused.problem(), problem(404, "route_not_found"));
            }
        }
    }
}

#[tokio::test]
async fn a_request_keeps_its_id_if_it_is_a_sound_one() {
    let world = HttpWorld::new().await;
    let longest = "~".repeat(128);
    let too_long = "x".repeat(129);

    for id in ["1", "a-b_c.d", "!\"#{}<script>", &longest] {
        let answer = world.call("GET", "/x", &[("x-request-id", id)], "").await;
        assert_eq!(answer.header("x-request-id"), Some(id));
        assert_eq!(answer.json()["request_id"], id);
    }
    let mut new = std::collections::BTreeSet::new();
    for id in ["", "a b", " ", "\u{fc}", "a\tb", &too_long] {
        let answer = world.call("GET", "/x", &[("x-request-id", id)], "").await;
        let given = answer.header("x-request-id").unwrap().to_owned();
        assert_eq!(given.parse::<uuid::Uuid>().unwrap().get_version_num(), 4, "{given}");
        answer.problem();
        assert!(new.insert(given), "{id}");
    }
    let none = world.call("GET", "/health/live", &[], "").await;
    assert!(new.insert(none.header("x-request-id").unwrap().to_owned()));
}

#[tokio::test]
async fn ids_of_requests_come_from_the_services_source() {
    let (world, twin) = (HttpWorld::new().await, HttpWorld::new().await);

    let answer = world.call("GET", "/x", &[], "").await;

    let same = twin.call("GET", "/x", &[], "").await;
    assert_eq!(answer.header("x-request-id"), same.header("x-request-id"));
}

#[tokio::test]
async fn what_stands_beside_the_endpoints_needs_no_client() {
    let world = HttpWorld::new().await;

    for (path, body) in
        [("/health/live", r#"{"status":"live"}"#), ("/health/ready", r#"{"status":"ready"}"#)]
    {
        let answer = world.call("GET", path, &[], "").await;
        assert_eq!((answer.status, answer.text()), (200, body));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    let keys = world.call("GET", "/.well-known/jwks.json", &[], "").await;
    assert_eq!(keys.status, 200);
    let keys = keys.json();
    let key = keys["keys"][0].as_object().unwrap();
    assert!(key.contains_key("x") && !key.contains_key("d"), "{key:?}");
}
