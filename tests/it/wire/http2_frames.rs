//! HTTP/2 as no honest client speaks it: what is refused, and with what.

use std::time::Duration;

use subscription_http::Limits;
use test_support::http2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, field, frame,
    greeting, head, request,
};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;

use super::world::{DEADLINE, Raw, SHORT, Wire, over, within};

const GOAWAY: u8 = 7;

/// "Not begun, send it again", of the errors that HTTP/2 knows.
const REFUSED_STREAM: u32 = 7;

/// "Calm down", of the errors that HTTP/2 knows.
const ENHANCE_YOUR_CALM: u32 = 11;

/// A connection that is open.
async fn connect(wire: &Wire) -> Raw {
    let mut raw = wire.connect().await;
    raw.send(greeting()).await;
    raw
}

/// The frames that are whole in what came: kind, stream and payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u32, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((&[a, b, c, kind, _, stream @ ..], rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        found.push((kind, u32::from_be_bytes(stream), payload.to_vec()));
        bytes = rest;
    }
    found
}

/// Frames that came until the other side closed or was quiet.
async fn came(raw: &mut Raw) -> Vec<(u8, u32, Vec<u8>)> {
    let mut bytes = Vec::new();
    let quiet = Duration::from_secs(1);
    while let Ok(Ok(1..)) = tokio::time::timeout(quiet, raw.stream.read_buf(&mut bytes)).await {}
    frames(&bytes)
}

/// The status of an answer: HPACK has 200 as one byte, and 431 as text in Huffman's code.
fn status(block: &[u8]) -> u16 {
    match block {
        [0x88, ..] => 200,
        [0x48, 0x83, 0x69, 0x90, 0xff, ..] => 431,
        _ => panic!("{block:?}"),
    }
}

/// Why the other side went away, if it said so.
fn why(frames: &[(u8, u32, Vec<u8>)]) -> Option<u32> {
    let (_, _, payload) = frames.iter().find(|(kind, ..)| *kind == GOAWAY)?;
    payload.get(4..8).map(|code| u32::from_be_bytes(code.try_into().unwrap()))
}

/// Sends pieces until the other side has had enough of them.
async fn flood(raw: &mut Raw, most: usize, mut piece: impl FnMut(u32) -> Vec<u8>) -> bool {
    let begun = Instant::now();
    for n in 0..u32::try_from(most).unwrap() {
        use tokio::io::AsyncWriteExt as _;
        if within(raw.stream.write_all(&piece(n))).await.is_err() {
            return true;
        }
        assert!(begun.elapsed() < DEADLINE, "{n} are taken");
    }
    false
}

#[tokio::test]
async fn headers_over_the_limit_are_answered_431_and_far_over_it_end_the_connection() {
    let wire = Wire::new().await;
    let long = |long: usize| {
        let mut block = head("GET", "/health/live");
        block.extend(field("x-long", &"a".repeat(long)));
        let mut pieces = block.chunks(16_000).enumerate().peekable();
        let mut bytes = Vec::new();
        while let Some((n, piece)) = pieces.next() {
            let kind = if n == 0 { HEADERS } else { CONTINUATION };
            let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
            bytes.extend(frame(kind, last | if n == 0 { END_STREAM } else { 0 }, 1, piece));
        }
        bytes
    };
    for (bytes, expected) in [(15_000, Some(200)), (20_000, Some(431)), (200_000, None)] {
        let mut raw = connect(&wire).await;
        raw.send(long(bytes)).await;

        let came = came(&mut raw).await;

        let answer = came.iter().find(|(kind, stream, _)| (*kind, *stream) == (HEADERS, 1));
        assert_eq!(answer.map(|(.., block)| status(block)), expected, "{bytes}: {came:?}");
        assert_eq!(why(&came).is_some(), expected.is_none(), "{bytes}: {came:?}");
        wire.lives("long headers").await;
    }
}

#[tokio::test]
async fn those_who_give_up_requests_at_once_are_told_to_calm_down() {
    let wire = Wire::new().await;
    let mut raw = connect(&wire).await;
    let ended = flood(&mut raw, 100_000, |n| {
        let stream = 2 * n + 1;
        let mut bytes = request(stream, "GET", "/health/live");
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        bytes
    })
    .await;

    assert!(ended, "a hundred thousand were taken");
    wire.lives("rapid resets").await;
}

#[tokio::test]
async fn a_head_that_goes_on_and_on_ends_the_connection() {
    let wire = Wire::new().await;
    for (case, payload) in [("empty", Vec::new()), ("full", field("x-a", &"b".repeat(100)))] {
        let mut raw = connect(&wire).await;
        raw.send(frame(HEADERS, END_STREAM, 1, &head("GET", "/health/live"))).await;

        let ended = flood(&mut raw, 100_000, |_| frame(CONTINUATION, 0, 1, &payload)).await;

        assert!(ended, "{case}");
        wire.lives(case).await;
    }
}

#[tokio::test]
async fn a_body_of_empty_pieces_ends_the_connection() {
    let wire = Wire::new().await;
    let mut raw = connect(&wire).await;
    raw.send(frame(HEADERS, END_HEADERS, 1, &head("POST", "/subscription-plans"))).await;
    raw.send(frame(DATA, 0, 1, b"").repeat(1_000)).await;

    let came = came(&mut raw).await;

    assert_eq!(why(&came), Some(ENHANCE_YOUR_CALM), "{came:?}");
    wire.lives("empty pieces").await;
}

#[tokio::test]
async fn floods_that_the_protocol_allows_are_in_nobodys_way() {
    let wire = Wire::new().await;
    let settings = [0, 3, 0, 0, 0, 100];
    for (case, piece) in [
        ("pings", frame(PING, 0, 0, &[0; 8])),
        ("settings", frame(SETTINGS, 0, 0, &settings)),
        ("empty settings", frame(SETTINGS, 0, 0, b"")),
    ] {
        let mut raw = connect(&wire).await;
        let pieces = piece.repeat(100);
        let attack = tokio::spawn(async move {
            use tokio::io::AsyncWriteExt as _;
            // Nothing of what comes back is read, so at some point nothing more is taken.
            let sends = async {
                for _ in 0..2_000 {
                    if raw.stream.write_all(&pieces).await.is_err() {
                        break;
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(1), sends).await.ok();
        });
        while !attack.is_finished() {
            wire.lives(case).await;
        }
        within(attack).await.unwrap();
        wire.lives(case).await;
    }
}

/// A client that does not know yet how many requests it may send at once sends the refused ones again.
#[tokio::test]
async fn requests_beyond_those_allowed_at_once_are_refused_and_end_nothing() {
    let wire = Wire::new().await;
    let mut raw = connect(&wire).await;
    let requests = (0..100).map(|n| request(2 * n + 1, "GET", "/health/live"));
    raw.send(requests.collect::<Vec<_>>().concat()).await;

    let first = came(&mut raw).await;
    raw.send(request(201, "GET", "/health/live")).await;
    let second = came(&mut raw).await;

    let answered = first.iter().filter(|(kind, ..)| *kind == HEADERS).count();
    let refused: Vec<_> = first.iter().filter(|(kind, ..)| *kind == RST_STREAM).collect();
    assert!(answered >= 32, "{answered}");
    assert_eq!(answered + refused.len(), 100);
    assert!(refused.iter().all(|(.., code)| *code == REFUSED_STREAM.to_be_bytes()), "{refused:?}");
    assert_eq!(why(&first), None);
    assert!(second.iter().any(|(kind, stream, _)| (*kind, *stream) == (HEADERS, 201)));
}

/// One byte at a time may be sent, so hyper has taken the answers over; none is ever fetched, and new
/// requests keep the connection from idling.
#[tokio::test]
async fn answers_that_are_not_fetched_end_the_connection_however_busy_it_is() {
    let wire = Wire::limited(Limits::default().with_send_timeout(SHORT * 2)).await;
    let mut raw = wire.connect().await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // An initial window of one byte.
    bytes.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]));
    bytes.extend(request(1, "GET", "/openapi.json"));
    raw.send(bytes).await;

    let begun = Instant::now();
    let (mut stream, mut heads, mut read) = (3, 0, Vec::new());
    loop {
        // Answered without a body, so that it is over at once.
        raw.send(request(stream, "HEAD", "/health/live")).await;
        stream += 2;
        match tokio::time::timeout(SHORT / 3, raw.stream.read_buf(&mut read)).await {
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(_)) => heads += 1,
            Err(_) => {}
        }
        tokio::time::sleep(SHORT / 3).await;
        assert!(begun.elapsed() < DEADLINE, "it is still served: {heads}");
    }

    assert!(begun.elapsed() >= SHORT * 2, "{:?}", begun.elapsed());
    assert!(heads > 1, "nothing else was answered");
    wire.lives("answers that are not fetched").await;
}

#[tokio::test]
async fn a_request_given_up_is_told_as_one_that_was_not_answered() {
    let (wire, store) = over(super::world::Hangs::default(), Limits::default()).await;
    let mut raw = connect(&wire).await;
    raw.send(request(1, "GET", "/subscription-plans/pro")).await;
    store.spy.came.notified().await;

    raw.send(frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes())).await;

    wire.counts(r#"route="/subscription-plans/{slug}",status="499"} 1"#).await;
}
