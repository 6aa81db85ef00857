//! Updates: take-over by the clock, release from it, and the fields that stay free.

use std::time::Duration;

use subscription_core::subscriptions::ScheduledChange;
use subscription_core::{
    Action, Effective, Error, Field, ManagedBy, NewSubscription, PaymentStatus,
    SubscriptionChanges, SubscriptionStatus, Timestamp,
};
use test_support::billing::{Life, invariants};
use test_support::service_world::{at, faults, of, wrong};

use SubscriptionStatus::{Active, Expired, OnTrial, PastDue, Paused, Unpaid};

const START: &str = "2026-03-01T00:00:00Z";

fn changes() -> SubscriptionChanges {
    SubscriptionChanges::default()
}

fn managed_by(by: ManagedBy) -> SubscriptionChanges {
    SubscriptionChanges { managed_by: Some(by), ..changes() }
}

fn trial_until(end: impl Into<Field<Timestamp>>) -> SubscriptionChanges {
    SubscriptionChanges { trial_ends_at: end.into(), ..changes() }
}

fn resumes(at: impl Into<Field<Timestamp>>) -> SubscriptionChanges {
    SubscriptionChanges { resumes_at: at.into(), ..changes() }
}

fn of_caller(change: impl FnOnce(&mut NewSubscription)) -> Life {
    Life::new("monthly", START, |new| {
        new.managed_by = Some(ManagedBy::Caller);
        change(new);
    })
}

fn take_over(life: &mut Life) -> Result<bool, Error> {
    let (price, currency) = (of("12.5"), of("USD"));
    life.update(SubscriptionChanges {
        price: Field::Value(price),
        currency: Field::Value(currency),
        ..managed_by(ManagedBy::Clock)
    })
}

#[test]
fn what_the_clock_takes_over_is_paid_until_its_renewal() {
    let mut life = of_caller(|_| {});
    life.until("2026-03-10T00:00:00Z");

    take_over(&mut life).unwrap();
    assert_eq!((life.status(), life.payments.len()), (Active, 0));
    let billing = life.subscription.billing.clone().unwrap();
    assert_eq!(
        (billing.current_period_start, billing.period_value),
        (Some(at(START)), of("12.50"))
    );
    assert_eq!(life.subscription.next_action_at(), Some(at("2026-03-29T00:00:00Z")));

    life.until("2026-04-01T00:00:00Z");
    assert_eq!(life.amounts(), ["12.50"]);
}

#[test]
fn a_take_over_needs_currency_price_and_a_renewal_ahead() {
    let mut bare = of_caller(|_| {});
    assert_eq!(faults(bare.update(managed_by(ManagedBy::Clock))), ["currency required"]);
    let currency = Field::Value(of("USD"));
    let without_price = SubscriptionChanges { currency, ..managed_by(ManagedBy::Clock) };
    assert_eq!(faults(bare.update(without_price)), ["price required"]);

    let mut late = of_caller(|_| {});
    late.until("2026-04-01T00:00:00Z");
    assert_eq!(faults(take_over(&mut late)), ["renews_at out_of_range"]);

    let mut over = of_caller(|new| new.status = Some(Expired));
    assert_eq!(wrong(take_over(&mut over)).1, "invalid_transition");
}

#[test]
fn a_take_over_of_one_that_is_past_due_waits_for_its_payment_as_long_as_retries_take() {
    let mut life = of_caller(|new| new.status = Some(PastDue));

    take_over(&mut life).unwrap();

    assert_eq!(life.subscription.past_due_since(), Some(at(START)));
    let end = Duration::from_hours(14 * 24);
    assert_eq!(life.subscription.next_action_at(), Some(at(START).saturating_add(end)));
    life.until("2026-05-01T00:00:00Z");
    assert_eq!((life.status(), life.payments.len()), (Unpaid, 0));
}

#[test]
fn a_released_one_keeps_price_credit_and_payments_and_is_not_moved() {
    let mut life = Life::new("monthly", START, |new| new.credit = Some(of("1.50")));
    life.report(0, PaymentStatus::Failed);
    life.act(Action::Cancel(Some(Effective::PeriodEnd))).unwrap();

    life.update(managed_by(ManagedBy::Caller)).unwrap();
    let released = life.subscription.clone();
    life.until("2027-03-01T00:00:00Z");

    assert_eq!(life.subscription, released);
    assert_eq!((released.price(), released.currency()), (Some(of("10")), Some(of("USD"))));
    assert_eq!((released.next_action_at(), released.past_due_since()), (None, None));
    let billing = released.billing.as_ref().unwrap();
    assert_eq!((billing.dunning_ended_at, billing.current_period_start), (None, None));
    assert_eq!(life.payments[0].status, PaymentStatus::Failed);
    assert_eq!(life.payments[0].next_attempt_at(), None, "retries stop");
    assert_eq!(released.current_period_start(), Some(at(START)));
}

#[test]
fn fields_that_the_clock_sets_are_refused() {
    let mut life = Life::new("monthly", START, |_| {});
    let refused = [
        SubscriptionChanges::status(SubscriptionStatus::Cancelled),
        SubscriptionChanges { renews_at: at("2026-05-01T00:00:00Z").into(), ..changes() },
        SubscriptionChanges { currency: Field::Value(of("EUR")), ..changes() },
        trial_until(at("2026-05-01T00:00:00Z")),
    ];

    for changes in refused {
        assert_eq!(wrong(life.update(changes)).1, "managed_by_clock");
    }
    let no_price = SubscriptionChanges { price: Field::Null, ..changes() };
    assert_eq!(faults(life.update(no_price)), ["price null_not_allowed"]);
}

#[test]
fn a_price_holds_from_the_next_period_on_and_a_credit_at_once() {
    let mut life = Life::new("monthly", START, |_| {});
    let changes =
        SubscriptionChanges { price: Field::Value(of("20")), credit: Some(of("0.5")), ..changes() };

    life.update(changes).unwrap();
    let value = life.subscription.billing.as_ref().unwrap().period_value;
    life.until("2026-04-01T00:00:00Z");

    assert_eq!(
        (value, life.amounts()),
        (of("10.00"), vec!["10.00".to_owned(), "19.50".to_owned()])
    );
}

#[test]
fn a_trial_that_is_moved_takes_its_renewal_its_grid_and_its_end_along() {
    let trial = |ends: bool| {
        let end = at("2026-03-15T00:00:00Z");
        Life::new("monthly", START, |new| {
            new.trial_ends_at = end.into();
            new.ends_at = ends.then_some(end);
        })
    };
    let later = at("2026-03-20T06:00:00Z");

    let mut moved = trial(false);
    moved.update(trial_until(later)).unwrap();
    assert_eq!((moved.status(), moved.subscription.renews_at), (OnTrial, Some(later)));
    moved.punctually_to(at("2026-05-01T00:00:00Z"));
    assert_eq!(moved.asked_days(), ["2026-03-20", "2026-04-20"]);
    invariants::all(&moved).unwrap_or_else(|broken| panic!("{broken}"));

    let mut on_grid = trial(false);
    on_grid.update(trial_until(at("2026-04-01T00:00:00Z"))).unwrap();
    assert_eq!(on_grid.subscription.anchor_at, None);

    let mut ending = trial(true);
    ending.update(trial_until(later)).unwrap();
    ending.punctually_to(at("2026-05-01T00:00:00Z"));
    assert_eq!((ending.status(), ending.subscription.ends_at), (Expired, Some(later)));
    assert_eq!(ending.payments.len(), 0);

    let mut paid_until = trial(false);
    let end = Some(at("2026-06-15T00:00:00Z"));
    paid_until.subscription.ends_at = end;
    paid_until.update(trial_until(later)).unwrap();
    assert_eq!(paid_until.subscription.ends_at, end, "an end after the trial stays");

    for end in [Field::Value(at("2026-03-10T00:00:00Z")), Field::Null] {
        let mut running = trial(false);
        running.until("2026-03-10T00:00:00Z");
        assert_eq!(faults(running.update(trial_until(end))), ["trial_ends_at out_of_range"]);
    }
}

#[test]
fn the_end_of_a_pause_can_be_moved_before_and_during_it() {
    let later = at("2026-04-10T00:00:00Z");
    let pause = |effective| Action::Pause { effective: Some(effective), resumes_at: None };
    let mut paused = Life::new("monthly", START, |_| {});
    paused.act(pause(Effective::Now)).unwrap();
    let mut scheduled = Life::new("monthly", START, |_| {});
    scheduled.act(pause(Effective::PeriodEnd)).unwrap();

    paused.update(resumes(later)).unwrap();
    scheduled.update(resumes(later)).unwrap();

    assert_eq!((paused.status(), paused.subscription.resumes_at()), (Paused, Some(later)));
    let expected = ScheduledChange::Pause { resumes_at: Some(later) };
    assert_eq!(scheduled.subscription.scheduled_change(), Some(expected));
    assert_eq!(scheduled.subscription.resumes_at(), None);
    assert_eq!(faults(paused.update(resumes(at(START)))), ["resumes_at out_of_range"]);
    let too_early = resumes(at("2026-04-01T00:00:00Z"));
    assert_eq!(faults(scheduled.update(too_early)), ["resumes_at out_of_range"]);
    let mut active = Life::new("monthly", START, |_| {});
    assert_eq!(faults(active.update(resumes(later))), ["resumes_at not_allowed_value"]);
}
