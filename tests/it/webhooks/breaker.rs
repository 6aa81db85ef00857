//! The decision after each failure.

use std::time::Duration;

use subscription_core::Timestamp;
use subscription_core::webhooks::{
    Breaker, BreakerDecision, Delivery, DeliveryResult, DisabledReason, PARKED_MAX, StallReason,
};

const FAILING: BreakerDecision = BreakerDecision::Stall(StallReason::Failing);
const FULL: BreakerDecision = BreakerDecision::Stall(StallReason::ParkedFull);

fn start() -> Timestamp {
    "2026-01-31T09:00:00Z".parse().unwrap()
}

fn later(seconds: u64) -> Timestamp {
    start().saturating_add(Duration::from_secs(seconds))
}

/// Fails the event, with no other parked.
fn fails(breaker: &mut Breaker, sequence: u64) -> BreakerDecision {
    breaker.failed(sequence, start(), &DeliveryResult::answered(500), 0)
}

#[test]
fn five_events_that_fail_in_a_row_stall_the_endpoint() {
    let mut breaker = Breaker::default();

    let decisions: Vec<_> = (1..=5).map(|sequence| fails(&mut breaker, sequence)).collect();

    assert_eq!(
        decisions,
        [
            BreakerDecision::Park,
            BreakerDecision::Park,
            BreakerDecision::Park,
            BreakerDecision::Park,
            FAILING
        ]
    );
}

#[test]
fn one_bad_event_never_stalls_the_endpoint() {
    let mut breaker = Breaker::default();

    for _ in 0..20 {
        assert_eq!(fails(&mut breaker, 7), BreakerDecision::Park);
    }
    for sequence in [8, 7, 9, 8, 10, 7] {
        assert_eq!(fails(&mut breaker, sequence), BreakerDecision::Park);
    }

    assert_eq!(fails(&mut breaker, 11), FAILING, "the fifth event");
}

#[test]
fn a_success_between_failures_starts_the_count_again() {
    let mut breaker = Breaker::default();
    for sequence in 1..=4 {
        fails(&mut breaker, sequence);
    }

    assert_eq!(breaker.succeeded(), None, "it was not stalled");

    for sequence in 5..=8 {
        assert_eq!(fails(&mut breaker, sequence), BreakerDecision::Park);
    }
    assert_eq!(fails(&mut breaker, 9), FAILING);
}

#[test]
fn every_failure_counts_whatever_its_outcome() {
    let mut breaker = Breaker::default();
    let outcomes = [
        DeliveryResult::answered(302),
        DeliveryResult::TimedOut,
        DeliveryResult::Unreachable,
        DeliveryResult::Blocked,
        DeliveryResult::answered(404),
    ];

    let decisions = outcomes.iter().zip(1..).map(|(it, at)| breaker.failed(at, start(), it, 0));

    assert_eq!(decisions.last(), Some(FAILING));
}

#[test]
fn an_event_that_finds_100_parked_stalls_the_endpoint() {
    let failed = |parked| Breaker::default().failed(1, start(), &DeliveryResult::TimedOut, parked);

    assert_eq!(PARKED_MAX, 100);
    assert_eq!(failed(99), BreakerDecision::Park);
    assert_eq!(failed(100), FULL);
    assert_eq!(failed(101), FULL);
}

#[test]
fn five_failures_win_over_a_full_list_of_parked_events() {
    let mut breaker = Breaker::default();
    for sequence in 1..=4 {
        fails(&mut breaker, sequence);
    }

    assert_eq!(breaker.failed(5, start(), &DeliveryResult::TimedOut, 100), FAILING);
}

#[test]
fn a_stall_counts_its_tries_and_ends_with_a_success() {
    let mut breaker = Breaker::default();
    assert_eq!(fails(&mut breaker, 1), BreakerDecision::Park);
    assert_eq!(breaker.failed(1, later(3), &DeliveryResult::TimedOut, 100), FULL);
    let stall = breaker.stall().unwrap();
    assert_eq!((stall.since, stall.probes, stall.next_at), (later(3), 0, later(3)));
    assert_eq!(stall.reason, StallReason::ParkedFull);

    breaker.probe_at(later(5));
    let decisions = [1, 1, 2, 3, 4, 5].map(|sequence| {
        // The reason is the first one, and a list with room again ends no stall.
        breaker.failed(sequence, later(10), &DeliveryResult::TimedOut, 0)
    });

    assert_eq!(decisions, [FULL; 6]);
    let stall = breaker.stall().cloned().unwrap();
    assert_eq!((stall.since, stall.probes, stall.next_at), (later(3), 6, later(5)));
    assert_eq!(breaker.succeeded(), Some(stall));
    assert_eq!(breaker.stall(), None);
    assert_eq!(fails(&mut breaker, 1), BreakerDecision::Park);
}

#[test]
fn a_stall_can_begin_and_end_without_a_try() {
    let mut breaker = Breaker::default();
    fails(&mut breaker, 1);
    let mut stalled = Breaker::default();
    stalled.failed(1, start(), &DeliveryResult::TimedOut, 100);

    breaker.set_stall(stalled.stall().cloned());
    assert_eq!(fails(&mut breaker, 2), FULL);

    breaker.set_stall(None);
    assert_eq!(breaker.stall(), None);
    let mut delivery = Delivery::default();
    breaker.store(&mut delivery);
    assert_eq!(delivery.failing_since, Some(start()), "it still fails");
}

#[test]
fn an_endpoint_that_is_not_stalled_has_no_next_try() {
    let mut breaker = Breaker::default();

    breaker.probe_at(later(5));

    assert_eq!(breaker.stall(), None);
}

#[test]
fn five_days_without_a_success_disable_the_endpoint() {
    const FIVE_DAYS: u64 = 5 * 24 * 60 * 60;
    let failing = BreakerDecision::Disable(DisabledReason::Failing);
    let failed = |breaker: &mut Breaker, seconds| {
        breaker.failed(1, later(seconds), &DeliveryResult::answered(500), 0)
    };
    let mut breaker = Breaker::default();

    assert_eq!(failed(&mut breaker, 0), BreakerDecision::Park);
    assert_eq!(failed(&mut breaker, FIVE_DAYS - 1), BreakerDecision::Park);
    assert_eq!(failed(&mut breaker, FIVE_DAYS), failing);
    assert_eq!(failed(&mut breaker, FIVE_DAYS + 1), failing);

    breaker.succeeded();
    assert_eq!(failed(&mut breaker, FIVE_DAYS + 2), BreakerDecision::Park, "it counts from here");
}

#[test]
fn a_stalled_endpoint_is_disabled_after_five_days_too() {
    let mut breaker = Breaker::default();
    for sequence in 1..=5 {
        fails(&mut breaker, sequence);
    }

    let decision = breaker.failed(5, later(5 * 24 * 60 * 60), &DeliveryResult::TimedOut, 0);

    assert_eq!(decision, BreakerDecision::Disable(DisabledReason::Failing));
}

#[test]
fn gone_disables_the_endpoint_at_once() {
    let gone = BreakerDecision::Disable(DisabledReason::Gone);
    let mut breaker = Breaker::default();

    assert_eq!(breaker.failed(1, start(), &DeliveryResult::answered(410), 0), gone);

    for sequence in 1..=5 {
        fails(&mut breaker, sequence);
    }
    let decision = breaker.failed(6, later(5 * 24 * 60 * 60), &DeliveryResult::answered(410), 100);
    assert_eq!(decision, gone, "whatever else is true");
}

#[test]
fn a_stored_state_goes_on_where_it_was() {
    let mut breaker = Breaker::default();
    for sequence in 1..=5 {
        fails(&mut breaker, sequence);
    }
    breaker.probe_at(later(5));
    let mut delivery = Delivery::default();

    breaker.store(&mut delivery);
    let mut again = Breaker::new(&delivery);

    assert_eq!(delivery.failing_since, Some(start()));
    assert_eq!(delivery.stall.as_ref(), breaker.stall());
    assert_eq!(again.failed(6, later(5), &DeliveryResult::TimedOut, 0), FAILING);
    assert_eq!(again.stall().unwrap().probes, 1);
    let decision = again.failed(6, later(5 * 24 * 60 * 60), &DeliveryResult::TimedOut, 0);
    assert_eq!(decision, BreakerDecision::Disable(DisabledReason::Failing));

    again.succeeded();
    again.store(&mut delivery);
    assert_eq!(delivery, Delivery::default());
}
