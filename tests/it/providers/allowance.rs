//! The number of reads that are allowed in a time.

use std::time::Duration;

use subscription_core::Timestamp;
use subscription_core::providers::{Allowance, ProviderKind};
use test_support::service_world::at;

fn start() -> Timestamp {
    at("2026-01-05T09:00:00.000000Z")
}

fn after(millis: u64) -> Timestamp {
    start().saturating_add(Duration::from_millis(millis))
}

#[test]
fn as_many_as_are_allowed_are_taken_at_once_and_come_back_one_by_one() {
    let allowance = Allowance::new(Duration::from_secs(1), 5);

    for _ in 0..5 {
        allowance.take(start()).unwrap();
    }

    assert_eq!(allowance.take(start()), Err(after(200)));
    assert_eq!(allowance.take(after(199)), Err(after(200)));
    assert_eq!(allowance.take(after(200)), Ok(()));
    assert_eq!(allowance.take(after(200)), Err(after(400)));
    for _ in 0..5 {
        allowance.take(after(60_000)).unwrap();
    }
    assert_eq!(allowance.take(after(60_000)), Err(after(60_200)), "no more than these are saved");
}

#[test]
fn whoever_comes_at_the_moment_that_was_named_is_served() {
    let allowance = Allowance::new(Duration::from_secs(1), 3);
    let mut now = start();

    for _ in 0..1_000 {
        if let Err(again) = allowance.take(now) {
            assert!(again > now);
            now = again;
            allowance.take(now).unwrap();
        }
    }
}

#[test]
fn a_clock_that_was_set_back_stops_nobody_for_long() {
    let allowance = Allowance::new(Duration::from_secs(1), 1);
    allowance.take(after(86_400_000)).unwrap();

    let again = allowance.take(start()).unwrap_err();

    assert_eq!(again, after(4_000));
    allowance.take(again).unwrap();
}

#[test]
fn a_read_that_overdraws_is_made_up_for_by_those_after_it() {
    let allowance = Allowance::new(Duration::from_secs(1), 2);
    allowance.take(start()).unwrap();
    allowance.take(start()).unwrap();

    allowance.overdraw(start());

    assert_eq!(allowance.take(start()).unwrap_err(), after(1_000));
    allowance.take(after(1_000)).unwrap();
}

/// The most reads in any span that begins with a read, by somebody who takes all that there are.
#[test]
fn the_limits_of_the_providers_are_never_exceeded() {
    for (kind, span, limit, average) in
        [(ProviderKind::LemonSqueezy, 60_000, 300, 200), (ProviderKind::Stripe, 1_000, 25, 20)]
    {
        let allowance = Allowance::of(kind);
        let span = Duration::from_millis(span);
        let mut taken = Vec::new();
        let mut now = start();

        while now.since(start()) < span * 10 {
            match allowance.take(now) {
                Ok(()) => taken.push(now),
                Err(again) => now = again,
            }
        }

        for (at, first) in taken.iter().enumerate() {
            let within = taken[at..].iter().take_while(|it| it.since(*first) < span).count();
            assert!(within <= limit, "{kind}: {within}");
        }
        assert!(taken.len() >= average * 10, "{kind}: {}", taken.len());
    }
}

#[test]
fn an_allowance_of_none_is_one() {
    let allowance = Allowance::new(Duration::from_secs(1), 0);

    assert_eq!(allowance.take(start()), Ok(()));
    assert_eq!(allowance.take(start()), Err(after(1_000)));
}
