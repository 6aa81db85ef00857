//! The times of the next tries.

use std::time::Duration;

use subscription_core::Timestamp;
use subscription_core::webhooks::{DeliveryResult, PerMille, TRIES_MAX, next_probe, next_try};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const MIDDLE: PerMille = PerMille::new(500);

fn failed_at() -> Timestamp {
    "2026-01-31T09:00:00Z".parse().unwrap()
}

fn refused() -> DeliveryResult {
    DeliveryResult::answered(500)
}

fn asks_for(status: u16, seconds: u64) -> DeliveryResult {
    DeliveryResult::Answered { status, retry_after: Some(Duration::from_secs(seconds)) }
}

/// The delay of the next try, in milliseconds.
fn try_delay(tries: u32, outcome: &DeliveryResult, jitter: PerMille) -> Option<u128> {
    let next = next_try(tries, failed_at(), outcome, jitter)?;
    Some(next.since(failed_at()).as_millis())
}

fn probe_delay(probes: u32, outcome: &DeliveryResult, jitter: PerMille) -> u128 {
    next_probe(probes, failed_at(), outcome, jitter).since(failed_at()).as_millis()
}

fn seconds(seconds: u64) -> u128 {
    u128::from(seconds) * 1_000
}

#[test]
fn a_parked_event_is_tried_ten_times_over_75_hours() {
    let delays = [
        5,
        5 * MINUTE,
        30 * MINUTE,
        2 * HOUR,
        5 * HOUR,
        10 * HOUR,
        14 * HOUR,
        20 * HOUR,
        24 * HOUR,
    ];

    for (tries, delay) in (1..).zip(delays) {
        assert_eq!(try_delay(tries, &refused(), MIDDLE), Some(seconds(delay)), "{tries}");
    }
    assert_eq!(try_delay(TRIES_MAX, &refused(), MIDDLE), None);
    assert_eq!(try_delay(u32::MAX, &refused(), MIDDLE), None);
    assert_eq!(TRIES_MAX, 10);
    assert_eq!(delays.iter().sum::<u64>(), 75 * HOUR + 35 * MINUTE + 5);
}

#[test]
fn an_event_that_was_not_tried_yet_is_tried_as_after_its_first_try() {
    assert_eq!(try_delay(0, &refused(), MIDDLE), Some(seconds(5)));
}

#[test]
fn a_stalled_endpoint_is_tried_every_15_minutes_in_the_end() {
    let delays = [5, 30, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE, 15 * MINUTE];

    for (probes, delay) in (0..).zip(delays) {
        assert_eq!(probe_delay(probes, &refused(), MIDDLE), seconds(delay), "{probes}");
    }
    assert_eq!(probe_delay(u32::MAX, &refused(), MIDDLE), seconds(15 * MINUTE));
}

#[test]
fn a_delay_is_shortened_or_lengthened_by_up_to_a_fifth() {
    for (number, millis) in [(0, 4_000), (250, 4_500), (500, 5_000), (999, 5_998), (1_000, 6_000)] {
        let jitter = PerMille::new(number);

        assert_eq!(try_delay(1, &refused(), jitter), Some(millis), "{number}");
        assert_eq!(probe_delay(0, &refused(), jitter), millis, "{number}");
    }
    assert_eq!(PerMille::new(1_001), PerMille::new(0));
    assert_eq!(PerMille::new(u16::MAX), PerMille::new(470));
}

#[test]
fn an_overloaded_endpoint_has_a_minute_at_least() {
    let overloaded = [
        DeliveryResult::answered(429),
        DeliveryResult::answered(502),
        DeliveryResult::answered(504),
        DeliveryResult::TimedOut,
    ];
    for outcome in overloaded {
        for jitter in [0, 500, 1_000].map(PerMille::new) {
            assert_eq!(try_delay(1, &outcome, jitter), Some(seconds(60)), "{outcome:?}");
            assert_eq!(probe_delay(0, &outcome, jitter), seconds(60), "{outcome:?}");
        }
        assert_eq!(try_delay(2, &outcome, MIDDLE), Some(seconds(5 * MINUTE)), "{outcome:?}");
        assert_eq!(probe_delay(2, &outcome, MIDDLE), seconds(2 * MINUTE), "{outcome:?}");
    }

    let others = [302, 400, 404, 428, 430, 500, 501, 503, 505].map(DeliveryResult::answered);
    for outcome in others.into_iter().chain([DeliveryResult::Unreachable, DeliveryResult::Blocked])
    {
        assert_eq!(try_delay(1, &outcome, MIDDLE), Some(seconds(5)), "{outcome:?}");
        assert_eq!(probe_delay(0, &outcome, MIDDLE), seconds(5), "{outcome:?}");
    }
}

#[test]
fn retry_after_lengthens_a_delay_to_24_hours_at_most() {
    for (status, asked, delay) in [
        (503, 0, 5),
        (503, 4, 5),
        (503, 6, 6),
        (429, 59, 60),
        (429, 61, 61),
        (500, 24 * HOUR, 24 * HOUR),
        (500, 24 * HOUR + 1, 24 * HOUR),
        (500, u64::MAX, 24 * HOUR),
    ] {
        let outcome = asks_for(status, asked);

        assert_eq!(try_delay(1, &outcome, MIDDLE), Some(seconds(delay)), "{outcome:?}");
        assert_eq!(probe_delay(0, &outcome, MIDDLE), seconds(delay), "{outcome:?}");
    }
}

#[test]
fn retry_after_never_shortens_a_delay_and_no_jitter_shortens_it() {
    let longest = try_delay(9, &asks_for(503, 24 * HOUR), PerMille::new(1_000));
    let shortest = try_delay(1, &asks_for(503, HOUR), PerMille::new(0));

    assert_eq!(longest, Some(seconds(24 * HOUR) * 6 / 5));
    assert_eq!(shortest, Some(seconds(HOUR)));
    assert_eq!(try_delay(10, &asks_for(503, HOUR), MIDDLE), None, "it is given up all the same");
}
