//! Request lines and headers that are odd, doubled, or too long.

use super::world::{Wire, get, post_plan};

#[tokio::test]
async fn a_request_has_exactly_one_sound_host() {
    let wire = Wire::new().await;
    let cases = [
        ("none", String::new(), 400),
        ("two", "Host: localhost\r\nHost: there\r\n".into(), 400),
        ("two alike", "Host: localhost\r\nHost: localhost\r\n".into(), 400),
        ("empty", "Host: \r\n".into(), 400),
        ("a path", "Host: localhost/../there\r\n".into(), 400),
        ("a user", "Host: me@here\r\n".into(), 400),
        ("spaces", "Host: localhost there\r\n".into(), 400),
        ("a list", "Host: localhost, there\r\n".into(), 400),
        ("a high byte", "Host: h\u{e9}re\r\n".into(), 400),
        ("a port that is none", "Host: localhost:port\r\n".into(), 400),
        ("a port too high", "Host: localhost:99999999\r\n".into(), 400),
        ("a lone colon", "Host: :\r\n".into(), 400),
        ("a script", "Host: <script>\r\n".into(), 400),
        ("a name", "Host: localhost\r\n".into(), 200),
        ("a name and a port", "Host: localhost:80\r\n".into(), 200),
        ("an address", "Host: [::1]:8080\r\n".into(), 200),
    ];
    for (case, host, status) in cases {
        let mut raw = wire.connect().await;
        raw.send(format!("GET /health/live HTTP/1.1\r\n{host}\r\n")).await;

        let answer = raw.answer().await;

        assert_eq!(answer.status, status, "{case}: {answer:?}");
        if status == 400 {
            assert_eq!(answer.code(), "host_invalid", "{case}");
        }
    }
    wire.lives("odd hosts").await;
}

#[tokio::test]
async fn a_header_that_decides_may_be_sent_once_only() {
    let wire = Wire::new().await;
    let cases = [
        ("client-id", "web", "other"),
        ("Authorization", "Bearer one", "Bearer two"),
        ("Content-Type", "application/json", "text/plain"),
    ];
    for (name, one, two) in cases {
        for (first, second) in [(one, two), (two, one), (one, one)] {
            let mut raw = wire.connect().await;
            let head = "GET /health/live HTTP/1.1\r\nHost: localhost";
            raw.send(format!("{head}\r\n{name}: {first}\r\n{name}: {second}\r\n\r\n")).await;

            let answer = raw.answer().await;

            assert_eq!(answer.status, 400, "{name}: {first}, {second}");
            assert_eq!(answer.code(), "header_invalid", "{name}: {first}, {second}");
        }
    }
    wire.lives("doubled headers").await;
}

#[tokio::test]
async fn an_absolute_target_is_routed_by_its_path() {
    let wire = Wire::new().await;
    let cases = [
        ("http://else.localhost:1/health/live", 200),
        ("http://elsewhere.example/health/live", 400),
        ("http://localhost/metrics/../health/live", 400),
        ("http://localhost/nowhere", 404),
        ("http://user:secret@localhost/health/live", 200),
        ("http:///health/live", 400),
        ("//health/live", 404),
        ("*", 404),
    ];
    for (target, status) in cases {
        let mut raw = wire.connect().await;
        raw.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;

        let answer = raw.answer().await;

        assert_eq!(answer.status, status, "{target}: {answer:?}");
        assert!(!answer.body.contains("secret"), "{target}");
    }
    let back = wire.throw("CONNECT there:443 HTTP/1.1\r\nHost: there:443\r\n\r\n").await;
    assert!(back.starts_with("HTTP/1.1 4"), "{back}");
    wire.lives("odd targets").await;
}

#[tokio::test]
async fn no_byte_in_a_header_does_any_harm() {
    let wire = Wire::new().await;
    for name in ["client-id", "authorization", "content-type", "user-agent", "x-request-id"] {
        for byte in (0..=0x1f).chain(0x7f..=0xff) {
            let mut raw = wire.connect().await;
            let mut request = format!(
                "GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{name}: a"
            )
            .into_bytes();
            request.push(byte);
            request.extend_from_slice(b"b: c\r\n\r\n");
            raw.send(request).await;

            let back = raw.closed().await;

            let fine = back.starts_with("HTTP/1.1 400 ") || back.starts_with("HTTP/1.1 200 ");
            assert!(fine, "{name} with {byte:#x}: {back}");
            let read = ["client-id", "authorization", "content-type"].contains(&name);
            if byte >= 0x80 && read {
                assert!(back.contains("header_invalid"), "{name} with {byte:#x}: {back}");
            }
            let reflected = back.to_lowercase().lines().any(|line| line.starts_with("b: c"));
            assert!(!reflected, "{name} with {byte:#x}: {back}");
        }
    }
    wire.lives("odd bytes").await;
}

#[tokio::test]
async fn an_encoded_line_break_in_a_path_splits_no_answer() {
    let wire = Wire::new().await;
    for path in [
        "/subscription-plans/a%0d%0aset-cookie:%20x=y",
        "/subscription-plans/a?cursor=%0d%0aset-cookie:%20x=y",
        "/%0d%0aset-cookie:%20x=y",
        "/subscription-plans/a%00b",
        "/health%2flive",
        "/nowhere/%2e%2e/health/live",
    ] {
        let mut raw = wire.connect().await;
        raw.send(get(path)).await;

        let answer = raw.answer().await;

        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
        assert_eq!(answer.header("set-cookie"), None, "{path}");
    }
}

#[tokio::test]
async fn a_head_over_the_limit_is_refused() {
    let wire = Wire::new().await;
    let cases = [
        ("one header", format!("x-long: {}\r\n", "a".repeat(17_000))),
        ("many headers", "x-a: b\r\n".repeat(2_000)),
        ("many names", (0..200).map(|n| ["x-", &n.to_string(), ": b\r\n"].concat()).collect()),
        ("a long name", format!("{}: b\r\n", "x".repeat(70_000))),
        ("a megabyte", format!("x-long: {}\r\n", "a".repeat(1 << 20))),
    ];
    for (case, headers) in cases {
        let mut raw = wire.connect().await;
        raw.send(format!("GET /health/live HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")).await;

        let back = raw.closed().await;

        assert!(back.is_empty() || back.starts_with("HTTP/1.1 431 "), "{case}: {back}");
        wire.lives(case).await;
    }
}

#[tokio::test]
async fn a_uri_over_8_kib_is_refused() {
    let wire = Wire::new().await;
    let cases = [
        ("a path of 8 KiB", format!("/{}", "a".repeat(8_191)), 404),
        ("one byte more", format!("/{}", "a".repeat(8_192)), 414),
        ("a query", format!("/health/live?{}", "a".repeat(8_192)), 414),
        ("an absolute one", format!("http://localhost/{}", "a".repeat(8_192)), 414),
    ];
    for (case, uri, status) in cases {
        let mut raw = wire.connect().await;
        raw.send(get(&uri)).await;

        let answer = raw.answer().await;

        assert_eq!(answer.status, status, "{case}");
    }
    let back = wire.throw(get(&format!("/{}", "a".repeat(100_000)))).await;
    assert!(back.is_empty() || back.starts_with("HTTP/1.1 4"), "{back}");
    wire.lives("long URIs").await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    let mut requests = String::new();
    for n in 0..100 {
        requests += &get("/health/live").replace("Host", &format!("x-request-id: {n}\r\nHost"));
    }
    raw.send(requests).await;

    for n in 0..100 {
        let answer = raw.answer().await;
        assert_eq!(answer.status, 200, "{n}");
        assert_eq!(answer.header("x-request-id"), Some(n.to_string().as_str()));
    }
}

#[tokio::test]
async fn head_tells_the_length_and_sends_no_body() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    raw.send(post_plan("pro")).await;
    assert_eq!(raw.answer().await.status, 201);
    for path in ["/health/live", "/subscription-plans/pro", "/subscription-plans", "/nowhere"] {
        // The id is part of an error's body.
        let request = get(path).replace("Host", "x-request-id: same\r\nHost");
        raw.send(&request).await;
        let whole = raw.answer().await;
        raw.send(request.replacen("GET", "HEAD", 1)).await;

        let answer = raw.answer_to("HEAD").await.unwrap();

        assert_eq!(answer.status, whole.status, "{path}");
        assert_eq!(answer.header("content-length"), whole.header("content-length"), "{path}");
        assert_eq!(answer.header("content-type"), whole.header("content-type"), "{path}");
    }
    assert_eq!(raw.rest().await, "");
}

#[tokio::test]
async fn a_connection_goes_on_after_an_error() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    let cases = [
        (get("/nowhere"), 404),
        ("GET /health/live HTTP/1.1\r\n\r\n".into(), 400),
        ("PATCH /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), 405),
        ("GET /subscription-plans HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), 401),
        (post_plan("not a slug"), 422),
        (post_plan("pro").replace(r#"{"name""#, r#"["name""#), 400),
        (post_plan("pro").replace("application/json", "text/plain"), 415),
        (post_plan("pro"), 201),
        (post_plan("pro"), 409),
        ("NONSENSE /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), 405),
    ];
    for (request, status) in cases {
        raw.send(&request).await;

        let answer = raw.answer().await;

        assert_eq!(answer.status, status, "{request}: {answer:?}");
        assert!(answer.header("x-request-id").is_some(), "{request}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{request}");
    }
}
