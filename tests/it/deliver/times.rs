//! The times of a try, a twentieth of the usual ones.

use std::time::{Duration, Instant};

use subscription_core::webhooks::DeliveryResult;
use subscription_http::DeliverSettings;
use test_support::receiver::Reply;

use super::{over, receiver, rules, send};

const IN_ALL: Duration = Duration::from_millis(750);
const TO_CONNECT: Duration = Duration::from_millis(250);

fn settings() -> DeliverSettings {
    let usual = DeliverSettings::default().with_addresses(rules(&["127.0.0.1/32"], &[]));
    assert_eq!((usual.timeout, usual.connect_timeout), (IN_ALL * 20, TO_CONNECT * 20));
    usual.with_timeout(IN_ALL).with_connect_timeout(TO_CONNECT)
}

#[tokio::test]
async fn w5_a_late_answer_counts_and_none_does_after_the_time_of_a_try() {
    let (receiver, client) = (receiver().await, over(&settings()));
    let after = |span, reply| Reply::After(span, Box::new(reply));
    receiver.replies("/late", after(IN_ALL / 2, Reply::Status(200)));
    receiver.replies("/too-late", after(IN_ALL * 2, Reply::Status(200)));
    receiver.replies("/never", Reply::Hold(Vec::new()));
    receiver.replies("/half", Reply::Hold(b"HTTP/1.1 200 OK\r\ncontent-le".into()));
    let body = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc";
    receiver.replies("/body", Reply::Hold(body.into()));
    let informs = b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec();
    receiver.replies("/informs", Reply::Endless(informs.clone(), informs));

    let check = async |path: &str, outcome, takes_all: bool| {
        let begun = Instant::now();
        assert_eq!(send(&client, &receiver.url(path)).await, outcome, "{path}");
        assert!(!takes_all || begun.elapsed() >= IN_ALL, "{path}");
    };
    // At once: they mostly wait.
    tokio::join!(
        check("/late", DeliveryResult::answered(200), false),
        check("/too-late", DeliveryResult::TimedOut, true),
        check("/never", DeliveryResult::TimedOut, true),
        check("/half", DeliveryResult::TimedOut, true),
        check("/informs", DeliveryResult::TimedOut, true),
        // The status counts, though the body never ends.
        check("/body", DeliveryResult::answered(200), true),
    );

    // The connections of tries that were given up are closed.
    receiver.until(|seen| seen.closed >= 5).await;
}

#[tokio::test]
async fn connecting_has_a_time_of_its_own_with_the_handshake_of_tls() {
    // It waits for the end of a head that never comes.
    let receiver = receiver().await;
    let client = over(&settings().with_timeout(Duration::from_mins(10)));

    let outcome = send(&client, &format!("https://{}/", receiver.address)).await;

    assert_eq!(outcome, DeliveryResult::TimedOut);
    assert_eq!(receiver.connections(), 1);
}
