//! The collection of payments: the retry of a failed payment, and the consequences of a report.

use super::charge::whole_of;
use super::outcome::{SideEffects, billing, excess, least, outcome};
use super::periods::restart;
use super::policy::{LAPSES_AFTER, Policy};
use super::proration::take_paid_change;
use crate::payments::{Payment, PaymentKind, PaymentStatus, RequestedPayment};
use crate::service::{OtherPayments, PaymentReport, ReportOutcome};
use crate::subscriptions::{ManagedBy, Subscription, SubscriptionStatus};
use crate::values::{Amount, Field, Timestamp};

/// The failed payment, requested again because its next attempt is due at `now`. If its subscription has expired, does
/// not exist or is not managed by the clock, only the next attempt of the payment is removed. `None` if no attempt is
/// due.
pub fn retry(
    payment: &Payment,
    subscription: Option<&Subscription>,
    now: Timestamp,
) -> Option<Payment> {
    let failed = payment.status == PaymentStatus::Failed;
    let at = payment.next_attempt_at().filter(|at| failed && *at <= now)?;
    let goes_on = subscription.is_some_and(|subscription| {
        subscription.managed_by == ManagedBy::Clock
            && subscription.status != SubscriptionStatus::Expired
    });
    let mut next = payment.clone();
    next.version = payment.version.next();
    next.updated_at = now.max(payment.updated_at);
    let asked = next.asked.as_mut()?;
    asked.next_attempt_at = None;
    if goes_on {
        next.status = PaymentStatus::Pending;
        asked.attempt = asked.attempt.saturating_add(1);
        asked.retries = asked.retries.saturating_add(1);
        asked.due_at = at;
    }
    Some(next)
}

/// The payment after a report of its status, and the consequences for its subscription.
pub(super) fn report(
    report: PaymentReport<'_>,
    subscription: &Subscription,
    others: OtherPayments,
    policy: &Policy,
    now: Timestamp,
) -> ReportOutcome {
    let PaymentReport { before, after: mut payment, next_attempt_at: sent } = report;
    let clock = subscription.managed_by == ManagedBy::Clock;
    let created_at = payment.created_at;
    let status = payment.status;
    let amount = payment.amount;
    let Some(asked) = payment.asked.as_mut().filter(|asked| clock && !asked.mirrored) else {
        return ReportOutcome { payment, subscription: None };
    };
    let mut next = subscription.clone();
    let lapses_at = now.max(created_at.saturating_add(LAPSES_AFTER));
    let mut side_effects = SideEffects::default();
    let awaited = subscription.awaited_payment();
    let is_awaited = asked.kind == PaymentKind::Proration
        && awaited.is_some_and(|awaited| awaited.at == asked.period_start);
    match status {
        // A change of plan waits for this payment. The payment failed or was cancelled, so the change is not made.
        // Nothing else depends on this payment.
        PaymentStatus::Failed | PaymentStatus::Canceled if is_awaited => {
            payment.status = PaymentStatus::Canceled;
            asked.next_attempt_at = None;
            billing(&mut next).scheduled_change = None;
        }
        PaymentStatus::Pending if before.status == PaymentStatus::Failed => {
            try_again(asked);
            asked.due_at = now;
        }
        PaymentStatus::Processing => {
            if before.status == PaymentStatus::Failed {
                try_again(asked);
            }
            if is_awaited || awaited.is_none() {
                billing(&mut next).lapses_at = None;
            }
        }
        PaymentStatus::Failed => {
            asked.next_attempt_at = next_attempt(asked, sent, before, subscription, policy, now);
            let has_try = asked.next_attempt_at.is_some() || others.to_try;
            fall_behind(&mut next, has_try, lapses_at, now);
        }
        PaymentStatus::Succeeded => {
            if is_awaited {
                side_effects.change = take_paid_change(&mut next);
            }
            let is_its_first = asked.kind == PaymentKind::Initial && is_running(asked, &next);
            if is_its_first && next.status == SubscriptionStatus::Pending {
                next.status = SubscriptionStatus::Active;
                billing(&mut next).lapses_at = None;
            }
            recover(&mut next, others, now);
        }
        PaymentStatus::Canceled => {
            recover(&mut next, others, now);
            if next.status == SubscriptionStatus::Pending && is_running(asked, &next) {
                billing(&mut next).lapses_at.get_or_insert(lapses_at);
            }
            forget_value(amount, asked, &mut next);
        }
        PaymentStatus::Refunded => forget_value(amount, asked, &mut next),
        PaymentStatus::Pending | PaymentStatus::PartiallyRefunded | PaymentStatus::Disputed => {}
    }
    let changed = next != *subscription;
    let is_back = matches!(status, PaymentStatus::Canceled | PaymentStatus::Refunded);
    // The reported payment was cancelled or refunded, while a change of plan waits for another payment. The amount of
    // that other payment was computed with the money that is now lost, so the change is dropped. But if the other
    // payment is being processed (`lapses_at` is `None`), the change stays.
    if awaited.is_some() && is_back && changed && billing(&mut next).lapses_at.is_some() {
        billing(&mut next).scheduled_change = None;
    }
    let moved = changed.then(|| outcome(subscription, next, side_effects, policy, now));
    ReportOutcome { payment, subscription: moved }
}

/// Begins a further attempt outside the retry schedule: `retries` stays the same, and a scheduled attempt is dropped.
fn try_again(asked: &mut RequestedPayment) {
    asked.attempt = asked.attempt.saturating_add(1);
    asked.next_attempt_at = None;
}

/// When a failed payment is tried again: at the time in the request that reports the failure (`sent`), or else by the
/// schedule of retries. `None` if it is not tried again.
fn next_attempt(
    asked: &RequestedPayment,
    sent: Field<Timestamp>,
    before: &Payment,
    subscription: &Subscription,
    policy: &Policy,
    now: Timestamp,
) -> Option<Timestamp> {
    let is_retried =
        !matches!(subscription.status, SubscriptionStatus::Pending | SubscriptionStatus::Expired);
    match sent {
        Field::Value(at) => Some(at),
        Field::Null => None,
        Field::Absent if before.status == PaymentStatus::Failed => asked.next_attempt_at,
        Field::Absent => {
            let span = policy.dunning.next(asked.retries).filter(|_| is_retried);
            span.and_then(|span| span.after(now))
        }
    }
}

/// Records that a payment has failed. An active subscription becomes past due. A subscription that still waits for
/// its first payment gets the time at which it expires.
fn fall_behind(next: &mut Subscription, has_try: bool, lapses_at: Timestamp, now: Timestamp) {
    if next.status == SubscriptionStatus::Expired {
        return;
    }
    let waits = next.status == SubscriptionStatus::Pending;
    if next.status == SubscriptionStatus::Active {
        next.status = SubscriptionStatus::PastDue;
    }
    let billing = billing(next);
    billing.past_due_since.get_or_insert(now);
    billing.dunning_ended_at = (!has_try).then_some(now);
    if waits && billing.current_period_start.is_some() {
        billing.lapses_at = Some(lapses_at);
    }
}

/// Lets a subscription recover after a payment was made or cancelled, unless another payment has failed and is not paid
/// yet.
fn recover(next: &mut Subscription, others: OtherPayments, now: Timestamp) {
    if others.behind {
        if !others.to_try {
            billing(next).dunning_ended_at = Some(now);
        }
        return;
    }
    let was_unpaid = next.status == SubscriptionStatus::Unpaid;
    if was_unpaid || next.status == SubscriptionStatus::PastDue {
        next.status = SubscriptionStatus::Active;
    }
    // An unpaid subscription grants no access, so the time without access is not charged: the next period starts now.
    if was_unpaid && next.renews_at.is_some_and(|renews_at| renews_at <= now) {
        restart(next, now);
    }
    let billing = billing(next);
    billing.past_due_since = None;
    billing.dunning_ended_at = None;
    if let Some(found) = &mut billing.cancelled
        && found.status == SubscriptionStatus::PastDue
    {
        found.status = SubscriptionStatus::Active;
    }
}

/// Subtracts a cancelled or refunded payment from the value of the running period, so that this payment gives no
/// credit. A payment for a part of the period is scaled to the whole period: a payment of 5 for half of the period
/// counts as 10.
///
/// A change of plan may have turned the value into credit, or into the value of another period. If the payment is more
/// than the remaining value, the rest is therefore subtracted from the credit that changes of plan have made.
fn forget_value(amount: Amount, asked: &RequestedPayment, next: &mut Subscription) {
    let renews_at = next.renews_at;
    let billing = billing(next);
    let Some(start) = billing.current_period_start else { return };
    // A payment for a period that has not begun is not part of the value of the running period.
    if renews_at.is_some_and(|renews_at| renews_at <= asked.period_start) {
        return;
    }
    let runs = start <= asked.period_start;
    let seconds = |start, end: Timestamp| end.since(start).as_secs();
    let whole = renews_at.zip(asked.period_end).zip(billing.currency).filter(|_| runs);
    let lost = whole.and_then(|((end, asked_end), currency)| {
        whole_of(amount, seconds(asked.period_start, asked_end), seconds(start, end), currency)
    });
    let mut lacking = amount;
    if runs || billing.settled_at.is_some() {
        let lost = lost.unwrap_or(amount);
        lacking = least(amount, excess(lost, billing.period_value));
        billing.period_value = excess(billing.period_value, lost);
    }
    let taken = least(lacking, billing.credit_of_changes);
    billing.credit = excess(billing.credit, taken);
    billing.credit_of_changes = excess(billing.credit_of_changes, taken);
}

/// True if the payment is for the running period, or for a change within it.
fn is_running(asked: &RequestedPayment, subscription: &Subscription) -> bool {
    let start = subscription.billing.as_ref().and_then(|billing| billing.current_period_start);
    start.is_some_and(|start| start <= asked.period_start)
}
