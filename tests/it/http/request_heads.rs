//! Requests that are refused before they reach a handler: by headers, paths and bodies.

use http::{HeaderValue, Request, Version};
use http_body_util::Full;

use super::world::{HttpWorld, WEB, plan_body, problem};

const LIST: &str = "/subscription-plans";

#[tokio::test]
async fn headers_that_decide_are_sent_once_and_in_ascii() {
    let world = HttpWorld::new().await;
    let json = "application/json";

    for (name, values) in [
        ("client-id", [WEB, "other"]),
        ("authorization", ["Bearer a", "Bearer b"]),
        ("content-type", [json, json]),
        ("transfer-encoding", ["chunked", "chunked"]),
    ] {
        for [first, second] in [values, [values[1], values[0]]] {
            let mut headers = vec![(name, first), (name, second)];
            if name != "client-id" {
                headers.push(("client-id", WEB));
            }
            let refused = world.call("GET", LIST, &headers, "").await;
            assert_eq!(refused.problem(), problem(400, "header_invalid"), "{name}");
            assert!(refused.text().contains(name), "{refused:?}");
        }
    }
    for coding in ["gzip", "gzip, chunked", "chunked, chunked", "xchunked", "identity", ""] {
        let headers = [("client-id", WEB), ("transfer-encoding", coding)];
        let refused = world.call("GET", LIST, &headers, "").await;
        assert_eq!(refused.problem(), problem(400, "header_invalid"), "{coding}");
    }
    let chunked = [("client-id", WEB), ("transfer-encoding", "Chunked")];
    assert_eq!(world.call("GET", LIST, &chunked, "").await.status, 200);
}

#[tokio::test]
async fn bytes_that_are_no_ascii_are_refused_where_they_are_read() {
    let world = HttpWorld::new().await;
    world.plan("pro").await;

    for name in ["client-id", "authorization", "content-type", "host", "if-none-match"] {
        for byte in 0x80..=0xff {
            let mut request =
                Request::get("/subscription-plans/pro").body(Full::default()).unwrap();
            let headers = request.headers_mut();
            headers.insert("host", HeaderValue::from_static("localhost"));
            headers.insert("client-id", HeaderValue::from_static(WEB));
            headers.insert(name, HeaderValue::from_bytes(&[b'a', byte]).unwrap());
            let refused = world.send(request, None).await;
            let code = if name == "host" { "host_invalid" } else { "header_invalid" };
            assert_eq!(refused.problem(), problem(400, code), "{name} {byte:x}");
        }
    }
    let headers = [("if-match", "\u{fc}")];
    let refused = world.server("PUT", "/subscription-plans/pro", &headers, "{}").await;
    assert_eq!(refused.problem(), problem(400, "header_invalid"));
    let headers = [("client-id", WEB), ("user-agent", "\u{fc}"), ("x-forwarded-for", "\u{fc}")];
    assert_eq!(world.call("GET", LIST, &headers, "").await.status, 200, "never an error");
}

#[tokio::test]
async fn a_request_has_one_sound_host() {
    let world = HttpWorld::new().await;
    let client = ("client-id", WEB);

    for host in ["", " ", "a b", "a/b", "user@host", "http://host", "a, b", "a\tb"] {
        let refused = world.call("GET", LIST, &[client, ("host", host)], "").await;
        assert_eq!(refused.problem(), problem(400, "host_invalid"), "{host}");
    }
    let two = [client, ("host", "localhost"), ("host", "localhost")];
    assert_eq!(world.call("GET", LIST, &two, "").await.problem(), problem(400, "host_invalid"));
    for host in ["localhost", "localhost:8080", "[::1]:80", "127.0.0.1", "a.example"] {
        let answer = world.call("GET", LIST, &[client, ("host", host)], "").await;
        assert_eq!(answer.status, 200, "{host}");
    }
    for (uri, version, status) in [
        (LIST, Version::HTTP_11, 400),
        (LIST, Version::HTTP_10, 400),
        ("http://localhost/subscription-plans", Version::HTTP_11, 400),
        (LIST, Version::HTTP_2, 400),
        ("http://localhost/subscription-plans", Version::HTTP_2, 200),
    ] {
        let request = Request::get(uri).version(version).header("client-id", WEB);
        let answer = world.send(request.body(Full::default()).unwrap(), None).await;
        assert_eq!(answer.status, status, "{uri} {version:?}");
    }
}

#[tokio::test]
async fn who_calls_is_told_apart_from_who_does_not() {
    let world = HttpWorld::new().await;
    let wrong_key = format!("{}A", &world.server[..world.server.len() - 1]);
    let (longest, too_long) = ("a".repeat(200), "a".repeat(201));
    world.auth.auth.revoke_client(&test_support::service_world::of("server")).await.unwrap();

    for (id, status, code) in [
        ("", 401, "client_id_missing"),
        ("  ", 401, "client_id_missing"),
        ("nobody", 401, "client_unknown"),
        ("server", 401, "client_unknown"),
        ("Web", 401, "client_unknown"),
        ("web web", 401, "client_unknown"),
        (&*wrong_key, 401, "client_unknown"),
        (&*world.server, 401, "client_unknown"),
        (&*longest, 401, "client_unknown"),
        (&*too_long, 400, "header_invalid"),
    ] {
        let refused = world.call("GET", LIST, &[("client-id", id)], "").await;
        assert_eq!(refused.problem(), problem(status, code), "{id}");
    }
}

#[tokio::test]
async fn tricks_with_paths_lead_nowhere() {
    let world = HttpWorld::new().await;
    world.plan("pro").await;
    let tricks = [
        ("/subscription-plans/%2e%2e/subscriptions", 400, "path_invalid"),
        ("/subscription-plans/../subscriptions", 400, "path_invalid"),
        ("/subscription-plans/.", 400, "path_invalid"),
        ("/subscription-plans/%2E", 400, "path_invalid"),
        ("/subscription-plans%2fpro", 400, "path_invalid"),
        ("/subscription-plans/pro%2F", 400, "path_invalid"),
        ("/subscription-plans/a%5cb", 400, "path_invalid"),
        ("/subscription-plans/pro%00", 400, "path_invalid"),
        ("/subscription-plans/pro%0d%0aset-cookie:x", 400, "path_invalid"),
        ("/subscription-plans/pro%7f", 400, "path_invalid"),
        ("/subscription-plans/%c0%ae%c0%ae", 400, "path_invalid"),
        ("/subscription-plans/%ff", 400, "path_invalid"),
        ("//subscription-plans", 404, "route_not_found"),
        ("/subscription-plans//pro", 404, "route_not_found"),
        ("/subscription-plans/", 404, "route_not_found"),
        ("/subscription-plans/pro/", 404, "route_not_found"),
        ("/subscription-plans;x", 404, "route_not_found"),
        ("/Subscription-Plans", 404, "route_not_found"),
        ("/%252e%252e/subscription-plans", 404, "route_not_found"),
        ("/", 404, "route_not_found"),
        ("*", 404, "route_not_found"),
        ("/subscription-plans/%252e%252e", 404, "not_found"),
        ("/subscription-plans/pro%252f", 404, "not_found"),
        ("/subscription-plans/pro;x", 404, "not_found"),
        ("/subscription-plans/pro%20", 404, "not_found"),
        ("/subscription-plans/%zz", 404, "not_found"),
    ];

    for (path, status, code) in tricks {
        let refused = world.server("GET", path, &[], "").await;
        assert_eq!(refused.problem(), problem(status, code), "{path}");
    }
    let encoded = world.server("GET", "/subscription%2dplans/%70ro", &[], "").await;
    assert_eq!(encoded.status, 200, "decoded once");
}

#[tokio::test]
async fn a_uri_has_its_length() {
    let world = HttpWorld::new().await;
    let path = |length: usize| format!("{LIST}?x={}", "a".repeat(length - LIST.len() - 3));

    let longest = world.server("GET", &path(8_192), &[], "").await;
    assert_eq!(longest.problem(), problem(400, "invalid_query"));
    let longer = world.server("GET", &path(8_193), &[], "").await;
    assert_eq!(longer.problem(), problem(414, "uri_too_long"));
}

#[tokio::test]
async fn a_body_has_its_length_and_its_type() {
    let world = HttpWorld::new().await;
    let padded = |length: usize| {
        let body = plan_body(&format!("of-{length}")).to_string();
        format!("{body}{}", " ".repeat(length - body.len()))
    };

    let longest = world.server("POST", LIST, &[], padded(65_536)).await;
    assert_eq!(longest.status, 201);
    let longer = world.server("POST", LIST, &[], padded(65_537)).await;
    assert_eq!(longer.problem(), problem(413, "body_too_large"));

    for kind in ["", "text/plain", "application/x-www-form-urlencoded", "json", "text/json"] {
        let headers = [("content-type", kind)];
        let refused = world.server("POST", LIST, &headers, plan_body("x").to_string()).await;
        assert_eq!(refused.problem(), problem(415, "media_type_unsupported"), "{kind}");
    }
    let none = world.server("POST", LIST, &[], "").await;
    assert_eq!(none.problem(), problem(415, "media_type_unsupported"));
    for (nth, kind) in ["Application/JSON", "application/json; charset=utf-8"].iter().enumerate() {
        let body = plan_body(&format!("typed-{nth}")).to_string();
        let made = world.server("POST", LIST, &[("content-type", kind)], body).await;
        assert_eq!(made.status, 201, "{kind}");
    }
}

#[tokio::test]
async fn a_body_that_is_packed_is_told_so() {
    let world = HttpWorld::new().await;
    let body = plan_body("packed").to_string();

    for codings in [
        vec!["gzip"],
        vec!["br"],
        vec!["identity, gzip"],
        vec!["identity", "deflate"],
        vec!["\u{fc}"],
    ] {
        let headers: Vec<_> = codings.iter().map(|coding| ("content-encoding", *coding)).collect();
        let refused = world.server("POST", LIST, &headers, body.clone()).await;
        assert_eq!(refused.problem(), problem(415, "media_type_unsupported"), "{codings:?}");
        assert_eq!(refused.header("accept-encoding"), Some("identity"), "{codings:?}");
    }
    for (nth, coding) in ["identity", "Identity", ""].iter().enumerate() {
        let body = plan_body(&format!("plain-{nth}")).to_string();
        let made = world.server("POST", LIST, &[("content-encoding", coding)], body).await;
        assert_eq!(made.status, 201, "{coding}");
    }
}

#[tokio::test]
async fn what_is_no_json_is_told_with_its_place() {
    let world = HttpWorld::new().await;
    let cases: [&[u8]; 11] = [
        b"{",
        b"{\"name\":\"x\",}",
        b"{} {}",
        b"{\"name\":\"a\",\"name\":\"b\"}",
        b"{\"name\":\"a\",\"na\\u006de\":\"b\"}",
        b"{\"name\":\"\xff\"}",
        b"{\"price\":NaN}",
        b"\xef\xbb\xbf{}",
        b"{'name':1}",
        b"nul",
        b"{\n\"a\":01}",
    ];
    let deep = |open: &str| open.repeat(60_000 / open.len()).into_bytes();
    let bombs = [deep("["), deep("{\"a\":"), [b"{\"name\":".to_vec(), deep("[")].concat()];

    for body in cases.map(<[u8]>::to_vec).into_iter().chain(bombs) {
        let shown = String::from_utf8_lossy(&body).chars().take(30).collect::<String>();
        let refused = world.server("POST", LIST, &[], body).await;
        assert_eq!(refused.problem(), problem(400, "malformed_json"), "{shown}");
        let told = refused.json();
        assert!(told["line"].is_u64() && told["column"].is_u64(), "{shown} {told}");
    }
    for body in ["[]", "null", "1", "\"x\""] {
        let refused = world.server("POST", LIST, &[], body).await;
        assert_eq!(refused.faults(), [" wrong_type"], "{body}");
    }
}
