//! How many connections there may be.

use subscription_http::Limits;

use super::world::{Raw, Wire, get, within};

/// Connections that are known to be served.
async fn busy(wire: &Wire, count: usize) -> Vec<Raw> {
    let mut connections = Vec::new();
    for n in 0..count {
        let mut raw = wire.connect().await;
        raw.send(get("/health/live")).await;
        assert_eq!(raw.answer().await.status, 200, "{n}");
        connections.push(raw);
    }
    connections
}

/// Waits until a new connection is served: a place is free once the server has seen its owner go.
async fn served_again(wire: &Wire) {
    within(async {
        loop {
            let mut raw = wire.connect().await;
            raw.send(get("/health/live")).await;
            if raw.answer_to("GET").await.is_some() {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn one_address_has_so_many_connections_and_no_more() {
    let wire = Wire::limited(Limits::default().with_connections_per_peer(3)).await;
    let mut held = busy(&wire, 3).await;

    for n in 0..20 {
        let mut extra = wire.connect().await;
        extra.send(get("/health/live")).await;
        assert_eq!(extra.closed().await, "", "{n}");
    }

    for raw in &mut held {
        raw.send(get("/health/live")).await;
        assert_eq!(raw.answer().await.status, 200);
    }
    held.pop();
    served_again(&wire).await;
}

#[tokio::test]
async fn beyond_all_places_connections_wait_their_turn() {
    let wire = Wire::limited(Limits::default().with_connections(2)).await;
    let mut held = busy(&wire, 2).await;
    let mut waiting = wire.connect().await;
    waiting.send(get("/health/live")).await;
    assert_eq!(waiting.rest().await, "");

    for raw in &mut held {
        raw.send(get("/health/live")).await;
        assert_eq!(raw.answer().await.status, 200);
    }
    held.pop();

    assert_eq!(waiting.answer().await.status, 200);
}

#[tokio::test]
async fn connections_that_come_and_go_leave_no_trace() {
    let limits = Limits::default().with_connections(4).with_connections_per_peer(4);
    let wire = Wire::limited(limits).await;
    for n in 0..200 {
        let mut raw = wire.connect().await;
        match n % 3 {
            0 => raw.send(get("/health/live")).await,
            1 => raw.send("GET / HT").await,
            _ => {}
        }
    }
    served_again(&wire).await;
}

#[tokio::test]
async fn a_head_limit_below_what_hyper_takes_is_raised() {
    let wire = Wire::limited(Limits::default().with_head_bytes(1)).await;

    wire.lives("a small limit").await;

    let long = format!("x-long: {}\r\nHost", "a".repeat(9_000));
    let back = wire.throw(get("/health/live").replace("Host", &long)).await;
    assert!(back.is_empty() || back.starts_with("HTTP/1.1 431 "), "{back}");
}
