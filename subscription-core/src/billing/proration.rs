//! Changes of plan: the cost of a change, and its effect on the subscription.
//!
//! A preview is a [`quote`], and the execution applies the same quote: the two cannot differ.

#![warn(clippy::arithmetic_side_effects)]

use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid};

use super::charge::{Charge, Price, Rest};
use super::outcome::{SideEffects, billing, excess, impossible, outcome};
use super::periods::{basis, count_from_renewal, restart};
use super::policy::{LAPSES_AFTER, Policy};
use crate::error::{Conflict, Error};
use crate::events::Change;
use crate::payments::PaymentKind;
use crate::plans::{BillingCycle, Plan};
use crate::service::{PaymentRequest, RuleDecision};
use crate::subscriptions::{
    ChangePayment, Effective, Managed, ManagedBy, PlanChange, Proration, Quantity, Quote, Schedule,
    ScheduledChange, Settlement, Subscription, SubscriptionStatus, Terms,
};
use crate::values::{Amount, FaultCode, Faults, InvalidValue, Timestamp};

/// The consequences of a change of plan at `at`. `own` is the plan that the subscription has, and `to` the plan
/// that the change names.
pub fn quote(
    subscription: &Subscription,
    own: &Plan,
    to: Option<&Plan>,
    change: &PlanChange,
    at: Timestamp,
) -> Result<Quote, Error> {
    check_state(subscription)?;
    let (old, new) = terms(subscription, own, to, change)?;
    let currency = new.currency;
    // The value of the running period, as it was paid.
    let paid = match &subscription.billing {
        Some(billing) if subscription.managed_by == ManagedBy::Clock => billing.period_value,
        Some(_) | None => Price::of(&old).map_or(Amount::ZERO, Price::value),
    };
    let own_discount = subscription.discount();
    let discount = own_discount.filter(|_| keeps_discount(&old, &new));
    let settlement = settle(subscription, &old, &new, paid, change)?;
    // This error does not occur: `settle` has checked that the price at the new terms can be computed.
    let unpriced = Faults::default;
    let price = Price::of_running_period(&new, discount).ok_or_else(unpriced)?;
    let of_new_period = |discount| Price::of_new_period(&new, discount).ok_or_else(unpriced);
    let digits = currency.digits();
    let credit_before = own_credit(subscription).unwrap_or(Amount::ZERO).with_digits(digits);
    let rest = Rest::at(at, subscription, paid);
    let settled = match settlement {
        Settlement::Unchanged | Settlement::Scheduled | Settlement::NextPeriod => None,
        Settlement::RunningPeriod => Some(Charge::of_change(price, rest, credit_before)),
        Settlement::NewPeriod => {
            Some(Charge::of_restart(of_new_period(discount)?, rest, credit_before))
        }
    };
    let settled = match settled {
        Some(settled) => settled.ok_or_else(too_much_credit)?,
        None => Charge::none(price, credit_before),
    };
    let (period_start, period_end, renews_at) = period_after(subscription, &new, settlement, at);
    let renews = renews_at
        .is_some_and(|renews_at| subscription.ends_at.is_none_or(|ends_at| ends_at > renews_at));
    // The first period of the subscription has not begun and is not paid yet. If the change is scheduled for the period
    // after it, the first period has the old price.
    let first_is_ahead = subscription.status == Pending && subscription.trial_ends_at().is_none();
    let is_scheduled = settlement == Settlement::Scheduled;
    let mut credit_then = settled.credit_after;
    let mut discount_then = settled.discount;
    if first_is_ahead && is_scheduled {
        let first = Price::of_new_period(&old, own_discount).ok_or_else(unpriced)?;
        let first = Charge::of_period(first, credit_then);
        credit_then = first.credit_after;
        discount_then = first.discount.filter(|_| keeps_discount(&old, &new));
    }
    let asks_again = renews || first_is_ahead && !is_scheduled;
    let next = Charge::of_period(of_new_period(discount_then)?, credit_then);
    Ok(Quote {
        at,
        effective: change.effective,
        subscription_plan_id: new.subscription_plan_id,
        billing_cycle: new.billing_cycle,
        quantity: new.quantity,
        price: new.price,
        period_start,
        period_end,
        lines: settled.lines,
        amount_due: settled.amount,
        currency,
        credit_before,
        credit_after: settled.credit_after,
        renews_at,
        next_amount: asks_again.then_some(next.amount),
        settlement,
        ends_discount: own_discount.is_some() && discount.is_none(),
        discount: settled.discount,
        value: settled.value,
    })
}

/// The subscription after the change that a quote describes, with the payment to request; `None` if the subscription
/// already has these terms.
pub fn change_plan(
    subscription: &Subscription,
    quote: &Quote,
    policy: &Policy,
    now: Timestamp,
) -> Option<RuleDecision> {
    let mut next = subscription.clone();
    let terms = quote.terms();
    let cycle_changes = terms.billing_cycle != subscription.billing_cycle;
    let from_plan = subscription.subscription_plan_id;
    let changed = Change::PlanChanged { from_plan, to_plan: terms.subscription_plan_id };
    let mut side_effects = SideEffects { change: Some(changed), ..SideEffects::default() };
    match quote.settlement {
        Settlement::Unchanged => return None,
        Settlement::Scheduled => {
            billing(&mut next).scheduled_change = Some(ScheduledChange::ChangePlan(terms));
            side_effects.change = None;
            return Some(outcome(subscription, next, side_effects, policy, now));
        }
        Settlement::NextPeriod => {
            set_terms(&mut next, terms);
            next.renews_at = quote.renews_at;
            if cycle_changes {
                count_from_renewal(&mut next);
            }
        }
        Settlement::RunningPeriod | Settlement::NewPeriod => {
            change_now(&mut next, terms, settled(quote));
            let billing = billing(&mut next);
            billing.discount = quote.discount;
            let more = excess(quote.credit_after, quote.credit_before);
            let of_changes = billing.credit_of_changes.value().checked_add(more.value());
            billing.credit_of_changes =
                of_changes.and_then(|it| it.try_into().ok()).unwrap_or(quote.credit_after);
            billing.credit = quote.credit_after;
            side_effects.ask = ask(quote);
        }
    }
    Some(outcome(subscription, next, side_effects, policy, now))
}

/// The decision `made`, adapted to a change of plan that the subscriber chose: a change that costs something waits for
/// its payment, and a scheduled change is stored as a change by the subscriber ([`ScheduledChange::ByUser`]).
pub(super) fn by_user(
    subscription: &Subscription,
    quote: &Quote,
    made: RuleDecision,
    policy: &Policy,
    now: Timestamp,
) -> RuleDecision {
    if made.ask.is_none() && quote.settlement != Settlement::Scheduled {
        return made;
    }
    let payment = made.ask.as_ref().map(|_| settled(quote));
    let mut next = subscription.clone();
    let billing = billing(&mut next);
    billing.scheduled_change = Some(ScheduledChange::ByUser { terms: quote.terms(), payment });
    // Unless the collection of the payment has begun, the change is dropped at the renewal at the latest: the renewal
    // must not wait for this payment.
    let lapses_at = now.saturating_add(LAPSES_AFTER);
    billing.lapses_at = subscription.renews_at.into_iter().chain([lapses_at]).min();
    let side_effects = SideEffects { ask: made.ask, ..SideEffects::default() };
    outcome(subscription, next, side_effects, policy, now)
}

/// The effect that the change of a quote has on the running period and on the credit.
fn settled(quote: &Quote) -> ChangePayment {
    ChangePayment {
        at: quote.at,
        starts_period: quote.settlement == Settlement::NewPeriod,
        renews_at: quote.renews_at,
        value: quote.value,
        credit: excess(quote.credit_before, quote.credit_after),
    }
}

/// Gives a subscription other terms, and settles its running period.
fn change_now(next: &mut Subscription, terms: Terms, settled: ChangePayment) {
    set_terms(next, terms);
    if settled.starts_period {
        // If the subscription was cancelled while the change waited, it still ends with its running period.
        if next.status == Cancelled && next.ends_at >= next.renews_at {
            next.ends_at = settled.renews_at.or(next.ends_at);
        }
        restart(next, settled.at);
        next.renews_at = settled.renews_at;
        billing(next).current_period_start = Some(settled.at);
    }
    let billing = billing(next);
    billing.period_value = settled.value;
    billing.credit = excess(billing.credit, settled.credit);
    billing.settled_at = Some(settled.at);
}

/// Makes the change of plan that waits for its payment. `None` if no change waits.
pub(super) fn take_paid_change(next: &mut Subscription) -> Option<Change> {
    let change = billing(next).scheduled_change;
    let Some(ScheduledChange::ByUser { terms, payment: Some(settled) }) = change else {
        return None;
    };
    billing(next).scheduled_change = None;
    let from_plan = next.subscription_plan_id;
    change_now(next, terms, settled);
    Some(Change::PlanChanged { from_plan, to_plan: terms.subscription_plan_id })
}

/// True if the discount stays after a change of the terms. Another plan, billing cycle or currency ends it.
fn keeps_discount(old: &Terms, new: &Terms) -> bool {
    old.subscription_plan_id == new.subscription_plan_id
        && old.billing_cycle == new.billing_cycle
        && old.currency == new.currency
}

/// Sets the plan, the billing cycle, the price and the quantity of a subscription. Another plan, billing cycle or
/// currency ends the discount.
pub(super) fn set_terms(subscription: &mut Subscription, terms: Terms) {
    let keeps = subscription.terms().is_none_or(|old| keeps_discount(&old, &terms));
    subscription.subscription_plan_id = terms.subscription_plan_id;
    subscription.billing_cycle = terms.billing_cycle;
    subscription.quantity = terms.quantity;
    let has_credit = own_credit(subscription).is_some();
    let billing = billing(subscription);
    if !keeps {
        billing.discount = None;
    }
    billing.price = Some(terms.price);
    billing.currency = Some(terms.currency);
    // A credit of 0.00 may have too many digits for another currency, so it becomes 0.
    if !has_credit {
        billing.credit = Amount::ZERO;
    }
}

/// The payment that the change of plan requests; `None` if nothing is due.
fn ask(quote: &Quote) -> Option<PaymentRequest> {
    (!quote.amount_due.is_zero()).then_some(PaymentRequest {
        kind: PaymentKind::Proration,
        period_start: quote.at,
        period_end: quote.period_end,
        amount: quote.amount_due,
        value: quote.value,
        cycle: quote.billing_cycle,
        currency: quote.currency,
        due_at: quote.at,
        basis: basis(&quote.terms(), quote.discount, quote.lines.clone()),
    })
}

/// Refuses a subscription whose plan cannot change in its present state.
fn check_state(subscription: &Subscription) -> Result<(), Error> {
    let status = subscription.status;
    let by = subscription.managed_by;
    if by == ManagedBy::Provider {
        let fields = vec!["subscription_plan_id", "billing_cycle", "quantity"];
        return Err(Conflict::from(Managed { by, fields }).into());
    }
    // A subscription that waits for its first payment has begun its period, but the period is not paid, so the plan
    // cannot change.
    let has_begun =
        subscription.billing.as_ref().is_some_and(|it| it.current_period_start.is_some());
    let changes = match status {
        Active | OnTrial => true,
        Pending => !has_begun,
        PastDue | Unpaid | Paused | Cancelled | Expired => false,
    };
    if !changes {
        return Err(impossible(status, "one with another plan, billing cycle or quantity"));
    }
    if subscription.scheduled_change().is_some() {
        return Err(Conflict::ChangeScheduled.into());
    }
    Ok(())
}

/// The terms before and after the change. The currency changes only at the end of a period, and only if no credit
/// is left.
fn terms(
    subscription: &Subscription,
    own: &Plan,
    to: Option<&Plan>,
    change: &PlanChange,
) -> Result<(Terms, Terms), Error> {
    if to.is_some_and(|plan| !plan.is_active) {
        return Err(Conflict::PlanInactive.into());
    }
    let from = subscription.currency().or(own.currency);
    let may_differ = change.effective == Effective::PeriodEnd && own_credit(subscription).is_none();
    // A subscription without a price has the price of its plan, in the currency of the plan.
    let is_priced =
        subscription.price().is_some() || own.currency.is_none_or(|it| Some(it) == from);
    let (from, currency) = match (from, to.map_or(from, |plan| plan.currency)) {
        (Some(from), Some(to)) if is_priced && (from == to || may_differ) => (from, to),
        (from, to) => {
            let to = if is_priced { to } else { own.currency };
            return Err(Conflict::CurrencyMismatch { from, to }.into());
        }
    };
    let old = Terms {
        subscription_plan_id: subscription.subscription_plan_id,
        billing_cycle: subscription.billing_cycle,
        price: subscription.price().unwrap_or(own.price),
        currency: from,
        quantity: subscription.quantity,
    };
    let of_plan = to.map_or(old, |plan| Terms {
        subscription_plan_id: plan.id,
        billing_cycle: plan.billing_cycle,
        price: plan.price,
        ..old
    });
    let billing_cycle = change.billing_cycle.unwrap_or(of_plan.billing_cycle);
    let quantity = change.quantity.unwrap_or(old.quantity);
    Ok((old, Terms { billing_cycle, currency, quantity, ..of_plan }))
}

/// The credit of a subscription, unless it is 0.
pub(super) fn own_credit(subscription: &Subscription) -> Option<Amount> {
    subscription.credit().filter(|credit| !credit.is_zero())
}

/// The way in which the change is applied; or all faults of the input.
fn settle(
    subscription: &Subscription,
    old: &Terms,
    new: &Terms,
    paid: Amount,
    change: &PlanChange,
) -> Result<Settlement, Error> {
    let mut faults = Faults::default();
    let mut fault = |code, message, field| faults.push(InvalidValue::new(code, message).at(field));
    let discount = subscription.discount();
    let kept = discount.filter(|_| keeps_discount(old, new));
    let value = Price::of_running_period(new, kept).map(Price::value);
    if value.is_none() {
        fault(FaultCode::OutOfRange, Quantity::TOO_LARGE, "quantity");
    }
    let at_end = change.effective == Effective::PeriodEnd;
    if at_end && subscription.renews_at.is_none() {
        let message = "must be now: the subscription has no further period";
        fault(FaultCode::NotAllowedValue, message, "effective");
    }
    let runs = subscription.status == Active;
    let other_cycle = new.billing_cycle != old.billing_cycle;
    let unprorated = change.proration == Proration::None;
    if !at_end && runs && unprorated && other_cycle {
        let message = "must be prorated: another billing cycle starts a new period";
        fault(FaultCode::NotAllowedValue, message, "proration");
    }
    faults.into_result()?;
    let is_paid = value.is_some_and(|value| value.value() == paid.value());
    let by_discount = Price::of_running_period(old, discount);
    let is_free = paid.is_zero() && !by_discount.is_some_and(Price::is_free_by_discount);
    let begins = old.billing_cycle == BillingCycle::ONE_TIME
        || subscription.renews_at.is_none()
        || other_cycle
        || (is_free && !is_paid);
    let settlement = match (at_end, runs) {
        (false, true) if !unprorated && same(old, new) && (is_paid || is_free) => {
            Settlement::Unchanged
        }
        (false, true) if !unprorated && begins => Settlement::NewPeriod,
        (false, true) if !unprorated => Settlement::RunningPeriod,
        _ if same(old, new) => Settlement::Unchanged,
        (true, _) => Settlement::Scheduled,
        (false, _) => Settlement::NextPeriod,
    };
    Ok(settlement)
}

/// True if two terms are equal; the prices 10 and 10.00 are equal too.
fn same(one: &Terms, other: &Terms) -> bool {
    one.price.value() == other.price.value() && Terms { price: other.price, ..*one } == *other
}

/// The period that is running after the change: its start, its end, and the next renewal.
fn period_after(
    subscription: &Subscription,
    new: &Terms,
    settlement: Settlement,
    at: Timestamp,
) -> (Option<Timestamp>, Option<Timestamp>, Option<Timestamp>) {
    let renews_at = subscription.renews_at;
    let one_cycle_after = |start| Schedule::new(start, new.billing_cycle).start_of(1);
    if settlement == Settlement::NewPeriod {
        let end = one_cycle_after(at);
        return (Some(at), end, end);
    }
    if subscription.status == Pending {
        let keeps = settlement != Settlement::NextPeriod
            || new.billing_cycle == subscription.billing_cycle
            || subscription.trial_ends_at().is_some();
        let moved = || one_cycle_after(subscription.starts_at);
        return (None, None, if keeps { renews_at } else { moved() });
    }
    (subscription.current_period_start(), renews_at, renews_at)
}

/// The error of a change whose credit would have too many digits for an amount.
fn too_much_credit() -> Error {
    Error::invalid(
        FaultCode::OutOfRange,
        "must be none: the credit would have more than 15 digits before the point",
        "proration",
    )
}
