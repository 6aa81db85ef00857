//! Refusals while the body is still on its way: the connection goes on, or its end is announced.

use std::time::Duration;

use super::world::{Answer, Raw, Wire, get, plan, post, post_plan};

const PLANS: &str = "/subscription-plans";

/// The head of a request whose body is not wanted, and its status.
fn refused(length: usize) -> Vec<(&'static str, String, u16)> {
    let length = format!("Content-Length: {length}\r\n");
    let with = |path: &str, more: &str| post(path, &format!("{more}{length}"));
    vec![
        ("no client", with(PLANS, "").replace("client-id: web\r\n", ""), 401),
        ("no token", with("/authentication/user-logged-in", ""), 401),
        ("no such path", with("/nowhere", ""), 404),
        ("another method", with(PLANS, "").replace("POST", "PATCH"), 405),
        ("no JSON", with(PLANS, "").replace("application/json", "text/plain"), 415),
        ("packed", with(PLANS, "Content-Encoding: gzip\r\n"), 415),
        ("a read with a body", with(PLANS, "").replace("POST", "GET"), 200),
    ]
}

/// Asserts that the connection serves the next request, or has said that it does not.
async fn goes_on_or_was_closed(mut raw: Raw, answer: &Answer, case: &str) {
    if answer.header("connection").is_some_and(|told| told.eq_ignore_ascii_case("close")) {
        assert_eq!(raw.closed().await, "", "{case}");
        return;
    }
    raw.send(get("/health/live")).await;
    let next = raw.answer_to("GET").await.unwrap_or_else(|| panic!("{case}: closed unannounced"));
    assert_eq!(next.status, 200, "{case}: {next:?}");
}

#[tokio::test]
async fn a_body_that_comes_a_little_later_breaks_no_connection() {
    let wire = Wire::new().await;
    let body = plan("late");
    for (case, head, status) in refused(body.len()) {
        for chunked in [false, true] {
            let mut raw = wire.connect().await;
            let (head, body) = if chunked {
                let head = head.replace(
                    &format!("Content-Length: {}", body.len()),
                    "Transfer-Encoding: chunked",
                );
                (head, format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()))
            } else {
                (head.clone(), body.clone())
            };
            raw.send(&head).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            raw.send(&body).await;

            let answer = raw.answer().await;

            assert_eq!(answer.status, status, "{case}: {answer:?}");
            goes_on_or_was_closed(raw, &answer, case).await;
        }
    }
}

#[tokio::test]
async fn a_body_that_never_comes_ends_the_connection_with_a_word() {
    let wire = Wire::new().await;
    for (case, head, status) in refused(100) {
        let mut raw = wire.connect().await;
        raw.send(&head).await;

        let answer = raw.answer().await;

        assert_eq!(answer.status, status, "{case}: {answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{case}: {answer:?}");
        raw.closed().await;
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_to_be_read_ends_the_connection_with_a_word() {
    let wire = Wire::new().await;
    let large = 65_537;
    let mut cases = refused(large);
    cases.push(("too large", post(PLANS, &format!("Content-Length: {large}\r\n")), 413));
    for (case, head, status) in cases {
        let mut raw = wire.connect().await;
        raw.send(head + &" ".repeat(large)).await;

        let answer = raw.answer().await;

        assert_eq!(answer.status, status, "{case}: {answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{case}: {answer:?}");
    }
}

#[tokio::test]
async fn those_who_wait_for_a_100_are_told_of_the_end_instead() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    raw.send(post("/nowhere", "Expect: 100-continue\r\nContent-Length: 4\r\n")).await;

    let answer = raw.answer().await;

    assert_eq!((answer.status, answer.header("connection")), (404, Some("close")), "{answer:?}");
}

#[tokio::test]
async fn requests_in_one_go_are_all_answered_whatever_becomes_of_each() {
    let wire = Wire::new().await;
    let body = plan("x");
    for size in [7, 64, 4_096] {
        let refused = refused(body.len()).into_iter();
        let mut requests: Vec<_> =
            refused.map(|(_, head, status)| (head + &body, status)).collect();
        requests.push((post_plan(&format!("made-{size}")), 201));
        requests.push((get("/health/live"), 200));
        let all: String = requests.iter().map(|(request, _)| request.as_str()).collect();
        let mut raw = wire.connect().await;
        for piece in all.as_bytes().chunks(size) {
            raw.send(piece).await;
        }

        for (request, status) in &requests {
            let answer = raw.answer_to("GET").await;
            let answer = answer.unwrap_or_else(|| panic!("{size}: nothing to {request}"));

            assert_eq!(answer.status, *status, "{size}: {request}\n{answer:?}");
        }
    }
}

#[tokio::test]
async fn whoever_wants_the_connection_kept_is_told_nothing_of_its_end() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    for request in [get("/nowhere"), post_plan("kept"), get(PLANS)] {
        raw.send(request).await;

        assert_eq!(raw.answer().await.header("connection"), None);
    }
}
