//! A graceful stop: requests in flight are finished, no new ones begin, and it ends in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use subscription_http::Limits;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use super::world::{DEADLINE, Hangs, Raw, SHORT, Wire, get, over, post_plan, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_no_answer_is_cut_in_the_middle() {
    let mut wire = Wire::new().await;
    let answered = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for client in 0..16 {
        let (address, answered) = (wire.address, Arc::clone(&answered));
        clients.push(tokio::spawn(async move {
            let mut raw = Raw::to(address).await;
            let mut created = 0;
            for n in 0.. {
                raw.send(post_plan(&format!("plan-{client}-{n}"))).await;
                let Some(answer) = raw.answer_to("POST").await else { break };
                assert_eq!(answer.status, 201, "{answer:?}");
                answered.fetch_add(1, Ordering::SeqCst);
                created += 1;
            }
            // Nothing at all came, rather than a part of an answer.
            (created, raw.closed().await)
        }));
    }
    while answered.load(Ordering::SeqCst) < 200 {
        tokio::task::yield_now().await;
    }

    wire.stop();

    assert!(wire.ended().await);
    for client in clients {
        let (created, rest) = within(client).await.unwrap();
        assert!(created > 0);
        assert_eq!(rest, "");
    }
    assert!(TcpStream::connect(wire.address).await.is_err());
}

#[tokio::test]
async fn a_request_under_way_is_answered_and_new_ones_are_refused() {
    let (mut wire, store) = over(Hangs::default(), Limits::default()).await;
    let mut raw = wire.connect().await;
    raw.send(get("/subscription-plans/pro")).await;
    store.spy.came.notified().await;

    wire.stop();

    within(async {
        while TcpStream::connect(wire.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    store.spy.go.notify_one();
    let answer = raw.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (404, Some("close")));
    assert!(wire.ended().await);
}

#[tokio::test]
async fn a_request_that_was_sent_before_the_stop_is_answered_though_its_connection_was_idle() {
    let mut wire = Wire::new().await;
    let mut raw = wire.connect().await;
    raw.send(get("/health/live")).await;
    assert_eq!(raw.answer().await.status, 200);

    raw.send(get("/health/live")).await;
    wire.stop();

    assert_eq!(raw.answer().await.status, 200);
    assert_eq!(raw.closed().await, "");
    assert!(wire.ended().await);
}

/// hyper drops the unsent part of a response when it is told to close an idle connection.
#[tokio::test]
async fn a_response_that_is_not_all_sent_at_the_stop_comes_whole() {
    let mut wire = Wire::new().await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut late = Raw::over(socket.connect(wire.address).await.unwrap());
    let asked = 100;
    late.send(get("/openapi.json").repeat(asked)).await;
    let first = late.answer().await;

    wire.stop();
    tokio::time::sleep(SHORT).await;

    let mut answered = 1;
    while let Some(answer) = late.answer_to("GET").await {
        assert_eq!(answer.body, first.body, "{answered}");
        answered += 1;
    }
    assert!(answered > 1);
    assert_eq!(late.closed().await, "");
    assert!(wire.ended().await);
}

#[tokio::test]
async fn a_request_that_hangs_is_cut_off_when_time_is_up() {
    let limits = Limits::default().with_drain_timeout(SHORT);
    let (mut wire, store) = over(Hangs::default(), limits).await;
    let mut raw = wire.connect().await;
    raw.send(get("/subscription-plans/pro")).await;
    store.spy.came.notified().await;
    let begun = Instant::now();

    wire.stop();

    assert!(!wire.ended().await);
    assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
    assert_eq!(raw.closed().await, "");
}

#[tokio::test]
async fn idle_connections_hold_up_nothing() {
    let mut wire = Wire::new().await;
    let mut silent = wire.connect().await;
    let mut greeted = wire.connect().await;
    greeted.send("PRI * HT").await;
    let mut kept = wire.connect().await;
    kept.send(get("/health/live")).await;
    assert_eq!(kept.answer().await.status, 200);
    let begun = Instant::now();

    wire.stop();

    assert!(wire.ended().await);
    assert!(begun.elapsed() < Limits::default().drain_timeout / 2, "{:?}", begun.elapsed());
    for raw in [&mut silent, &mut greeted, &mut kept] {
        assert_eq!(raw.closed().await, "");
    }
}

#[tokio::test]
async fn a_head_without_end_does_not_make_the_stop_fail() {
    let drain_timeout = Duration::from_secs(1);
    let mut wire = Wire::limited(Limits::default().with_drain_timeout(drain_timeout)).await;
    let mut raw = wire.connect().await;
    raw.send("GET /health/live HTTP/1.1\r\nHost: localhost\r\n").await;
    wire.lives("half a head").await;

    wire.stop();

    assert!(wire.ended().await);
    assert_eq!(raw.closed().await, "");
}

#[tokio::test]
async fn a_stop_is_noticed_while_all_places_are_taken() {
    let mut wire = Wire::limited(Limits::default().with_connections(1)).await;
    let mut held = wire.connect().await;
    held.send(get("/health/live")).await;
    assert_eq!(held.answer().await.status, 200);
    let begun = Instant::now();

    wire.stop();

    assert!(wire.ended().await);
    assert!(begun.elapsed() < DEADLINE / 2, "{:?}", begun.elapsed());
    assert_eq!(held.closed().await, "");
}
