//! The outcome of a step of the clock, of a verb such as cancel, or of a report of a payment: a subscription that is
//! ready to be written.

use super::due::next_action_at;
use super::policy::Policy;
use crate::error::{Conflict, Error};
use crate::events::Change;
use crate::service::{PaymentRequest, RuleDecision};
use crate::subscriptions::{BillingState, Subscription, SubscriptionStatus};
use crate::values::{Amount, InvalidTransition, Timestamp};

/// The payment, cancellations and event that are written with a subscription.
#[derive(Debug, Default)]
pub(super) struct SideEffects {
    pub(super) ask: Option<PaymentRequest>,
    pub(super) cancels_open_payments: bool,
    /// The change that the event reports if the status stays the same. If the status changes, or if this is `None`, the
    /// change is computed from the subscription before and after it.
    pub(super) change: Option<Change>,
}

/// The outcome of a change from `before` to `next`. `next` still has the version of `before`.
pub(super) fn outcome(
    before: &Subscription,
    mut next: Subscription,
    side_effects: SideEffects,
    policy: &Policy,
    now: Timestamp,
) -> RuleDecision {
    if side_effects.cancels_open_payments {
        billing(&mut next).past_due_since = None;
    }
    next.version = before.version.next();
    next.updated_at = now.max(before.updated_at);
    settle(&mut next, policy, now);
    let mut cancels_from = side_effects.cancels_open_payments.then_some(Timestamp::MIN);
    // If a change of plan no longer waits for its payment, this payment is cancelled, unless it was made.
    if let Some(payment) = before.awaited_payment().filter(|_| next.awaited_payment().is_none()) {
        cancels_from.get_or_insert(payment.at);
    }
    let change = side_effects.change.filter(|_| next.status == before.status);
    let change = change.unwrap_or_else(|| before.change_to(&next));
    RuleDecision { subscription: next, change, ask: side_effects.ask, cancels_from }
}

/// Sets the fields that are computed from other fields.
pub(super) fn settle(subscription: &mut Subscription, policy: &Policy, now: Timestamp) {
    subscription.is_active = subscription.is_active_at(now);
    let next_action_at = next_action_at(subscription, policy);
    let billing = billing(subscription);
    billing.next_action_at = next_action_at;
    let of_changes = least(billing.credit_of_changes, billing.credit);
    // A 0 with digits, such as 0.00, becomes `ZERO`: a 0 is not stored, and is read back as `ZERO`.
    billing.credit_of_changes = if of_changes.is_zero() { Amount::ZERO } else { of_changes };
}

/// The billing state of a subscription. It is created if the subscription has none.
pub(super) fn billing(subscription: &mut Subscription) -> &mut BillingState {
    subscription.billing.get_or_insert_default()
}

/// Ends a subscription at `at`, or at its end if that is earlier.
pub(super) fn expire(subscription: &mut Subscription, at: Timestamp) {
    // A subscription that has not begun ends at its start.
    let at = at.max(subscription.starts_at);
    subscription.status = SubscriptionStatus::Expired;
    subscription.ends_at = Some(subscription.ends_at.map_or(at, |ends_at| ends_at.min(at)));
    billing(subscription).stop();
}

/// The error of a change that is not possible in this status, whatever the caller does first. The error names no
/// allowed status.
pub(super) fn impossible(from: SubscriptionStatus, to: &'static str) -> Error {
    let from = from.as_str();
    let refused = InvalidTransition { record: "subscription", from, to, allowed: Vec::new() };
    Conflict::from(refused).into()
}

/// `one` minus `other`, or 0 if `other` is greater.
pub(super) fn excess(one: Amount, other: Amount) -> Amount {
    let more = one.value().checked_sub(other.value()).and_then(|it| Amount::try_from(it).ok());
    more.unwrap_or_default().with_digits(one.fraction_digits())
}

/// The smaller of two amounts.
pub(super) fn least(one: Amount, other: Amount) -> Amount {
    excess(one, excess(one, other))
}
