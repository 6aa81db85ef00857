//! The names that the server answers to: DNS rebinding gets nothing.

use http::{Request, Version};
use http_body_util::Full;

use super::world::{HttpWorld, WEB, plan_body, problem};

const LIST: &str = "/subscription-plans";

#[tokio::test]
async fn in_development_a_page_that_rebinds_its_name_gets_nothing() {
    let world = HttpWorld::new().await.in_development();

    for host in ["evil.example", "evil.example:8080", "localhost.evil.example", "192.0.2.7"] {
        for (method, path) in [
            ("GET", LIST),
            ("POST", LIST),
            ("GET", "/subscriptions"),
            ("GET", "/metrics"),
            ("GET", "/health/ready"),
            ("GET", "/.well-known/jwks.json"),
            ("OPTIONS", LIST),
            ("GET", "/nowhere"),
        ] {
            let origin = format!("http://{host}");
            let headers = [("client-id", WEB), ("host", host), ("origin", &*origin)];
            let refused = world.call(method, path, &headers, plan_body("pro").to_string()).await;

            assert_eq!(refused.problem(), problem(400, "host_invalid"), "{host} {method} {path}");
            assert_eq!(refused.header("access-control-allow-origin"), None, "{host}");
        }
    }
    for host in ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "shop.localhost"] {
        let answer = world.call("GET", LIST, &[("client-id", WEB), ("host", host)], "").await;

        assert_eq!(answer.json()["data"], serde_json::json!([]), "{host}");
    }
}

#[tokio::test]
async fn a_name_in_the_request_line_counts_as_well() {
    let world = HttpWorld::new().await.in_development();
    for (uri, version, host, status) in [
        ("http://localhost:8080/subscription-plans", Version::HTTP_2, None, 200),
        ("http://evil.example/subscription-plans", Version::HTTP_2, None, 400),
        ("http://evil.example/subscription-plans", Version::HTTP_2, Some("localhost"), 400),
        ("http://localhost/subscription-plans", Version::HTTP_2, Some("evil.example"), 400),
        ("http://evil.example/subscription-plans", Version::HTTP_11, Some("localhost"), 400),
    ] {
        let mut request = Request::get(uri).version(version).header("client-id", WEB);
        if let Some(host) = host {
            request = request.header("host", host);
        }

        let answer = world.send(request.body(Full::default()).unwrap(), None).await;

        assert_eq!(answer.status, status, "{uri} {host:?}");
    }
}

#[tokio::test]
async fn in_production_listed_names_are_answered_and_probes_by_address() {
    let world = HttpWorld::new().await.answering_to(&["billing.example", "10.0.0.5:8080"]);

    for (host, path, status) in [
        ("billing.example", LIST, 200),
        ("Billing.Example:443", LIST, 200),
        ("10.0.0.5:8080", LIST, 200),
        ("10.0.0.5", LIST, 400),
        ("localhost", LIST, 400),
        ("evil.example", LIST, 400),
        ("10.0.0.6:8080", "/health/live", 200),
        ("10.0.0.6:8080", "/health/ready", 200),
        ("127.0.0.1:8080", "/metrics", 200),
        ("billing.example", "/metrics", 400),
    ] {
        let answer = world.call("GET", path, &[("client-id", WEB), ("host", host)], "").await;

        assert_eq!(answer.status, status, "{host} {path}");
    }
}

#[tokio::test]
async fn metrics_on_this_machine_are_for_those_who_meant_to_come_here() {
    let world = HttpWorld::new().await;
    let metrics = async |host| world.call("GET", "/metrics", &[("host", host)], "").await;

    assert_eq!(metrics("localhost:8080").await.status, 200);
    assert_eq!(metrics("127.0.0.1:8080").await.status, 200);
    assert_eq!(metrics("evil.example").await.problem(), problem(400, "host_invalid"));
    let from_afar = world.call_from("203.0.113.7", "GET", "/metrics", &[], "").await;
    assert_eq!(from_afar.problem(), problem(404, "route_not_found"));
    let plans = world.call("GET", LIST, &[("client-id", WEB), ("host", "any.example")], "").await;
    assert_eq!(plans.status, 200, "without a list every name will do");
}

#[tokio::test]
async fn a_listener_of_their_own_answers_operators_by_whatever_name_but_in_development() {
    let listed = HttpWorld::new().await.answering_to(&["billing.example"]);
    let development = HttpWorld::new().await.in_development();
    for (world, host, status) in [
        (listed, "billing-1.internal:9090", 200),
        (HttpWorld::new().await, "billing-1.internal:9090", 200),
        (development, "evil.example:9090", 400),
        (HttpWorld::new().await.in_development(), "localhost:9090", 200),
    ] {
        let operations = HttpWorld { api: world.api.operations(), ..world };
        for path in ["/metrics", "/health/live", "/health/ready"] {
            let answer = operations.call("GET", path, &[("host", host)], "").await;

            assert_eq!(answer.status, status, "{host} {path}");
        }
    }
}
