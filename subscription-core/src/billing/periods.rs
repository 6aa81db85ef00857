//! Periods of a subscription that the clock bills: how a period starts, what it costs, and how many periods were
//! missed.

use super::outcome::billing;
use crate::payments::PaymentKind;
use crate::plans::BillingCycle;
use crate::service::PaymentRequest;
use crate::subscriptions::{BillingState, Quantity, Schedule, Subscription};
use crate::values::{Amount, Currency, Timestamp};

/// Makes `[start, end)` the running period, and returns the payment to request; `None` if nothing is to be paid,
/// because the price is 0 or credit covers it.
pub(super) fn begin(
    subscription: &mut Subscription,
    kind: PaymentKind,
    start: Timestamp,
    end: Option<Timestamp>,
) -> Option<PaymentRequest> {
    let quantity = subscription.quantity;
    let cycle = subscription.billing_cycle;
    subscription.renews_at = end;
    let billing = billing(subscription);
    let value = value(billing, quantity);
    billing.current_period_start = Some(start);
    billing.period_value = value;
    billing.settled_at = None;
    let amount = after_credit(value, &mut billing.credit);
    let currency = billing.currency.filter(|_| !amount.is_zero())?;
    Some(PaymentRequest {
        kind,
        period_start: start,
        period_end: end,
        amount,
        value,
        cycle,
        currency,
        due_at: start,
    })
}

/// Price times quantity, with the digits of the currency.
pub(super) fn value(billing: &BillingState, quantity: Quantity) -> Amount {
    let value = billing.price.and_then(|price| price.times(quantity.get())).unwrap_or_default();
    value.with_digits(billing.currency.map_or(0, Currency::digits))
}

/// The part of a value that the credit does not cover. The covered part is subtracted from the credit.
pub(super) fn after_credit(value: Amount, credit: &mut Amount) -> Amount {
    let used = value.value().min(credit.value());
    if used.is_zero() {
        return value;
    }
    // Both differences are exact, and neither is negative.
    let less = |amount: Amount| Amount::try_from(amount.value().checked_sub(used)?).ok();
    let Some((asked, rest)) = less(value).zip(less(*credit)) else { return value };
    *credit = rest;
    asked
}

/// The number of whole periods that ended between the next renewal and `now`, or the end of the subscription if it is
/// earlier.
pub(super) fn missed(subscription: &Subscription, now: Timestamp) -> u32 {
    let until = subscription.ends_at.map_or(now, |ends_at| ends_at.min(now));
    let number_at = |at| subscription.schedule().period_at(at).map(|period| period.number);
    let next = subscription.renews_at.and_then(number_at);
    number_at(until).zip(next).map_or(0, |(running, next)| running.saturating_sub(next))
}

/// The renewal after `count` more periods.
pub(super) fn renewal_after(subscription: &Subscription, count: u32) -> Option<Timestamp> {
    let schedule = subscription.schedule();
    let next = schedule.period_at(subscription.renews_at?)?.number;
    schedule.start_of(next.checked_add(count)?)
}

/// Lets the next period start at `at`, and counts periods from there.
pub(super) fn restart(subscription: &mut Subscription, at: Timestamp) {
    subscription.renews_at = Some(at);
    subscription.anchor_at = Some(at).filter(|at| *at != subscription.starts_at);
}

/// Counts periods from the renewal, unless a period that is counted from `starts_at` begins at the renewal.
pub(super) fn count_from_renewal(subscription: &mut Subscription) {
    let by_start = Schedule::new(subscription.starts_at, subscription.billing_cycle);
    let is_off_grid = |at: &Timestamp| {
        subscription.billing_cycle != BillingCycle::ONE_TIME && !by_start.starts_at(*at)
    };
    subscription.anchor_at = subscription.renews_at.filter(is_off_grid);
}
