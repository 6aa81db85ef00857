//! Bodies that lie about themselves, never end, or are too much.

use super::world::{DEADLINE, Panics, Wire, answers, get, over, plan, post};
use subscription_http::Limits;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

const PATH: &str = "/subscription-plans";

/// A plan that is padded to so many bytes.
fn padded(bytes: usize) -> String {
    let body = plan("padded");
    body.clone() + &" ".repeat(bytes - body.len())
}

#[tokio::test]
async fn a_body_has_at_most_64_kib() {
    let wire = Wire::new().await;
    for (bytes, status) in [(65_536, 201), (65_537, 413), (200_000, 413)] {
        let body = padded(bytes);
        let mut raw = wire.connect().await;
        raw.send(post(PATH, &format!("Content-Length: {bytes}\r\n")) + &body).await;
        assert_eq!(raw.answer().await.status, status, "{bytes} with a length");

        let mut raw = wire.connect().await;
        let chunk = format!("{bytes:x}\r\n{body}\r\n0\r\n\r\n");
        raw.send(post(PATH, "Transfer-Encoding: chunked\r\n") + &chunk).await;
        let status = if status == 201 { 409 } else { status };
        assert_eq!(raw.answer().await.status, status, "{bytes} in chunks");
    }
    wire.lives("large bodies").await;
}

#[tokio::test]
async fn chunks_without_end_are_cut_off() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    raw.send(post(PATH, "Transfer-Encoding: chunked\r\n")).await;
    let chunk = format!("400\r\n{}\r\n", " ".repeat(1_024));
    let (mut sent, begun) = (0, Instant::now());
    while raw.stream.write_all(chunk.as_bytes()).await.is_ok() {
        sent += 1_024;
        assert!(begun.elapsed() < DEADLINE, "{sent} bytes were taken");
    }

    let back = raw.closed().await;

    // A client that does not stop sending may miss it.
    assert!(back.is_empty() || back.starts_with("HTTP/1.1 413 "), "{back}");
    wire.lives("chunks without end").await;
}

#[tokio::test]
async fn a_chunk_extension_without_end_is_cut_off() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    raw.send(post(PATH, "Transfer-Encoding: chunked\r\n") + "4;").await;
    let begun = Instant::now();
    while raw.stream.write_all(&[b'a'; 4_096]).await.is_ok() {
        assert!(begun.elapsed() < DEADLINE, "it is still taken");
    }
    wire.lives("an extension without end").await;
}

#[tokio::test]
async fn a_body_that_ends_before_its_time_makes_nothing() {
    let wire = Wire::new().await;
    let body = plan("short");
    let cases = [
        ("a length", format!("Content-Length: {}\r\n", body.len() + 1), body.clone()),
        (
            "chunks",
            "Transfer-Encoding: chunked\r\n".into(),
            format!("{:x}\r\n{body}\r\n", body.len()),
        ),
    ];
    for (case, headers, sent) in cases {
        let mut raw = wire.connect().await;
        raw.send(post(PATH, &headers) + &sent).await;
        raw.stream.shutdown().await.unwrap();

        let back = raw.closed().await;

        assert!(back.is_empty() || back.starts_with("HTTP/1.1 400 "), "{case}: {back}");
        let list = wire.throw(get(PATH)).await;
        assert!(list.contains(r#""data":[]"#), "{case}: {list}");
    }
}

#[tokio::test]
async fn a_hundred_thousand_brackets_are_too_much() {
    let wire = Wire::new().await;
    let cases = [
        ("beyond the size", "[".repeat(100_000), 413),
        ("lists", "[".repeat(65_000), 400),
        ("objects", r#"{"a":"#.repeat(13_000), 400),
        ("a field's", format!(r#"{{"name":{}"#, "[".repeat(65_000)), 400),
    ];
    for (case, body, status) in cases {
        let mut raw = wire.connect().await;
        raw.send(post(PATH, &format!("Content-Length: {}\r\n", body.len())) + &body).await;

        let answer = raw.answer().await;

        assert_eq!(answer.status, status, "{case}: {answer:?}");
        wire.lives(case).await;
    }
}

#[tokio::test]
async fn those_who_wait_for_a_100_get_it_and_only_if_the_body_is_wanted() {
    let wire = Wire::new().await;
    let body = plan("asked-first");
    let headers = format!("Expect: 100-continue\r\nContent-Length: {}\r\n", body.len());
    let mut raw = wire.connect().await;
    raw.send(post(PATH, &headers)).await;
    assert_eq!(raw.answer().await.status, 100);
    raw.send(&body).await;
    assert_eq!(raw.answer().await.status, 201);

    let mut raw = wire.connect().await;
    raw.send(post("/nowhere", &headers)).await;
    assert_eq!(raw.answer().await.status, 404);
    raw.send(&body).await;
    let back = raw.closed().await;
    assert_eq!(answers(&back), 0, "{back}");
}

#[tokio::test]
async fn a_panic_is_a_500_like_any_other_and_the_server_lives() {
    let (wire, _store) = over(Panics, Limits::default()).await;
    let mut raw = wire.connect().await;
    for n in 0..3 {
        let request = get("/subscription-plans/pro");
        raw.send(request.replace("Host", &format!("x-request-id: r{n}\r\nHost"))).await;

        let answer = raw.answer().await;

        assert_eq!((answer.status, answer.code().as_str()), (500, "internal"), "{answer:?}");
        assert_eq!(answer.header("x-request-id"), Some(format!("r{n}").as_str()));
        assert!(answer.body.contains(&format!("\"r{n}\"")), "{answer:?}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(!answer.body.contains("purpose"), "{answer:?}");
    }
    wire.lives("panics").await;
    let metrics = wire.throw(get("/metrics")).await;
    let counted = r#"route="/subscription-plans/{slug}",status="500"} 3"#;
    assert!(metrics.contains(counted), "{metrics}");
}
