//! Connections that are idle between requests, or in the middle of one: nothing that was sent is lost, or
//! read as something else.

use std::time::Duration;

use subscription_http::Limits;
use test_support::http2_frames::{SETTINGS, greeting, request};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpSocket;
use tokio::time::{Instant, sleep};

use super::world::{DEADLINE, Raw, Wire, answers, get, post, post_plan, within};

/// Waits until the server has read everything that was sent, and waits for more.
async fn pause() {
    sleep(Duration::from_millis(200)).await;
}

#[tokio::test]
async fn an_idle_connection_answers_its_next_requests() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    for n in 0..3 {
        raw.send(post_plan(&format!("plan-{n}"))).await;
        assert_eq!(raw.answer().await.status, 201, "{n}");
        raw.send(get(&format!("/subscription-plans/plan-{n}"))).await;
        assert_eq!(raw.answer().await.status, 200, "{n}");

        pause().await;
    }
}

#[tokio::test]
async fn a_request_in_pieces_is_one_request_wherever_it_pauses() {
    let wire = Wire::new().await;
    let whole = post_plan("pieces");
    // In the first line, before and in a name, between head and body, and in the body.
    let cuts = [1, 6, whole.find("Host").unwrap(), whole.find("Len").unwrap()];
    let cuts = cuts.into_iter().chain([whole.find('{').unwrap(), whole.len() - 1]);
    for (n, cut) in cuts.enumerate() {
        let mut raw = wire.connect().await;
        raw.send(get("/health/live")).await;
        assert_eq!(raw.answer().await.status, 200, "cut at {cut}");
        let whole = whole.replace("pieces", &format!("piece{n}"));
        let (first, second) = whole.split_at(cut);

        raw.send(first).await;
        pause().await;
        raw.send(second).await;

        assert_eq!(raw.answer().await.status, 201, "cut at {cut}");
        raw.send(get("/health/live")).await;
        assert_eq!(raw.answer().await.status, 200, "cut at {cut}");
    }
}

#[tokio::test]
async fn of_pipelined_requests_each_is_answered_once_wherever_they_pause() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    let request = get("/health/live");
    let (first, second) = request.split_at(20);

    raw.send(request.repeat(3) + first).await;
    for n in 0..3 {
        assert_eq!(raw.answer().await.status, 200, "{n}");
    }
    pause().await;
    raw.send(second.to_owned() + &request + first).await;
    for n in 3..5 {
        assert_eq!(raw.answer().await.status, 200, "{n}");
    }
    pause().await;
    raw.send(second).await;

    assert_eq!(answers(&raw.rest().await), 1);
}

/// A request hidden in a body must not be read as one, however late it arrives.
#[tokio::test]
async fn a_body_that_nobody_read_is_never_taken_for_a_request() {
    let wire = Wire::new().await;
    let hidden = "GET /health/live HTTP/1.1\r\nHost: localhost\r\nx-request-id: hidden\r\n\r\n";
    let long = format!("Content-Length: {}\r\n", hidden.len() + 4);
    let chunk = format!("{:x}\r\n", hidden.len());
    let coded = "Transfer-Encoding: chunked\r\n".to_owned();
    let end = "\r\n0\r\n\r\n";
    let taken = get("/health/live").replace("\r\n\r\n", "\r\n") + &long + "\r\n";
    let cases = [
        ("a path that is not", post("/nowhere", &long), "null", ""),
        ("a path that takes none", taken, "null", ""),
        ("one that is waited for", post("/subscription-plans", &long), "null", ""),
        ("a path that is not, in chunks", post("/nowhere", &coded), &chunk, end),
        ("chunks that are waited for", post("/subscription-plans", &coded), &chunk, end),
    ];
    let check = async |(case, head, begins, ends): (&str, String, &str, &str)| {
        let mut raw = wire.connect().await;
        raw.send(get("/health/live")).await;
        assert_eq!(raw.answer().await.status, 200, "{case}");

        raw.send(head + begins).await;
        pause().await;
        raw.send(hidden).await;
        raw.send(ends).await;

        let back = raw.rest().await;
        assert!(answers(&back) <= 1, "{case}: {back}");
        assert!(!back.contains("hidden"), "{case}: {back}");
    };
    // At once: they mostly wait.
    let [one, two, three, four, five] = cases;
    tokio::join!(check(one), check(two), check(three), check(four), check(five));
    wire.lives("unread bodies").await;
}

#[tokio::test]
async fn a_length_beside_chunks_is_seen_over_a_pause() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    raw.send(get("/health/live")).await;
    assert_eq!(raw.answer().await.status, 200);
    let both = post("/subscription-plans", "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n");
    let (first, second) = both.split_at(both.find("tent-Length").unwrap());

    raw.send(first).await;
    pause().await;
    raw.send(second.to_owned() + "4\r\nnull\r\n0\r\n\r\n" + &get("/health/live")).await;

    let back = raw.closed().await;
    assert!(back.starts_with("HTTP/1.1 400 "), "{back}");
    assert_eq!(answers(&back), 1, "{back}");
}

#[tokio::test]
async fn an_answer_that_is_fetched_late_comes_whole() {
    let wire = Wire::new().await;
    let mut honest = wire.connect().await;
    for n in 0..100 {
        honest.send(post_plan(&format!("plan-{n}"))).await;
        assert_eq!(honest.answer().await.status, 201, "{n}");
    }
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let stream = socket.connect(wire.address).await.unwrap();
    let mut late = Raw::over(stream);
    // More than the buffers on the way hold.
    let asked = 100;
    late.send(get("/subscription-plans?limit=100").repeat(asked)).await;

    pause().await;

    for n in 0..asked {
        let answer = late.answer().await;
        let page: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(page["data"].as_array().unwrap().len(), 100, "{n}");
    }
}

#[tokio::test]
async fn a_connection_is_closed_when_it_idles_or_its_head_takes_too_long() {
    let (head_timeout, idle_timeout) = (Duration::from_millis(800), Duration::from_millis(400));
    let limits = Limits::default().with_head_timeout(head_timeout).with_idle_timeout(idle_timeout);
    let wire = Wire::limited(limits).await;
    for (case, more, timeout) in [
        ("nothing", "", idle_timeout),
        ("half a head", "GET /health/live HTTP/1.1\r\nHo", head_timeout),
    ] {
        let mut raw = wire.connect().await;
        // Before it is answered: the server counts from then on, and we may hear of it late.
        let begun = Instant::now();
        raw.send(get("/health/live")).await;
        assert_eq!(raw.answer().await.status, 200, "{case}");
        raw.send(more).await;

        assert_eq!(raw.closed().await, "", "{case}");

        let took = begun.elapsed();
        assert!(took >= timeout && took < DEADLINE / 2, "{case}: {took:?}");
    }
}

#[tokio::test]
async fn connections_that_pause_in_a_head_hold_up_no_stop() {
    let mut wire = Wire::new().await;
    let mut idle = Vec::new();
    for more in ["", "GET /health/li"] {
        let mut raw = wire.connect().await;
        raw.send(get("/health/live")).await;
        assert_eq!(raw.answer().await.status, 200);
        raw.send(more).await;
        idle.push(raw);
    }
    pause().await;
    let begun = Instant::now();

    wire.stop();

    assert!(wire.ended().await);
    assert!(begun.elapsed() < Limits::default().drain_timeout / 2, "{:?}", begun.elapsed());
    for raw in &mut idle {
        assert_eq!(raw.closed().await, "");
    }
}

#[tokio::test]
async fn http_2_is_known_by_its_greeting_however_it_arrives() {
    let wire = Wire::new().await;
    let bytes = [greeting(), request(1, "GET", "/health/live")].concat();
    for size in [1, 5, 23, 24, 25, 1_024] {
        let mut raw = wire.connect().await;
        raw.stream.set_nodelay(true).unwrap();
        for piece in bytes.chunks(size) {
            raw.send(piece).await;
            tokio::task::yield_now().await;
        }

        let mut back = Vec::new();
        let live = br#"{"status":"live"}"#;
        while !back.windows(live.len()).any(|part| part == live) {
            let count = within(raw.stream.read_buf(&mut back)).await.unwrap();
            assert!(count > 0, "pieces of {size}: {back:?}");
        }
        assert_eq!(back[3], SETTINGS, "pieces of {size}");
    }
}

#[tokio::test]
async fn what_begins_like_http_2_and_is_not_is_answered_or_refused_as_http_1() {
    let wire = Wire::new().await;
    let check = async |case: &str, request: String, status: &str| {
        let mut raw = wire.connect().await;
        raw.stream.set_nodelay(true).unwrap();
        for byte in request.bytes() {
            raw.send([byte]).await;
            tokio::task::yield_now().await;
        }

        let back = raw.rest().await;

        assert!(back.starts_with(status), "{case}: {back}");
    };
    // At once: they mostly wait.
    tokio::join!(
        check("POST", post_plan("alike"), "HTTP/1.1 201 "),
        check("PUT", get("/health/live").replace("GET", "PUT"), "HTTP/1.1 405 "),
        check("PRI", get("/health/live").replace("GET", "PRI"), "HTTP/1.1 405 "),
        check("another version", "PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n".into(), "HTTP/1.1 400 "),
    );
}
