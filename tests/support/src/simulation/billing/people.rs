//! The invariants of what users do with their own subscriptions.

use rust_decimal::Decimal;
use subscription_core::billing::Policy;
use subscription_core::events::Actor;
use subscription_core::subscriptions::{ChangePayment, ScheduledChange, Terms};
use subscription_core::{ManagedBy, PaymentStatus, SubscriptionStatus};

use super::invariants::ensure;
use super::life::{Life, PeriodStart as _, Written, is_awaited};
use crate::billing::amounts::{credit, of_change};

fn by_user(written: &Written) -> bool {
    matches!(written.event.actor, Actor::User(_))
}

/// A write by a user is to a subscription of this user.
pub(super) fn people_move_their_own(life: &Life, _: &Policy) -> Result<(), String> {
    for (before, after) in life.pairs() {
        let Actor::User(user) = &after.event.actor else { continue };
        ensure(*user == before.subscription.user_id, || {
            format!("version {} was written by {user}", after.subscription.version)
        })?;
    }
    Ok(())
}

/// What the seller chose stays when a user cancels or resumes: a scheduled change, an end, a cancellation.
pub(super) fn sellers_schedule_survives(life: &Life, _: &Policy) -> Result<(), String> {
    let scheduled = |written: &Written| {
        let billing = written.subscription.billing.as_ref()?;
        billing.scheduled_change.filter(|it| !matches!(it, ScheduledChange::ByUser { .. }))
    };
    let mut is_cancelled_by_seller = false;
    for (before, after) in life.pairs() {
        let was = &before.subscription;
        let is = &after.subscription;
        let on_clock = was.managed_by == ManagedBy::Clock && is.managed_by == ManagedBy::Clock;
        let was_cancelled = was.status == SubscriptionStatus::Cancelled;
        let is_cancelled = is.status == SubscriptionStatus::Cancelled;
        if by_user(after) && on_clock && is.status != SubscriptionStatus::Expired {
            let wrong = |what: &str| format!("version {} by a user {what}", is.version);
            ensure(scheduled(before) == scheduled(after), || wrong("drops a scheduled change"))?;
            ensure(!is_cancelled_by_seller || is_cancelled, || wrong("undoes a cancellation"))?;
            let is_later = was.ends_at.is_some_and(|end| is.ends_at.is_none_or(|at| at > end));
            ensure(was_cancelled || !is_later, || wrong("delays an end"))?;
        }
        let cancels = is_cancelled && !was_cancelled && on_clock;
        is_cancelled_by_seller =
            is_cancelled && (is_cancelled_by_seller || cancels && !by_user(after));
    }
    Ok(())
}

/// A change of plan by a user is made when it was paid, by money or by credit, and not before. Until then, and if it is
/// not paid, terms and period stay as they are. Its payment ends with it, and waits for 23 hours at most.
pub(super) fn more_access_only_for_money(life: &Life, _: &Policy) -> Result<(), String> {
    for (before, after) in life.pairs() {
        let was = &before.subscription;
        let is = &after.subscription;
        let wrong = |what: &str| format!("version {} {what}", is.version);
        let same_terms = was.terms() == is.terms();
        let Some((terms, payment)) = before.awaited() else {
            let is_paid = credit(is) < credit(was);
            ensure(same_terms || !by_user(after) || is_paid, || wrong("is not paid"))?;
            continue;
        };
        let mut its = after.payments.iter().filter(|paid| is_awaited(paid, payment));
        if its.any(|paid| paid.status == PaymentStatus::Succeeded) {
            ensure(is.terms() == Some(terms), || wrong("is paid, and has other terms"))?;
            continue;
        }
        let same_period = was.period_start() == is.period_start() && was.renews_at == is.renews_at;
        ensure(same_terms && same_period, || wrong("is changed without payment"))?;
        let is_dropped = after.awaited().is_none() && !life.deleted;
        // A payment that is being processed may fail later.
        let left = life.awaited_payment(payment);
        let is_open = left.is_some_and(|left| left.status == PaymentStatus::Pending);
        ensure(!is_dropped || !is_open, || wrong("leaves its payment open"))?;
    }
    let Some(last) = life.versions.last().filter(|_| !life.deleted) else { return Ok(()) };
    let Some((_, payment)) = last.awaited() else { return Ok(()) };
    let is_pending = life
        .awaited_payment(payment)
        .is_some_and(|payment| payment.status == PaymentStatus::Pending);
    let lapses_at = last.subscription.billing.as_ref().and_then(|billing| billing.lapses_at);
    ensure(!is_pending || lapses_at.is_some(), || "a payment is waited for without end".into())
}

/// No change by a user adds credit.
pub(super) fn people_never_gain_credit(life: &Life, _: &Policy) -> Result<(), String> {
    for (before, after) in life.pairs() {
        let is_theirs = by_user(after) || before.awaited().is_some() && after.awaited().is_none();
        let gains = credit(&after.subscription) > credit(&before.subscription);
        ensure(!is_theirs || !gains, || {
            format!("version {} gives credit", after.subscription.version)
        })?;
    }
    Ok(())
}

/// True if a change of plan that was paid has moved what a change at once would have moved when it was quoted.
pub(super) fn is_as_quoted(
    life: &Life,
    before: &Written,
    after: &Written,
    awaited: (Terms, ChangePayment),
) -> bool {
    let (terms, payment) = awaited;
    let Some(quoted) = life.before_waiting(awaited).map(|it| &it.subscription) else { return true };
    let Some(charged) = of_change(quoted, &terms, payment.at) else { return false };
    let paid = after.payments.iter().find(|paid| is_awaited(paid, payment));
    let used = credit(quoted) - charged.credit;
    let left = (credit(&before.subscription) - used).max(Decimal::ZERO);
    let value = after.subscription.billing.as_ref().map(|billing| billing.period_value.value());
    let start = if charged.restarts { Some(payment.at) } else { quoted.period_start() };
    paid.is_some_and(|paid| paid.amount.value() == charged.amount)
        && credit(&after.subscription) == left
        && value == Some(charged.value)
        && after.subscription.period_start() == start
        && after.subscription.terms() == Some(terms)
}
