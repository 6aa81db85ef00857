//! The next step that the clock takes for a subscription, and the time at which it is due.

use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid};

use super::policy::Policy;
use crate::plans::{BillingCycle, CycleUnit};
use crate::service::StepKind;
use crate::subscriptions::{
    BillingState, ManagedBy, ScheduledChange, Subscription, SubscriptionStatus,
};
use crate::values::Timestamp;

/// When the clock takes the next step of a subscription: at the time of the earliest step, but not before the last
/// write. `None` if the clock does not manage it, or it has no further step.
pub fn next_action_at(subscription: &Subscription, policy: &Policy) -> Option<Timestamp> {
    let (at, _) = earliest(subscription, policy, subscription.updated_at)?;
    Some(at.max(subscription.updated_at))
}

/// The earliest step, whether it is due already or not. If two steps have the same time, the order of [`StepKind`]
/// decides: an end comes before a scheduled change, which comes before a renewal.
pub(super) fn earliest(
    subscription: &Subscription,
    policy: &Policy,
    now: Timestamp,
) -> Option<(Timestamp, StepKind)> {
    let Subscription { status, renews_at, starts_at, ends_at, .. } = *subscription;
    let billing = subscription.billing.as_deref()?;
    if subscription.managed_by != ManagedBy::Clock || status == Expired {
        return None;
    }
    let begins = status == Pending && billing.current_period_start.is_none();
    // While a change of plan waits for its payment, a renewal and an end wait too.
    let waits = subscription.awaited_payment().is_some();
    let renews_at = renews_at.filter(|_| matches!(status, Active | OnTrial) && !waits);
    let scheduled = billing.scheduled_change.map(|change| match change {
        ScheduledChange::ChangePlan(_) | ScheduledChange::ByUser { .. } => StepKind::PlanChanged,
        ScheduledChange::Pause { .. } => StepKind::Paused,
    });
    let candidates = [
        ends_at.filter(|_| !waits).map(|at| (at, StepKind::Ended)),
        begins.then_some((starts_at, StepKind::Started)),
        renews_at.zip(scheduled),
        renews_at.map(|at| (at, StepKind::PeriodStarted)),
        billing.resumes_at.filter(|_| status == Paused).map(|at| (at, StepKind::Resumed)),
        billing.lapses_at.filter(|_| status == Pending || waits).map(|at| (at, StepKind::Lapsed)),
        billing
            .dunning_ended_at
            .filter(|_| matches!(status, PastDue | Cancelled))
            .map(|at| (at, StepKind::DunningEnded)),
        reminder(subscription, billing, policy, now).map(|at| (at, StepKind::Reminded)),
    ];
    candidates.into_iter().flatten().min()
}

/// When the subscriber is reminded of the next renewal: once for each renewal, and before it. There is no reminder at
/// the moment of the renewal, because the step of the renewal comes first. `None` if there is no reminder.
fn reminder(
    subscription: &Subscription,
    billing: &BillingState,
    policy: &Policy,
    now: Timestamp,
) -> Option<Timestamp> {
    let renews_at = subscription.renews_at.filter(|at| now < *at)?;
    let renews = || {
        let pauses = matches!(billing.scheduled_change, Some(ScheduledChange::Pause { .. }));
        is_a_month_or_more(subscription.billing_cycle)
            && subscription.ends_at.is_none_or(|ends_at| ends_at > renews_at)
            && !pauses
    };
    let reminds = match subscription.status {
        OnTrial => true,
        Active => renews(),
        Pending | PastDue | Unpaid | Paused | Cancelled | Expired => false,
    };
    if !reminds || billing.reminded_for == Some(renews_at) {
        return None;
    }
    let at = policy.remind_before?.before(renews_at).unwrap_or(Timestamp::MIN);
    Some(at.max(subscription.current_period_start()?))
}

/// True for every cycle of months or years, and for cycles of days or weeks that last four weeks or more.
fn is_a_month_or_more(cycle: BillingCycle) -> bool {
    cycle.length().is_some_and(|(unit, count)| match unit {
        CycleUnit::Day => count >= 28,
        CycleUnit::Week => count >= 4,
        CycleUnit::Month | CycleUnit::Year => true,
    })
}
