//! Answers of receivers, and what becomes of the connection.

use std::time::Duration;

use subscription_core::webhooks::DeliveryResult;
use test_support::receiver::Reply;

use super::{local, receiver, send};

const MEBIBYTE: u64 = 1 << 20;

#[tokio::test]
async fn a_delivery_has_the_headers_of_standard_webhooks_and_the_body_that_was_signed() {
    let receiver = receiver().await;

    let outcome = send(&local(), &receiver.url("/hooks?key=1")).await;

    assert_eq!(outcome, DeliveryResult::answered(200));
    let [delivery] = &receiver.received("/hooks?key=1")[..] else { panic!("one delivery") };
    let agent = concat!("subscription-http/", env!("CARGO_PKG_VERSION"));
    for (name, value) in [
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", "17"),
        ("webhook-signature", "v1,c2ln"),
        ("content-type", "application/json"),
        ("user-agent", agent),
        ("host", &receiver.address.to_string()),
    ] {
        assert_eq!(delivery.header(name), value, "{name}");
    }
    assert_eq!(delivery.headers.len(), 7, "{delivery:?}");
    assert_eq!(delivery.body, br#"{"type":"webhook.ping"}"#);
}

#[tokio::test]
async fn a_connection_is_used_again_unless_the_body_of_the_answer_is_long() {
    let (receiver, client) = (receiver().await, local());
    let body = |bytes: usize| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
        Reply::Send([head.into_bytes(), vec![b' '; bytes]].concat())
    };

    for reply in [Reply::Status(200), Reply::Status(500), body(1), body(4_096)] {
        receiver.replies("/", reply);
        for _ in 0..3 {
            send(&client, &receiver.url("/")).await.status().unwrap();
        }
    }
    assert_eq!(receiver.connections(), 1);

    // Longer than what is read of it, also by the buffer of the connection.
    receiver.replies("/", body(1 << 20));
    for _ in 0..3 {
        assert_eq!(send(&client, &receiver.url("/")).await, DeliveryResult::answered(200));
    }
    assert_eq!(receiver.connections(), 3);
}

#[tokio::test]
async fn w4_a_redirect_is_an_answer_like_any_other_and_nothing_is_sent_to_its_target() {
    let (target, receiver) = (receiver().await, receiver().await);
    for status in [301, 302, 303, 307, 308] {
        let location = target.url("/latest/meta-data");
        let head =
            format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        receiver.replies("/", Reply::Send(head.into_bytes()));

        assert_eq!(send(&local(), &receiver.url("/")).await, DeliveryResult::answered(status));
    }

    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn w5_an_answer_without_end_is_cut_off() {
    let (receiver, client) = (receiver().await, local());
    let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
    let ok = |header: &str| format!("HTTP/1.1 200 OK\r\n{header}\r\n").into_bytes();
    for (told, reply, outcome) in [
        ("a header", Reply::Endless(ok("x: "), vec![b'x'; 0x10000]), DeliveryResult::Unreachable),
        (
            "headers",
            Reply::Endless(ok("")[..17].into(), b"x: y\r\n".into()),
            DeliveryResult::Unreachable,
        ),
        (
            "a line",
            Reply::Endless(b"HTTP/1.1 200 ".into(), vec![b'x'; 512]),
            DeliveryResult::Unreachable,
        ),
        ("a body", Reply::Endless(ok(""), vec![b' '; 0x10000]), DeliveryResult::answered(200)),
        (
            "a body with a length",
            Reply::Endless(ok("content-length: 9999999999999\r\n"), vec![b' '; 0x10000]),
            DeliveryResult::answered(200),
        ),
        (
            "a body in chunks",
            Reply::Endless(ok("transfer-encoding: chunked\r\n"), chunk),
            DeliveryResult::answered(200),
        ),
    ] {
        receiver.replies("/", reply);
        let before = (receiver.sent(), receiver.connections());

        assert_eq!(send(&client, &receiver.url("/")).await, outcome, "{told}");

        receiver.until(|seen| seen.closed == before.1 + 1).await;
        // They lie in buffers of the system.
        assert!(receiver.sent() - before.0 < 16 * MEBIBYTE, "{told}: {}", receiver.sent());
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_none_unless_its_head_is_there() {
    let (receiver, client) = (receiver().await, local());
    for (begun, outcome) in [
        ("", DeliveryResult::Unreachable),
        ("HTTP/1.1 200", DeliveryResult::Unreachable),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n", DeliveryResult::Unreachable),
        ("SSH-2.0-OpenSSH_9.9\r\n\r\n", DeliveryResult::Unreachable),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc", DeliveryResult::answered(200)),
        ("HTTP/1.1 500 X\r\n\r\n", DeliveryResult::answered(500)),
    ] {
        receiver.replies("/", Reply::Close(begun.into()));

        assert_eq!(send(&client, &receiver.url("/")).await, outcome, "{begun}");
    }

    let gone = receiver.url("/");
    drop(receiver);
    let unheard = super::receiver().await.url("/");
    for nobody in [gone, unheard] {
        while send(&client, &nobody).await != DeliveryResult::Unreachable {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn the_time_to_wait_is_read_in_seconds_or_as_a_date() {
    let (receiver, client) = (receiver().await, local());
    for (headers, seconds) in [
        ("retry-after: 120\r\n", Some(120)),
        (
            "date: Fri, 31 Jan 2031 09:00:00 GMT\r\nretry-after: Fri, 31 Jan 2031 09:05:00 GMT\r\n",
            Some(300),
        ),
        ("retry-after: soon\r\n", None),
        ("", None),
    ] {
        let head = format!("HTTP/1.1 429 X\r\ncontent-length: 0\r\n{headers}\r\n");
        receiver.replies("/", Reply::Send(head.into_bytes()));

        let outcome = send(&client, &receiver.url("/")).await;

        let retry_after = seconds.map(Duration::from_secs);
        assert_eq!(outcome, DeliveryResult::Answered { status: 429, retry_after });
    }
}
