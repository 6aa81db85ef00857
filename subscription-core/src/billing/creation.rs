//! New subscriptions that the clock bills: the fields that they need, and their first payment.

use super::charge::Price;
use super::outcome::{SideEffects, billing, settle};
use super::policy::Policy;
use super::steps::start;
use crate::events::Change;
use crate::plans::{BillingCycle, Plan, Reduction};
use crate::service::RuleDecision;
use crate::subscriptions::{Quantity, Subscription, SubscriptionStatus};
use crate::values::{Amount, Fault, FaultCode, Faults, InvalidValue, Timestamp};

use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid};

/// The new subscription with its price, and the payment for its first period if that period starts now. The running
/// period of an imported subscription counts as paid.
pub(super) fn create(
    mut made: Subscription,
    imported: bool,
    plan: &Plan,
    policy: &Policy,
    now: Timestamp,
) -> Result<RuleDecision, Faults> {
    let state = billing(&mut made);
    state.currency = state.currency.or(plan.currency);
    // The plan's price is in the plan's currency, so it is used only if the subscription has the same currency.
    let of_plan = plan.currency.filter(|currency| Some(*currency) == state.currency);
    state.price = state.price.or(of_plan.map(|_| plan.price));
    check(&made, now)?;
    let side_effects = if imported {
        take_over(&mut made, policy, now);
        SideEffects::default()
    } else if made.status == Pending {
        SideEffects::default()
    } else {
        start(&mut made, policy, now)
    };
    settle(&mut made, policy, now);
    Ok(RuleDecision { ask: side_effects.ask, ..RuleDecision::of(made, Change::Created) })
}

/// Checks the fields that a subscription needs to be billed by the clock, and returns all its faults at once.
pub(super) fn check(subscription: &Subscription, now: Timestamp) -> Result<(), Faults> {
    let mut faults = Faults::default();
    let mut fault = |mut fault: Fault| {
        // Each of these faults can also be avoided with `managed_by: caller`.
        fault.message = format!("{}, or send managed_by: caller", fault.message).into();
        faults.push(fault);
    };
    let required = |field, message| InvalidValue::new(FaultCode::Required, message).at(field);
    let out_of_range = |field, message| InvalidValue::out_of_range(message).at(field);
    let price = subscription.price();
    let currency = subscription.currency();
    let renews_at = subscription.renews_at;
    let trial_ends_at = subscription.trial_ends_at();
    match (currency, price) {
        (None, _) => fault(required("currency", "is required if managed_by is clock")),
        (Some(_), None) => {
            fault(required(
                "price",
                "is required if managed_by is clock, unless currency is the plan's currency",
            ));
        }
        (Some(currency), Some(price)) => {
            let credit = subscription.credit().unwrap_or_default();
            let digits =
                [currency.check_digits(price, "price"), currency.check_digits(credit, "credit")];
            digits.into_iter().filter_map(Result::err).for_each(&mut fault);
            if let Some(Reduction::Amount(amount)) = subscription.discount().map(|it| it.off)
                && let Err(refused) = currency.check_digits(amount, "discount.amount")
            {
                fault(refused);
            }
            if price.times(subscription.quantity.get()).is_none() {
                fault(out_of_range("quantity", Quantity::TOO_LARGE));
            }
        }
    }
    let on_trial = match subscription.status {
        OnTrial => true,
        Pending => trial_ends_at.is_some(),
        Active | PastDue | Unpaid | Paused | Cancelled | Expired => false,
    };
    let renews = match subscription.status {
        Pending | OnTrial | Active | PastDue => true,
        // Subscriptions with these statuses renew only after they are paid or resumed, or never again. So their
        // `renews_at` may be in the past.
        Unpaid | Paused | Cancelled | Expired => false,
    };
    let earliest = now.max(subscription.starts_at);
    if on_trial && trial_ends_at.is_some() && renews_at != trial_ends_at {
        fault(out_of_range(
            "renews_at",
            "must be equal to trial_ends_at: the first renewal is at the end of the trial",
        ));
    } else if on_trial && renews_at.is_none() {
        fault(required("trial_ends_at", "is required while status is on_trial"));
    } else if renews && renews_at.is_some_and(|at| at <= earliest) {
        let field = if on_trial && trial_ends_at.is_some() { "trial_ends_at" } else { "renews_at" };
        fault(out_of_range(field, "must be in the future if managed_by is clock"));
    } else if renews_at.is_none()
        && subscription.billing_cycle != BillingCycle::ONE_TIME
        && !matches!(subscription.status, Cancelled | Expired)
    {
        fault(required(
            "renews_at",
            "is required if managed_by is clock, unless billing_cycle is one_time",
        ));
    }
    faults.into_result()
}

/// Sets the billing fields of a subscription that the clock manages from now on: of its running period, which counts as
/// paid, or of its trial. A past-due subscription stays past due no longer than a full schedule of retries: without
/// this limit it might stay so for ever, because its payments may have no retry left or may not be in this store.
pub(super) fn take_over(subscription: &mut Subscription, policy: &Policy, now: Timestamp) {
    let status = subscription.status;
    if status == Pending {
        return;
    }
    let start = subscription.current_period_start().unwrap_or(subscription.starts_at);
    let trial_ends_at = subscription.trial_ends_at().or(subscription.renews_at);
    let price = subscription.terms().as_ref().and_then(Price::of);
    let value = price.map_or(Amount::ZERO, Price::value);
    let billing = billing(subscription);
    billing.current_period_start = Some(start);
    if status == OnTrial {
        billing.trial_ends_at = trial_ends_at;
    } else {
        billing.period_value = value;
    }
    let is_left = billing.cancelled.is_some_and(|found| found.status == PastDue);
    if is_left || matches!(status, PastDue | Unpaid) {
        billing.past_due_since = Some(now);
        billing.dunning_ended_at = Some(policy.dunning.ends_at(now)).filter(|_| status != Unpaid);
    }
}
