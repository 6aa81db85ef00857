//! A payment in the state of its provider.

use std::time::Duration;

use subscription_core::billing;
use subscription_core::{
    ManagedBy, ObservedPayment, Payment, PaymentId, PaymentKind, PaymentStatus, SeededRandomness,
    SettledDiffers, Subscription,
};
use test_support::service_world::{at, of};

use super::{RENEWAL, START, made, now, observed, observed_payment, plan};

fn subscription() -> Subscription {
    made(observed(plan()))
}

fn with(change: impl FnOnce(&mut ObservedPayment)) -> ObservedPayment {
    let mut observed = observed_payment();
    change(&mut observed);
    observed
}

fn made_payment(observed: ObservedPayment) -> Payment {
    let id = PaymentId::new(now(), &SeededRandomness::new(3)).unwrap();
    Payment::observe_new(observed, id, subscription().id, now())
}

#[test]
fn a_new_one_shows_its_period_and_is_not_collected_here() {
    for status in PaymentStatus::all() {
        let one = made_payment(with(|it| it.status = status));

        assert_eq!((one.status, one.settled), (status, status.is_settled()));
        let period = (one.kind(), one.period_start(), one.period_end());
        assert_eq!(period, (Some(PaymentKind::Renewal), Some(at(START)), Some(at(RENEWAL))));
        assert_eq!((one.due_at(), one.attempt(), one.next_attempt_at()), (None, None, None));
        assert_eq!((one.action_at(), one.claimed_period()), (None, None));
        assert_eq!((one.is_open(), one.is_behind(), one.check()), (false, false, Ok(())));
        assert_eq!(one.asked.as_ref().unwrap().whole_period(), None);
        let later = now().saturating_add(Duration::from_hours(1_000));
        let clock = Subscription { managed_by: ManagedBy::Clock, ..subscription() };
        assert_eq!(billing::retry(&one, Some(&clock), later), None);
    }
}

#[test]
fn any_status_follows_any_other_and_what_was_paid_stays_settled() {
    for from in PaymentStatus::all() {
        for to in PaymentStatus::all() {
            let before = made_payment(with(|it| it.status = from));

            let after = before.observe(with(|it| it.status = to), now()).unwrap();

            assert_eq!(after.is_none(), from == to, "{from} {to}");
            let after = after.unwrap_or(before);
            assert_eq!(after.settled, from.is_settled() || to.is_settled(), "{from} {to}");
            assert_eq!(after.check(), Ok(()));
        }
    }
}

#[test]
fn a_settled_amount_stays_and_one_that_is_not_settled_follows() {
    let other = || with(|it| it.amount = of("20.00"));
    let currency = || with(|it| it.currency = of("USD"));
    let failed = made_payment(with(|it| it.status = PaymentStatus::Failed));
    // It was paid once, whatever it is now.
    let paid = made_payment(observed_payment());
    let bounced = paid.observe(with(|it| it.status = PaymentStatus::Failed), now());
    let bounced = bounced.unwrap().unwrap();

    for settled in [&paid, &bounced] {
        assert_eq!(settled.observe(other(), now()), Err(SettledDiffers));
        assert_eq!(settled.observe(currency(), now()), Err(SettledDiffers));
    }
    assert_eq!(failed.observe(other(), now()).unwrap().unwrap().amount, of("20.00"));
    assert_eq!(failed.observe(currency(), now()).unwrap().unwrap().currency, of("USD"));
    let digits = with(|it| it.amount = of("19.9"));
    assert_eq!(paid.observe(digits, now()), Ok(None), "the same amount");
}

#[test]
fn the_record_of_a_caller_is_taken_over_with_its_metadata() {
    let own = Payment {
        external_payment_id: None,
        metadata: subscription_core::Metadata::new([("a", "1")]).unwrap(),
        asked: None,
        ..made_payment(observed_payment())
    };

    let after = own.observe(observed_payment(), now()).unwrap().unwrap();

    assert_eq!((after.id, &after.metadata), (own.id, &own.metadata));
    assert_eq!(after.external_payment_id, Some(of("pi_1")));
    assert!(after.is_mirrored());
    assert_eq!(after.version, own.version.next());
    assert_eq!(after.observe(observed_payment(), now()), Ok(None));
}

#[test]
fn a_period_that_ends_at_its_start_has_no_end() {
    let mut seen = observed_payment();
    seen.period.as_mut().unwrap().end = Some(at(START));

    let one = made_payment(seen);

    assert_eq!((one.period_end(), one.check()), (None, Ok(())));
}

#[test]
fn a_payment_without_a_period_has_none() {
    let one = made_payment(observed_payment());

    let after = one.observe(with(|it| it.period = None), now()).unwrap().unwrap();

    assert_eq!((after.kind(), after.asked), (None, None));
}

#[test]
fn a_next_attempt_of_a_providers_payment_cannot_be_set() {
    let failed = made_payment(with(|it| it.status = PaymentStatus::Failed));
    let changes = subscription_core::PaymentChanges {
        next_attempt_at: Some(now()).into(),
        ..Default::default()
    };

    assert!(failed.change(changes, now()).is_err());
}
