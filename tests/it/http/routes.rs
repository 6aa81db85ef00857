//! Methods, paths and headers of every route. The callers that each is for are in `matrix`.

use std::collections::BTreeMap;

use super::matrix::ROWS;
use super::world::{HttpWorld, problem};

/// A path of a pattern.
pub(super) fn sample(pattern: &str) -> String {
    let parts = pattern.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn other_methods_are_refused_with_those_that_there_are() {
    let world = HttpWorld::new().await;
    let mut allowed: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (route, ..) in ROWS {
        let (method, pattern) = route.split_once(' ').unwrap();
        allowed.entry(sample(pattern)).or_default().push(method);
    }

    for (path, methods) in &allowed {
        let path = path.as_str();
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
