//! The invariants of what users do with their own subscriptions.

use subscription_core::billing::Policy;
use subscription_core::events::Actor;
use subscription_core::{ManagedBy, SubscriptionStatus};

use super::invariants::ensure;
use super::life::{Life, Written};

fn by_user(written: &Written) -> bool {
    matches!(written.event.actor, Some(Actor::User(_)))
}

/// A write by a user is to a subscription of this user.
pub(super) fn people_move_their_own(life: &Life, _: &Policy) -> Result<(), String> {
    for (before, after) in life.pairs() {
        let Some(Actor::User(user)) = &after.event.actor else { continue };
        ensure(*user == before.subscription.user_id, || {
            format!("version {} was written by {user}", after.subscription.version)
        })?;
    }
    Ok(())
}

/// What the seller chose stays when a user cancels or resumes: a scheduled change, an end, a cancellation.
pub(super) fn sellers_schedule_survives(life: &Life, _: &Policy) -> Result<(), String> {
    let scheduled = |written: &Written| {
        written.subscription.billing.as_ref().and_then(|billing| billing.scheduled_change)
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
