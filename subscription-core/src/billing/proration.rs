//! Changes of plan: what one costs, and what it does to the subscription.
//!
//! A preview is a [`quote`], and the execution applies the same quote: the two cannot differ.

#![warn(clippy::arithmetic_side_effects)]

use rust_decimal::Decimal;

use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid};

use super::outcome::{Beside, billing, outcome};
use super::periods::{after_credit, count_from_renewal, restart, value_of};
use super::policy::Policy;
use super::verbs::invalid;
use crate::error::{Conflict, Error};
use crate::events::Change;
use crate::payments::PaymentKind;
use crate::plans::{BillingCycle, Plan};
use crate::service::{Ask, Outcome};
use crate::subscriptions::{
    Effective, Managed, ManagedBy, PlanChange, Proration, Quote, QuoteLine, QuoteLineKind,
    Schedule, ScheduledChange, Settlement, Subscription, SubscriptionStatus, Terms,
};
use crate::values::clock::Timestamp;
use crate::values::currency::Currency;
use crate::values::decimal::Amount;
use crate::values::faults::{FaultCode, Faults, InvalidValue};
use crate::values::states::InvalidTransition;

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
    if to.is_some_and(|plan| !plan.is_active) {
        return Err(Conflict::PlanInactive.into());
    }
    let (from, currency) = currencies(subscription, own, to, change.effective)?;
    let old = Terms {
        subscription_plan_id: subscription.subscription_plan_id,
        billing_cycle: subscription.billing_cycle,
        price: subscription.price().unwrap_or(own.price),
        currency: from,
        quantity: subscription.quantity,
    };
    let new = Terms {
        subscription_plan_id: to.map_or(old.subscription_plan_id, |plan| plan.id),
        billing_cycle: change
            .billing_cycle
            .unwrap_or(to.map_or(old.billing_cycle, |plan| plan.billing_cycle)),
        price: to.map_or(old.price, |plan| plan.price),
        currency,
        quantity: change.quantity.unwrap_or(old.quantity),
    };
    // The value of the running period, as it was paid.
    let paid = match &subscription.billing {
        Some(billing) if subscription.managed_by == ManagedBy::Clock => billing.period_value,
        Some(_) | None => value_of(old.price, old.quantity, from).unwrap_or_default(),
    };
    let settlement = settle(subscription, &old, &new, paid, change)?;
    let value = value_of(new.price, new.quantity, currency).unwrap_or_default();
    let lines = match settlement {
        Settlement::Unchanged | Settlement::Scheduled | Settlement::NextPeriod => None,
        Settlement::RunningPeriod => {
            Some((part(paid, subscription, at, currency), part(value, subscription, at, currency)))
        }
        Settlement::NewPeriod => Some((part(paid, subscription, at, currency), value)),
    };
    let zero = Amount::ZERO.with_digits(currency.digits());
    let (credit, charge) = lines.unwrap_or((zero, zero));
    let credit_before = subscription.credit().unwrap_or_default().with_digits(currency.digits());
    let mut credit_after = credit_before;
    let amount_due = after_credit(excess(charge, credit), &mut credit_after);
    let credit_after = sum(credit_after, excess(credit, charge))?;
    let (period_start, period_end, renews_at) = period_after(subscription, &new, settlement, at);
    let asks_again = match renews_at {
        Some(renews_at) => subscription.ends_at.is_none_or(|ends_at| ends_at > renews_at),
        None => subscription.status == Pending,
    };
    let line = |kind, amount| QuoteLine { kind, amount };
    Ok(Quote {
        at,
        effective: change.effective,
        subscription_plan_id: new.subscription_plan_id,
        billing_cycle: new.billing_cycle,
        quantity: new.quantity,
        price: new.price,
        period_start,
        period_end,
        lines: lines.map_or_else(Vec::new, |(credit, charge)| {
            vec![line(QuoteLineKind::Credit, credit), line(QuoteLineKind::Charge, charge)]
        }),
        amount_due,
        currency,
        credit_before,
        credit_after,
        renews_at,
        next_amount: asks_again.then(|| after_credit(value, &mut credit_after.clone())),
        settlement,
    })
}

/// The subscription after the change that a quote describes, with the payment to ask for; `None` if it has these
/// terms already.
pub fn change_plan(
    subscription: &Subscription,
    quote: &Quote,
    policy: &Policy,
    now: Timestamp,
) -> Option<Outcome> {
    let mut next = subscription.clone();
    let terms = quote.terms();
    let cycle_changes = terms.billing_cycle != subscription.billing_cycle;
    let from_plan = subscription.subscription_plan_id;
    let changed = Change::PlanChanged { from_plan, to_plan: terms.subscription_plan_id };
    let mut beside = Beside { change: Some(changed), ..Beside::default() };
    match quote.settlement {
        Settlement::Unchanged => return None,
        Settlement::Scheduled => {
            billing(&mut next).scheduled_change = Some(ScheduledChange::ChangePlan(terms));
            beside.change = None;
            return Some(outcome(subscription, next, beside, policy, now));
        }
        Settlement::NextPeriod => {
            set_terms(&mut next, terms);
            next.renews_at = quote.renews_at;
            if cycle_changes {
                count_from_renewal(&mut next);
            }
        }
        Settlement::RunningPeriod | Settlement::NewPeriod => {
            set_terms(&mut next, terms);
            if quote.settlement == Settlement::NewPeriod {
                restart(&mut next, quote.at);
                next.renews_at = quote.renews_at;
                billing(&mut next).current_period_start = Some(quote.at);
            }
            let value = value_of(terms.price, terms.quantity, terms.currency).unwrap_or_default();
            let billing = billing(&mut next);
            billing.period_value = value;
            billing.credit = quote.credit_after;
            beside.ask = ask(quote, value);
        }
    }
    Some(outcome(subscription, next, beside, policy, now))
}

/// Sets the plan, the billing cycle, the price and the quantity of a subscription.
pub(super) fn set_terms(subscription: &mut Subscription, terms: Terms) {
    subscription.subscription_plan_id = terms.subscription_plan_id;
    subscription.billing_cycle = terms.billing_cycle;
    subscription.quantity = terms.quantity;
    let billing = billing(subscription);
    billing.price = Some(terms.price);
    billing.currency = Some(terms.currency);
}

/// The payment for the rest of the period; `None` if nothing is due.
fn ask(quote: &Quote, value: Amount) -> Option<Ask> {
    (!quote.amount_due.value().is_zero()).then_some(Ask {
        kind: PaymentKind::Proration,
        period_start: quote.at,
        period_end: quote.period_end,
        amount: quote.amount_due,
        value,
        cycle: quote.billing_cycle,
        currency: quote.currency,
        due_at: quote.at,
    })
}

/// Refuses a subscription whose plan cannot change in its present state.
fn check_state(subscription: &Subscription) -> Result<(), Error> {
    let (status, by) = (subscription.status, subscription.managed_by);
    if by == ManagedBy::Provider {
        let fields = vec!["subscription_plan_id", "billing_cycle", "quantity"];
        return Err(Conflict::from(Managed { by, fields }).into());
    }
    // A subscription that waits for its first payment has begun its period, and is not paid for.
    let has_begun =
        subscription.billing.as_ref().is_some_and(|it| it.current_period_start.is_some());
    let changes = match status {
        Active | OnTrial => true,
        Pending => !has_begun,
        PastDue | Unpaid | Paused | Cancelled | Expired => false,
    };
    if !changes {
        let (from, to) = (status.as_str(), "one with other terms");
        let refused = InvalidTransition { record: "subscription", from, to, allowed: Vec::new() };
        return Err(Conflict::from(refused).into());
    }
    if subscription.scheduled_change().is_some() {
        return Err(Conflict::ChangeScheduled.into());
    }
    Ok(())
}

/// The currencies before and after the change. Another one is for whole periods, and only if no credit is left.
fn currencies(
    subscription: &Subscription,
    own: &Plan,
    to: Option<&Plan>,
    effective: Effective,
) -> Result<(Currency, Currency), Error> {
    let from = subscription.currency().or(own.currency);
    let to = to.map_or(from, |plan| plan.currency);
    let has_credit = subscription.credit().is_some_and(|credit| !credit.value().is_zero());
    match (from, to) {
        (Some(from), Some(to))
            if from == to || (effective == Effective::PeriodEnd && !has_credit) =>
        {
            Ok((from, to))
        }
        (from, to) => Err(Conflict::CurrencyMismatch { from, to }.into()),
    }
}

/// The way in which the change is applied, or all faults of the input.
fn settle(
    subscription: &Subscription,
    old: &Terms,
    new: &Terms,
    paid: Amount,
    change: &PlanChange,
) -> Result<Settlement, Error> {
    let mut faults = Faults::default();
    let mut fault = |code, message, field| faults.push(InvalidValue::new(code, message).at(field));
    let value = value_of(new.price, new.quantity, new.currency);
    if value.is_none() {
        let message = "times the price must have at most 15 digits before the point";
        fault(FaultCode::OutOfRange, message, "quantity");
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
    let value = value.unwrap_or_default().value();
    let is_paid = paid.value() == value;
    let begins = old.billing_cycle == BillingCycle::ONE_TIME
        || subscription.renews_at.is_none()
        || other_cycle
        || (paid.value().is_zero() && !value.is_zero());
    Ok(match (at_end, runs) {
        (false, true) if !unprorated && same(old, new) && is_paid => Settlement::Unchanged,
        (false, true) if !unprorated && begins => Settlement::NewPeriod,
        (false, true) if !unprorated => Settlement::RunningPeriod,
        _ if same(old, new) => Settlement::Unchanged,
        (true, _) => Settlement::Scheduled,
        (false, _) => Settlement::NextPeriod,
    })
}

/// True if two terms say the same, also if one of them writes 10.00 for 10.
fn same(one: &Terms, other: &Terms) -> bool {
    one.price.value() == other.price.value() && Terms { price: other.price, ..*one } == *other
}

/// The running period after the change, its end, and the next renewal.
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

/// The part of a value that pays for the rest of the running period, rounded half to even at the digits of the
/// currency. A period without an end has no such part.
fn part(value: Amount, subscription: &Subscription, at: Timestamp, currency: Currency) -> Amount {
    let start = subscription.current_period_start();
    let period = start.zip(subscription.renews_at);
    let rest = period.and_then(|(start, end)| {
        let (total, remaining) = (end.since(start).as_secs(), end.since(at).as_secs());
        prorated(value, remaining, total, currency.digits())
    });
    rest.unwrap_or_default().with_digits(currency.digits())
}

/// Value times remaining, divided by total, rounded half to even; `None` if total is 0.
fn prorated(value: Amount, remaining: u64, total: u64, digits: u32) -> Option<Amount> {
    let mut exact = value.value();
    exact.rescale(Amount::FRACTION_DIGITS_MAX);
    // A value has at most 21 digits and a time in seconds at most 12: their product fits.
    let dividend = exact.mantissa().checked_mul(remaining.min(total).into())?;
    let units = 10_i128.checked_pow(Amount::FRACTION_DIGITS_MAX.checked_sub(digits)?)?;
    let divisor = i128::from(total).checked_mul(units)?;
    let (quotient, rest) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
    let up = match rest.checked_mul(2)?.cmp(&divisor) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient & 1 == 1,
        std::cmp::Ordering::Greater => true,
    };
    let rounded = quotient.checked_add(up.into())?;
    Decimal::try_from_i128_with_scale(rounded, digits).ok()?.try_into().ok()
}

/// The amount by which one is greater than another, or 0.
fn excess(one: Amount, other: Amount) -> Amount {
    let more = one.value().checked_sub(other.value()).filter(|more| !more.is_sign_negative());
    let digits = one.fraction_digits().max(other.fraction_digits());
    more.and_then(|more| Amount::try_from(more).ok()).unwrap_or_default().with_digits(digits)
}

/// The credit with more of it.
fn sum(credit: Amount, more: Amount) -> Result<Amount, Error> {
    let sum = credit.value().checked_add(more.value()).and_then(|sum| sum.try_into().ok());
    sum.ok_or_else(|| {
        let message = "must be none: the credit would have more than 15 digits before the point";
        invalid(FaultCode::OutOfRange, message, "proration")
    })
}
