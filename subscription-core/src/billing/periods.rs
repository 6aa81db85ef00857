//! Periods of a subscription that the clock bills: how a period starts, and how many periods were missed.

use super::charge::{Charge, Price};
use super::outcome::billing;
use crate::payments::{Basis, Line, LineKind, PaymentKind};
use crate::plans::BillingCycle;
use crate::service::PaymentRequest;
use crate::subscriptions::{Discount, Schedule, Subscription, Terms};
use crate::values::{Amount, Timestamp};

/// Makes `[start, end)` the running period, and returns the payment to request; `None` if nothing is to be paid,
/// because the price is 0 or credit covers it.
pub(super) fn begin(
    subscription: &mut Subscription,
    kind: PaymentKind,
    start: Timestamp,
    end: Option<Timestamp>,
) -> Option<PaymentRequest> {
    subscription.renews_at = end;
    let terms = subscription.terms();
    let discount = subscription.discount();
    let price = terms.as_ref().and_then(|terms| Price::of_new_period(terms, discount));
    let billing = billing(subscription);
    billing.current_period_start = Some(start);
    billing.period_value = Amount::ZERO;
    billing.settled_at = None;
    let terms = terms?;
    let charge = Charge::of_period(price?, billing.credit);
    billing.period_value = charge.value;
    billing.credit = charge.credit_after;
    billing.discount = charge.discount;
    (!charge.amount.is_zero()).then(|| PaymentRequest {
        kind,
        period_start: start,
        period_end: end,
        amount: charge.amount,
        value: charge.value,
        cycle: terms.billing_cycle,
        currency: terms.currency,
        due_at: start,
        basis: basis(&terms, discount, charge.lines),
    })
}

/// The inputs from which the amount of a payment at these terms is computed, with its lines.
pub(super) fn basis(terms: &Terms, discount: Option<Discount>, lines: Vec<Line>) -> Basis {
    let is_reduced = lines.iter().any(|line| line.kind == LineKind::Discount);
    let off = discount.filter(|_| is_reduced).map(|discount| discount.off);
    let Terms { subscription_plan_id: plan, price, quantity, .. } = *terms;
    Basis::new(plan, price, quantity.get(), off, lines)
}

/// The number of whole periods between `renews_at` and `now`; if the subscription ended before `now`, between
/// `renews_at` and its end.
pub(super) fn missed(subscription: &Subscription, now: Timestamp) -> u32 {
    let until = subscription.ends_at.map_or(now, |ends_at| ends_at.min(now));
    let number_at = |at| subscription.schedule().period_at(at).map(|period| period.number);
    let next = subscription.renews_at.and_then(number_at);
    number_at(until).zip(next).map_or(0, |(running, next)| running.saturating_sub(next))
}

/// The renewal that is `count` periods after the next renewal.
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
