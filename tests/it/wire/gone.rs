//! Callers that disconnect before they are answered.

use subscription_http::Limits;
use tokio::io::AsyncWriteExt as _;

use super::world::{Hangs, Wire, get, over, post};

const COUNTED: &str = r#"route="/subscription-plans/{slug}",status="499"} 1"#;

#[tokio::test]
async fn a_request_whose_caller_goes_is_counted_and_ended() {
    let (wire, store) = over(Hangs::default(), Limits::default()).await;
    let mut raw = wire.connect().await;
    raw.send(get("/subscription-plans/pro")).await;
    store.spy.came.notified().await;

    drop(raw);

    wire.counts(COUNTED).await;
}

#[tokio::test]
async fn a_caller_who_only_stops_sending_counts_as_gone() {
    let (wire, store) = over(Hangs::default(), Limits::default()).await;
    let mut raw = wire.connect().await;
    raw.send(get("/subscription-plans/pro")).await;
    store.spy.came.notified().await;

    raw.stream.shutdown().await.unwrap();

    wire.counts(COUNTED).await;
    assert_eq!(raw.closed().await, "");
}

#[tokio::test]
async fn a_caller_who_goes_in_the_middle_of_a_body_is_counted() {
    let wire = Wire::new().await;
    let mut raw = wire.connect().await;
    raw.send(post("/subscription-plans", "Content-Length: 100\r\n") + "{").await;
    drop(raw);

    // hyper tells it as a body that broke off, which is answered to nobody.
    wire.counts(r#"method="POST",route="/subscription-plans",status="400"} 1"#).await;
}
