//! Changes of plan that are refused.

use subscription_core::billing::{Activation, Policy};
use subscription_core::{
    Action, Conflict, Currency, Effective, Error, ErrorKind, ManagedBy, PaymentStatus, Plan,
    PlanChange, Subscription, SubscriptionStatus,
};
use test_support::billing::Life;
use test_support::billing::life::other_plan;
use test_support::service_world::{at, faults, of, wrong};

use super::{HALF, START, life, monthly, seats};

const CONFLICT: ErrorKind = ErrorKind::Conflict;

/// The refusal of a change to another plan, at once and prorated.
fn refused(life: &Life) -> (ErrorKind, &'static str) {
    let to = other_plan("20", "USD", "monthly");
    wrong(life.quote(Some(&to), &PlanChange::to_plan(to.id)))
}

fn in_status(status: SubscriptionStatus, by: ManagedBy) -> Life {
    let mut life = monthly("10");
    life.subscription.status = status;
    life.subscription.managed_by = by;
    if status == SubscriptionStatus::Pending {
        life.subscription.billing.as_mut().unwrap().current_period_start = None;
    }
    life
}

#[test]
fn only_pending_trial_and_active_change_their_plan() {
    use SubscriptionStatus::{
        Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid,
    };
    let to = other_plan("20", "USD", "monthly");
    for by in [ManagedBy::Clock, ManagedBy::Caller] {
        for status in SubscriptionStatus::all() {
            let life = in_status(status, by);

            let quote = life.quote(Some(&to), &PlanChange::to_plan(to.id));

            match status {
                Active | OnTrial | Pending => assert!(quote.is_ok(), "{status}"),
                PastDue | Unpaid | Paused | Cancelled | Expired => {
                    assert_eq!(wrong(quote), (CONFLICT, "invalid_transition"), "{status}");
                }
            }
        }
    }
}

fn refused_message(life: &Life) -> String {
    life.quote(None, &PlanChange::to_quantity(seats(2))).unwrap_err().to_string()
}

#[test]
fn one_that_waits_for_its_first_payment_does_not_change() {
    let policy = Policy::default().with_activation(Activation::OnPayment);
    let mut life = Life::by(policy, "monthly", START, |_| {}).unwrap();

    assert_eq!(refused(&life), (CONFLICT, "invalid_transition"));

    life.pay();
    assert!(life.quote(None, &PlanChange::to_quantity(seats(2))).is_ok());
}

#[test]
fn what_a_provider_manages_does_not_change_here() {
    for status in SubscriptionStatus::all() {
        let life = in_status(status, ManagedBy::Provider);

        assert_eq!(refused(&life), (CONFLICT, "managed_by_provider"));
        assert_eq!(
            refused_message(&life),
            "a payment provider manages the subscription and sets its subscription_plan_id, \
             billing_cycle, quantity"
        );
    }
}

#[test]
fn one_change_is_scheduled_at_a_time() {
    let to = other_plan("20", "USD", "monthly");
    let later = PlanChange::to_plan(to.id).at_period_end();
    let mut pausing = monthly("10");
    pausing.act(Action::Pause { effective: None, resumes_at: None }).unwrap();
    let mut changing = monthly("10");
    changing.change_plan(Some(&to), &later).unwrap();

    for mut life in [pausing, changing] {
        assert_eq!(refused(&life), (CONFLICT, "change_scheduled"));
        assert_eq!(wrong(life.quote(Some(&to), &later)), (CONFLICT, "change_scheduled"));
        life.act(Action::Unschedule).unwrap();
        assert!(life.quote(Some(&to), &later).is_ok());
    }
}

#[test]
fn an_inactive_plan_is_refused_also_if_it_is_its_own() {
    let mut life = monthly("10");
    let to = Plan { is_active: false, ..other_plan("20", "USD", "monthly") };
    let own = Plan { is_active: false, ..life.plan.clone() };

    for plan in [&to, &own] {
        for change in [PlanChange::to_plan(plan.id), PlanChange::to_plan(plan.id).at_period_end()] {
            assert_eq!(wrong(life.quote(Some(plan), &change)), (CONFLICT, "plan_inactive"));
        }
    }
    life.plan = own;
    assert!(life.quote(None, &PlanChange::to_quantity(seats(2))).is_ok());
}

/// The currencies of a refusal.
fn mismatch(life: &Life, to: Option<&Plan>, change: &PlanChange) -> [Option<Currency>; 2] {
    match life.quote(to, change) {
        Err(Error::Conflict(Conflict::CurrencyMismatch { from, to })) => [from, to],
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_currency_is_for_the_next_period_and_only_without_credit() {
    let [usd, eur] = ["USD", "EUR"].map(|code| Some(of::<Currency>(code)));
    let to = other_plan("20", "EUR", "monthly");
    let now = PlanChange::to_plan(to.id);
    let later = now.clone().at_period_end();
    let owed = life(("10", "USD", "monthly"), START, |new| new.credit = Some(of("10.01")));

    assert_eq!(mismatch(&monthly("10"), Some(&to), &now), [usd, eur]);
    assert_eq!(mismatch(&monthly("10"), Some(&to), &now.clone().unprorated()), [usd, eur]);
    assert_eq!(mismatch(&owed, Some(&to), &later), [usd, eur]);
    assert!(monthly("10").quote(Some(&to), &later).is_ok());
    // A plan without a currency, and a caller's subscription without one.
    let without = Plan { currency: None, ..to.clone() };
    assert_eq!(mismatch(&monthly("10"), Some(&without), &later), [usd, None]);
    let mut by_caller = life(("10", "USD", "monthly"), START, |new| {
        new.managed_by = Some(ManagedBy::Caller);
    });
    by_caller.plan.currency = None;
    assert_eq!(mismatch(&by_caller, Some(&to), &later), [None, eur]);
    assert_eq!(mismatch(&by_caller, None, &PlanChange::to_quantity(seats(2))), [None, None]);
}

#[test]
fn the_price_of_a_plan_in_another_currency_is_not_the_price_of_a_subscription() {
    let mut life = life(("10", "USD", "monthly"), START, |new| {
        new.managed_by = Some(ManagedBy::Caller);
        new.currency = Some(of("EUR"));
    });
    let seats = PlanChange::to_quantity(seats(2));

    assert_eq!(wrong(life.quote(None, &seats)), (CONFLICT, "currency_mismatch"));

    life.plan.currency = None;
    assert!(life.quote(None, &seats).is_ok(), "the price is in the only currency there is");
    life.plan.currency = Some(of("USD"));
    life.subscription.billing.as_mut().unwrap().price = Some(of("9"));
    assert!(life.quote(None, &seats).is_ok());
}

#[test]
fn all_faults_come_at_once() {
    let dear = other_plan("999999999999999.99", "USD", "monthly");
    let mut paid_once = life(("10", "USD", "one_time"), START, |_| {});
    paid_once.until(HALF);
    let change = PlanChange::to_plan(dear.id).with_quantity(seats(2));

    let now = paid_once.quote(Some(&dear), &change.clone().unprorated());
    let later = paid_once.quote(Some(&dear), &change.clone().unprorated().at_period_end());

    assert_eq!(faults(now), ["quantity out_of_range", "proration not_allowed_value"]);
    assert_eq!(faults(later), ["quantity out_of_range", "effective not_allowed_value"]);
}

#[test]
fn a_period_end_needs_a_period_and_another_cycle_needs_proration() {
    let yearly = other_plan("20", "USD", "yearly");
    let change = PlanChange::to_plan(yearly.id);
    let once = life(("10", "USD", "one_time"), START, |_| {});
    let waiting = life(("10", "USD", "one_time"), START, |new| new.starts_at = Some(at(HALF)));

    for life in [once, waiting] {
        let later = life.quote(Some(&yearly), &change.clone().at_period_end());
        assert_eq!(faults(later), ["effective not_allowed_value"]);
    }
    let unprorated = monthly("10").quote(Some(&yearly), &change.clone().unprorated());
    assert_eq!(faults(unprorated), ["proration not_allowed_value"]);
    // Nothing is settled at a period's end, and nothing on trial.
    assert!(
        monthly("10").quote(Some(&yearly), &change.clone().unprorated().at_period_end()).is_ok()
    );
    let on_trial = life(("10", "USD", "monthly"), START, |new| {
        new.trial_ends_at = at(HALF).into();
    });
    assert!(on_trial.quote(Some(&yearly), &change.unprorated()).is_ok());
}

#[test]
fn a_credit_that_has_too_many_digits_is_refused() {
    let most = "999999999999999.99";
    let mut life = life((most, "USD", "monthly"), START, |_| {});
    life.subscription.billing.as_mut().unwrap().credit = of("0.01");
    let free = other_plan("0", "USD", "monthly");

    let whole = life.quote(Some(&free), &PlanChange::to_plan(free.id));
    assert_eq!(faults(whole), ["proration out_of_range"]);

    life.subscription.billing.as_mut().unwrap().credit = of("0.00");
    let whole = life.quote(Some(&free), &PlanChange::to_plan(free.id)).unwrap();
    assert_eq!(whole.credit_after, of(most));
}

#[test]
fn a_payment_that_is_open_holds_up_a_change_at_once_and_not_one_at_the_end() {
    for status in [None, Some(PaymentStatus::Processing), Some(PaymentStatus::Failed)] {
        let mut life = Life::new("monthly", START, |_| {});
        if let Some(status) = status {
            life.report(0, status);
        }
        life.subscription.status = SubscriptionStatus::Active;
        let change = PlanChange::to_quantity(seats(2));

        let now = life.change_plan(None, &change);
        let later = life.change_plan(None, &change.at_period_end());

        assert_eq!(wrong(now), (CONFLICT, "payment_open"), "{status:?}");
        assert_eq!(later.unwrap().effective, Effective::PeriodEnd);
    }
}

#[test]
fn a_refusal_changes_nothing() {
    let mut life = monthly("10");
    let before: Subscription = life.subscription.clone();
    let to = other_plan("20", "EUR", "monthly");

    let refused = life.change_plan(Some(&to), &PlanChange::to_plan(to.id));

    assert_eq!(wrong(refused), (CONFLICT, "currency_mismatch"));
    assert_eq!((life.subscription, life.writes.len()), (before, 1));
}
