//! Reports and retries of payments.

use subscription_core::billing::{AfterDunning, Dunning, Policy, retry};
use subscription_core::payments::PaymentKind as Kind;
use subscription_core::{
    Action, Effective, Field, ManagedBy, PaymentChanges, PaymentStatus, SubscriptionStatus,
    Timestamp,
};
use test_support::billing::{Life, days, hours};
use test_support::service_world::{at, of};

use PaymentStatus::{
    Canceled, Disputed, Failed, PartiallyRefunded, Pending as Asked, Processing, Refunded,
    Succeeded,
};
use SubscriptionStatus::{Active, Cancelled, Expired, PastDue, Pending, Unpaid};

const START: &str = "2026-03-01T00:00:00Z";

fn monthly() -> Life {
    Life::new("monthly", START, |_| {})
}

fn next_attempt(life: &Life, nth: usize) -> Option<Timestamp> {
    life.payments.get(nth).unwrap().next_attempt_at()
}

fn failed_until(next_attempt_at: Field<Timestamp>) -> PaymentChanges {
    PaymentChanges { next_attempt_at, ..PaymentChanges::status(Failed) }
}

fn dunning_ended_at(life: &Life) -> Option<Timestamp> {
    life.subscription.billing.as_ref().unwrap().dunning_ended_at
}

#[test]
fn a_failure_makes_it_past_due_since_the_first_one() {
    let mut life = monthly();
    life.until("2026-03-02T00:00:00Z");

    life.report(0, Failed);
    let first = (life.status(), life.subscription.past_due_since(), next_attempt(&life, 0));
    life.until("2026-03-03T00:00:00Z");
    let retried = (life.payments[0].status, life.payments[0].attempt(), next_attempt(&life, 0));
    life.report(0, Failed);

    let since = Some(at("2026-03-02T00:00:00Z"));
    assert_eq!(first, (PastDue, since, Some(at("2026-03-03T00:00:00Z"))));
    assert_eq!(retried, (Asked, Some(2), None));
    assert_eq!(life.subscription.past_due_since(), since);
    assert_eq!(next_attempt(&life, 0), Some(at("2026-03-06T00:00:00Z")), "the second span");
    assert!(life.subscription.is_active, "access while it is retried");
}

/// Only a payment that another system asked for can fail during a trial.
#[test]
fn a_trial_in_which_a_payment_failed_is_past_due_after_it() {
    let mut life = Life::new("monthly", START, |new| {
        new.trial_ends_at = at("2026-03-15T00:00:00Z").into();
    });
    life.subscription.billing.as_mut().unwrap().past_due_since = Some(at(START));

    life.until("2026-03-15T00:00:00Z");

    assert_eq!(life.status(), PastDue);
    assert_eq!(life.asked_days(), ["2026-03-15"]);
}

#[test]
fn a_retry_is_due_when_it_was_planned_though_the_clock_is_late() {
    let mut life = monthly();
    life.report(0, Failed);
    let failed = life.payments[0].clone();
    let now = at("2026-03-09T00:00:00Z");

    assert_eq!(retry(&failed, Some(&life.subscription), at(START)), None);
    let retried = retry(&failed, Some(&life.subscription), now).unwrap();

    let asked = retried.asked.as_ref().unwrap();
    assert_eq!((retried.status, asked.attempt, asked.retries), (Asked, 2, 1));
    assert_eq!((asked.due_at, asked.next_attempt_at), (at("2026-03-02T00:00:00Z"), None));
    assert_eq!((retried.version, retried.updated_at), (failed.version.next(), now));
    assert_eq!(retry(&retried, Some(&life.subscription), now), None);
}

#[test]
fn a_retry_for_a_subscription_that_is_over_gone_or_released_is_dropped() {
    let mut life = monthly();
    life.report(0, Failed);
    let failed = &life.payments[0];
    let mut expired = life.subscription.clone();
    expired.status = Expired;
    let mut released = life.subscription.clone();
    released.managed_by = ManagedBy::Caller;

    for subscription in [None, Some(&expired), Some(&released)] {
        let dropped = retry(failed, subscription, at("2026-03-09T00:00:00Z")).unwrap();

        assert_eq!((dropped.status, dropped.next_attempt_at()), (Failed, None));
        assert_eq!((dropped.attempt(), dropped.version), (Some(1), failed.version.next()));
    }
}

#[test]
fn the_collector_may_choose_the_next_attempt_or_end_the_retries() {
    let mut chosen = monthly();
    chosen.report(0, failed_until(at("2026-03-04T12:00:00Z").into()));
    assert_eq!(next_attempt(&chosen, 0), Some(at("2026-03-04T12:00:00Z")));
    assert_eq!(chosen.status(), PastDue);

    chosen.report(0, PaymentChanges { next_attempt_at: Field::Null, ..Default::default() });
    assert_eq!((next_attempt(&chosen, 0), chosen.status()), (None, Unpaid));

    let mut hard = monthly();
    hard.report(0, failed_until(Field::Null));
    assert_eq!((next_attempt(&hard, 0), hard.status()), (None, Unpaid));
}

#[test]
fn a_payment_that_bounces_after_it_succeeded_is_behind() {
    let mut life = monthly();
    life.report(0, Succeeded);

    life.report(0, Failed);

    assert_eq!(
        (life.status(), next_attempt(&life, 0)),
        (PastDue, Some(at("2026-03-02T00:00:00Z")))
    );
}

#[test]
fn an_attempt_by_hand_uses_no_entry_of_the_schedule() {
    let mut life = monthly();
    life.report(0, Failed);
    life.report(0, Processing);
    assert_eq!((life.payments[0].attempt(), next_attempt(&life, 0)), (Some(2), None));
    assert_eq!(life.status(), PastDue);

    life.report(0, Failed);
    assert_eq!(next_attempt(&life, 0), Some(at("2026-03-02T00:00:00Z")), "the first span still");

    life.report(0, Asked);
    let asked = life.payments[0].asked.as_ref().unwrap();
    assert_eq!((asked.attempt, asked.retries, asked.due_at), (3, 0, at(START)));
    life.report(0, Processing);
    assert_eq!(life.payments[0].attempt(), Some(3), "the same attempt");
}

#[test]
fn it_recovers_only_when_nothing_is_behind() {
    let mut life = Life::new("weekly", START, |_| {});
    life.until("2026-03-08T00:00:00Z");
    life.report(0, Failed);
    life.report(1, Failed);

    life.report(0, Succeeded);
    assert_eq!(life.status(), PastDue, "the other one is behind");
    life.report(1, Succeeded);

    assert_eq!((life.status(), life.subscription.past_due_since()), (Active, None));
}

#[test]
fn retries_have_ended_when_none_of_the_failed_payments_has_one() {
    let mut life = Life::new("weekly", START, |_| {});
    life.until("2026-03-08T00:00:00Z");
    life.report(0, failed_until(Field::Null));
    assert_eq!(life.status(), Unpaid);

    let mut two = Life::new("weekly", START, |_| {});
    two.until("2026-03-08T00:00:00Z");
    two.report(0, Failed);
    two.report(1, failed_until(Field::Null));
    assert_eq!((two.status(), dunning_ended_at(&two)), (PastDue, None), "one has a try");

    two.report(0, Succeeded);
    assert_eq!(two.status(), Unpaid, "the one that is behind has none");
    two.report(1, Succeeded);
    assert_eq!((two.status(), two.subscription.past_due_since()), (Active, None));
    assert_eq!(two.subscription.anchor_at, None, "the period still runs");
}

#[test]
fn the_policy_says_what_follows_the_last_retry() {
    let none = Dunning::try_from(Vec::new()).unwrap();
    let policy = Policy::default().with_dunning(none).with_after_dunning(AfterDunning::Expired);
    let mut life = Life::by(policy, "monthly", START, |_| {}).unwrap();
    life.advance(days(2));

    life.report(0, Failed);

    assert_eq!((life.status(), life.payments[0].status), (Expired, Failed));
    assert_eq!(life.subscription.ends_at, Some(at("2026-03-03T00:00:00Z")));
}

#[test]
fn a_cancelled_one_is_retried_until_its_end_and_expires_when_retries_end() {
    let mut life = monthly();
    life.report(0, Failed);
    life.act(Action::Cancel(Some(Effective::PeriodEnd))).unwrap();
    life.until("2026-03-02T00:00:00Z");
    assert_eq!((life.status(), life.payments[0].status), (Cancelled, Asked));

    life.report(0, failed_until(Field::Null));

    assert_eq!(
        (life.status(), life.subscription.ends_at),
        (Expired, Some(at("2026-03-02T00:00:00Z")))
    );
}

#[test]
fn an_end_leaves_open_payments_and_stops_their_retries() {
    let mut life =
        Life::new("monthly", START, |new| new.ends_at = Some(at("2026-03-02T00:00:00Z")));
    life.report(0, Failed);

    life.until("2026-03-02T00:00:00Z");

    assert_eq!((life.status(), life.payments[0].status), (Expired, Failed));
    assert_eq!(next_attempt(&life, 0), None);
    life.report(0, Succeeded);
    assert_eq!((life.status(), life.subscription.past_due_since()), (Expired, None));
}

#[test]
fn a_forgiven_payment_counts_as_paid_but_for_its_value() {
    let mut life = monthly();
    life.report(0, Failed);

    life.report(0, Canceled);

    assert_eq!((life.status(), life.subscription.past_due_since()), (Active, None));
    assert_eq!(life.subscription.billing.as_ref().unwrap().period_value, of("0.00"));
}

#[test]
fn only_a_refund_of_the_running_period_takes_its_value() {
    // The reports, and the value of the running period after them.
    let cases: [(&[PaymentStatus], &str); 5] = [
        (&[Succeeded], "10.00"),
        (&[Succeeded, PartiallyRefunded], "10.00"),
        (&[Succeeded, Disputed], "10.00"),
        (&[Succeeded, Refunded], "0.00"),
        (&[Canceled], "0.00"),
    ];
    for (reports, value) in cases {
        let mut running = monthly();
        let mut over = monthly();
        over.until("2026-04-01T00:00:00Z");
        for status in reports {
            running.report(0, *status);
            over.report(0, *status);
        }

        let value_of = |life: &Life| life.subscription.billing.as_ref().unwrap().period_value;
        assert_eq!(value_of(&running).to_string(), value, "{reports:?}");
        assert_eq!(value_of(&over).to_string(), "10.00", "{reports:?}");
        assert_eq!((running.status(), over.status()), (Active, Active));
    }
}

#[test]
fn a_first_payment_that_is_cancelled_leaves_it_pending_until_it_lapses() {
    let mut life = on_payment();
    life.report(0, Processing);

    life.report(0, Canceled);
    assert_eq!(life.status(), Pending);
    life.until("2026-03-01T23:00:00Z");

    assert_eq!(life.status(), Expired);
}

fn on_payment() -> Life {
    let policy =
        Policy::default().with_activation(subscription_core::billing::Activation::OnPayment);
    Life::by(policy, "monthly", START, |_| {}).unwrap()
}

fn lapses_at(life: &Life) -> Option<Timestamp> {
    life.subscription.billing.as_ref().unwrap().lapses_at
}

#[test]
fn only_the_first_payment_of_its_period_makes_one_that_waits_active() {
    // A payment that another system asked for, by its kind and the start of its period.
    for (kind, start) in [(Kind::Renewal, START), (Kind::Initial, "2026-02-01T00:00:00Z")] {
        let mut life = on_payment();
        let asked = life.payments[0].asked.as_mut().unwrap();
        (asked.kind, asked.period_start) = (kind, at(start));

        life.report(0, Succeeded);

        assert_eq!(life.status(), Pending, "{kind} {start}");
    }
    let mut life = on_payment();
    life.report(0, Succeeded);
    assert_eq!((life.status(), lapses_at(&life)), (Active, None));
}

#[test]
fn only_one_that_waits_for_the_failed_or_cancelled_payment_lapses() {
    let mut failed = monthly();
    failed.report(0, Failed);
    assert_eq!(lapses_at(&failed), None);

    let mut not_begun = monthly();
    not_begun.subscription.status = Pending;
    not_begun.subscription.starts_at = at("2026-03-05T00:00:00Z");
    not_begun.subscription.billing.as_mut().unwrap().current_period_start = None;
    not_begun.report(0, Failed);
    assert_eq!(lapses_at(&not_begun), None);

    let mut active = monthly();
    active.report(0, Canceled);
    assert_eq!(lapses_at(&active), None);

    let mut of_another_period = on_payment();
    of_another_period.report(0, Processing);
    let asked = of_another_period.payments[0].asked.as_mut().unwrap();
    asked.period_start = at("2026-02-01T00:00:00Z");
    of_another_period.report(0, Canceled);
    assert_eq!(lapses_at(&of_another_period), None);
}

#[test]
fn another_field_of_a_payment_is_neither_an_attempt_nor_a_failure() {
    let named = |name: &str| PaymentChanges {
        external_payment_id: Field::Value(of(name)),
        ..Default::default()
    };
    let mut life = monthly();
    life.until("2026-03-02T00:00:00Z");

    life.report(0, named("pi_1"));
    let asked = life.payments[0].asked.as_ref().unwrap();
    assert_eq!((asked.attempt, asked.due_at), (1, at(START)));
    life.report(0, Failed);
    let planned = next_attempt(&life, 0);
    life.advance(hours(3));
    life.report(0, named("pi_2"));

    assert_eq!(next_attempt(&life, 0), planned, "the retry stays");
}

#[test]
fn a_report_that_changes_nothing_writes_no_subscription() {
    let mut life = monthly();

    for status in [Processing, Succeeded, Disputed] {
        life.report(0, status);
    }

    assert_eq!(life.writes.len(), 1);
}

#[test]
fn a_payment_of_a_subscription_that_callers_manage_moves_nothing() {
    let mut life = monthly();
    life.subscription.managed_by = ManagedBy::Caller;

    life.report(0, Failed);

    assert_eq!((life.status(), next_attempt(&life, 0)), (Active, None));
}
