//! Request smuggling: requests that a proxy might read differently are never read as two.

use super::world::{Wire, answers, get, plan, post, post_plan};

/// The request that is hidden behind the first one.
const HIDDEN: &str = "GET /health/live HTTP/1.1\r\nHost: localhost\r\nx-request-id: hidden\r\n\r\n";

#[tokio::test]
async fn ambiguous_framing_is_refused_and_nothing_after_it_is_answered() {
    let wire = Wire::new().await;
    let cases = [
        ("two lengths", "Content-Length: 4\r\nContent-Length: 0\r\n", "null"),
        ("two lengths, the other way round", "Content-Length: 0\r\nContent-Length: 4\r\n", "null"),
        ("a list of lengths", "Content-Length: 4, 4\r\n", "null"),
        ("a length with a sign", "Content-Length: +4\r\n", "null"),
        ("a negative length", "Content-Length: -4\r\n", "null"),
        ("a length in hex", "Content-Length: 0x4\r\n", "null"),
        ("a length with text", "Content-Length: 4x\r\n", "null"),
        ("an empty length", "Content-Length: \r\n", "null"),
        ("a length too large for 64 bits", "Content-Length: 18446744073709551617\r\n", "null"),
        ("a coding nobody knows", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
        ("chunked before another coding", "Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"),
        ("chunked after another coding", "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
        ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
        (
            "chunked in two lines",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "0\r\n\r\n",
        ),
        (
            "two codings in two lines",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
            "0\r\n\r\n",
        ),
        ("identity", "Transfer-Encoding: identity\r\n", "0\r\n\r\n"),
        ("a coding folded away", "Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"),
        ("a folded line", "x-a: b\r\n c\r\nContent-Length: 4\r\n", "null"),
        ("a space before the colon", "Content-Length : 4\r\n", "null"),
        ("a coding with a space before", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
        ("a coding with a vertical tab", "Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"),
        ("a lone CR in a value", "x-a: b\rContent-Length: 4\r\n", "null"),
        ("a NUL in a value", "x-a: b\0c\r\nContent-Length: 4\r\n", "null"),
        ("a NUL in a name", "x\0a: b\r\nContent-Length: 4\r\n", "null"),
        ("a name that is none", "x a: b\r\nContent-Length: 4\r\n", "null"),
        ("an empty name", ": b\r\nContent-Length: 4\r\n", "null"),
    ];
    for (case, headers, body) in cases {
        let back = wire.throw(post("/subscription-plans", headers) + body + HIDDEN).await;

        assert!(back.is_empty() || back.starts_with("HTTP/1.1 400 "), "{case}: {back}");
        assert!(answers(&back) <= 1, "{case}: {back}");
        assert!(!back.contains("hidden"), "{case}: {back}");
        wire.lives(case).await;
    }
}

#[tokio::test]
async fn a_length_beside_chunks_is_refused_and_the_connection_ends() {
    let wire = Wire::new().await;
    let cases = [
        ("length first", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n"),
        ("chunks first", "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n"),
        ("a bad length", "Transfer-Encoding: chunked\r\nContent-Length: +6\r\n"),
    ];
    for (case, headers) in cases {
        let request = post("/subscription-plans", headers) + "4\r\nnull\r\n0\r\n\r\n" + HIDDEN;
        let mut raw = wire.connect().await;
        raw.send(request).await;

        let back = raw.closed().await;

        assert!(back.starts_with("HTTP/1.1 400 "), "{case}: {back}");
        assert!(back.contains("header_invalid"), "{case}: {back}");
        assert_eq!(answers(&back), 1, "{case}: {back}");
        assert!(!back.contains("hidden"), "{case}: {back}");
        wire.lives(case).await;
    }
}

#[tokio::test]
async fn a_length_beside_chunks_is_seen_wherever_it_comes() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    raw.send(post_plan("before")).await;
    assert_eq!(raw.answer().await.status, 201);
    let chunked = post("/subscription-plans", "Transfer-Encoding: chunked\r\n");
    let body = plan("chunked");
    raw.send(chunked + &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())).await;
    assert_eq!(raw.answer().await.status, 201);

    // In pieces that no name survives, after requests that are sound.
    let both = post("/subscription-plans", "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n");
    for byte in (both + "4\r\nnull\r\n0\r\n\r\n" + HIDDEN).bytes() {
        raw.send([byte]).await;
    }

    let back = raw.closed().await;
    assert!(back.starts_with("HTTP/1.1 400 "), "{back}");
    assert_eq!(answers(&back), 1, "{back}");
}

#[tokio::test]
async fn chunks_that_are_none_end_the_connection() {
    let wire = Wire::new().await;
    let cases = [
        ("a size with a sign", "+4\r\nnull\r\n0\r\n\r\n"),
        ("a size in the wrong form", "0x4\r\nnull\r\n0\r\n\r\n"),
        ("a size that is text", "four\r\nnull\r\n0\r\n\r\n"),
        ("a size too large for 64 bits", "fffffffffffffffff\r\nnull\r\n0\r\n\r\n"),
        ("more data than its size", "2\r\nnull\r\n0\r\n\r\n"),
        ("a bare LF after the size", "4\nnull\r\n0\r\n\r\n"),
        ("an empty size", "\r\nnull\r\n0\r\n\r\n"),
        ("a CR in an extension", "4;a\rb\r\nnull\r\n0\r\n\r\n"),
    ];
    for (case, chunks) in cases {
        let head = post("/subscription-plans", "Transfer-Encoding: chunked\r\n");

        let back = wire.throw(head + chunks + HIDDEN).await;

        assert!(answers(&back) <= 1, "{case}: {back}");
        assert!(back.is_empty() || back.starts_with("HTTP/1.1 4"), "{case}: {back}");
        assert!(!back.contains("hidden"), "{case}: {back}");
        wire.lives(case).await;
    }
}

/// hyper takes LF for CR LF, as RFC 9112 (2.2) allows; what matters is that it is one request.
#[tokio::test]
async fn bare_line_feeds_never_make_a_second_request() {
    let wire = Wire::new().await;
    let cases = [
        ("in every line", "GET /health/live HTTP/1.1\nHost: localhost\n\n".to_owned(), 1),
        ("as a hidden header", "GET /health/live HTTP/1.1\r\nHost: a\nHost: b\r\n\r\n".into(), 1),
        ("in a value", "GET /health/live HTTP/1.1\r\nHost: localhost\r\nx-a: b\n\nGET".into(), 1),
        ("in the request line", "GET /health\n/live HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), 1),
    ];
    let check = async |(case, request, most): (&str, String, usize)| {
        let back = wire.throw(request).await;

        assert!(answers(&back) <= most, "{case}: {back}");
        wire.lives(case).await;
    };
    // At once: they mostly wait.
    let [one, two, three, four] = cases;
    tokio::join!(check(one), check(two), check(three), check(four));
}

#[tokio::test]
async fn what_follows_a_body_is_a_request_of_its_own_and_nothing_else_is() {
    let wire = Wire::new().await;
    // The body of a route that takes none, and of one that is refused before its body is looked at.
    let check = async |path: &str| {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{HIDDEN}",
            HIDDEN.len()
        );
        let mut raw = wire.connect().await;
        raw.send(request).await;
        assert_ne!(raw.answer().await.header("x-request-id"), Some("hidden"), "{path}");

        raw.send(get("/health/ready")).await;
        let back = raw.rest().await;

        assert!(!back.contains("hidden"), "{path}: {back}");
        assert!(back.is_empty() || back.starts_with("HTTP/1.1 200"), "{path}: {back}");
    };
    // At once: they mostly wait.
    tokio::join!(check("/health/live"), check("/nowhere"), check("/subscription-plans"));
}

#[tokio::test]
async fn garbage_is_refused_and_the_connection_ends() {
    let wire = Wire::new().await;
    let long_method = format!("{} / HTTP/1.1\r\nHost: localhost\r\n\r\n", "A".repeat(20_000));
    let cases: [(&str, &[u8]); 9] = [
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on and on\r\n\r\n"),
        ("zeros", &[0; 64]),
        ("high bytes", &[0xff; 64]),
        ("no version", b"GET /health/live\r\nHost: localhost\r\n\r\n"),
        ("another version", b"GET /health/live HTTP/9.9\r\nHost: localhost\r\n\r\n"),
        ("another protocol", b"SSH-2.0-OpenSSH_9.6\r\n\r\n\r\n\r\n\r\n\r\n"),
        ("two spaces", b"GET  /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("a tab", b"GET\t/health/live\tHTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("a long method", long_method.as_bytes()),
    ];
    for (case, bytes) in cases {
        let mut raw = wire.connect().await;
        raw.send(bytes).await;

        let back = raw.closed().await;

        assert!(back.is_empty() || back.starts_with("HTTP/1.1 4"), "{case}: {back}");
        wire.lives(case).await;
    }
}
