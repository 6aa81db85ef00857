//! The times of a try. The clock is paused: nothing waits for real.

use std::time::Duration;

use subscription_core::webhooks::Outcome;
use subscription_http::DeliverSettings;
use test_support::receiver::Reply;
use tokio::time::Instant;

use super::{local, over, receiver, rules, send};

/// A moment is read to the millisecond.
fn seconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 10.0).round() / 10.0
}

#[tokio::test(start_paused = true)]
async fn w5_an_answer_after_14_9_seconds_counts_and_none_does_after_15() {
    let receiver = receiver().await;
    let after = |millis, reply| Reply::After(Duration::from_millis(millis), Box::new(reply));
    receiver.replies("/late", after(14_900, Reply::Status(200)));
    receiver.replies("/too-late", after(15_100, Reply::Status(200)));
    receiver.replies("/never", Reply::Hold(Vec::new()));
    receiver.replies("/half", Reply::Hold(b"HTTP/1.1 200 OK\r\ncontent-le".into()));
    let body = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc";
    receiver.replies("/body", Reply::Hold(body.into()));

    for (path, outcome, took) in [
        ("/late", Outcome::answered(200), 14.9),
        ("/too-late", Outcome::TimedOut, 15.0),
        ("/never", Outcome::TimedOut, 15.0),
        ("/half", Outcome::TimedOut, 15.0),
        ("/body", Outcome::answered(200), 15.0),
    ] {
        let begun = Instant::now();
        assert_eq!(send(&local(), &receiver.url(path)).await, outcome, "{path}");
        assert_eq!(seconds(begun).to_string(), took.to_string(), "{path}");
    }

    // The connections of tries that were given up are closed.
    receiver.until(|seen| seen.closed == 5).await;
}

#[tokio::test(start_paused = true)]
async fn connecting_may_take_five_seconds_with_the_handshake_of_tls() {
    // It waits for the end of a head that never comes.
    let receiver = receiver().await;
    let settings = DeliverSettings::default().with_addresses(rules(&["127.0.0.1/32"], &[]));
    let begun = Instant::now();

    let url = format!("https://{}/", receiver.address);
    let outcome = send(&over(settings), &url).await;

    assert_eq!((outcome, seconds(begun).to_string()), (Outcome::TimedOut, "5".to_owned()));
    assert_eq!(receiver.connections(), 1);
}
