//! The steps that the service takes for a subscription as time passes: which step is due first, and what the step does.

use SubscriptionStatus::{Active, OnTrial, PastDue, Paused, Pending, Unpaid};

use super::due::{earliest, next_action_at};
use super::outcome::{SideEffects, billing, expire, outcome, settle};
use super::periods::{begin, missed, renewal_after, restart};
use super::policy::{Activation, AfterDunning, LAPSES_AFTER, Policy};
use super::proration::{set_terms, take_paid_change};
use crate::events::Change;
use crate::payments::PaymentKind;
use crate::service::{Step, StepKind};
use crate::subscriptions::{ScheduledChange, Subscription, SubscriptionStatus};
use crate::values::Timestamp;

/// The earliest step of a subscription that is due at `now`. If two steps are due at the same moment, it is the one
/// that comes first in [`StepKind`]. `None` if no step is due, and the stored `next_action_at` has not come.
///
/// If the stored `next_action_at` has come but no other step is due, the result is a step that only corrects
/// `next_action_at`: the policy may have changed since the subscription was written.
pub fn step(subscription: &Subscription, policy: &Policy, now: Timestamp) -> Option<Step> {
    let due = earliest(subscription, policy, now).filter(|(at, _)| *at <= now);
    let looked_at = || subscription.next_action_at().filter(|at| *at <= now);
    let (at, kind) = due.or_else(|| Some((looked_at()?, StepKind::Corrected)))?;
    let mut next = subscription.clone();
    let (kind, side_effects) = take(&mut next, at, kind, policy, now);
    Some(Step { at, kind, outcome: outcome(subscription, next, side_effects, policy, now) })
}

/// The steps of a subscription up to `until`, each taken when it is due. Payments count as paid: a subscription that
/// waits for its first payment, or has a failed payment, becomes active at once.
pub fn steps(
    subscription: Subscription,
    policy: &Policy,
    until: Timestamp,
) -> impl Iterator<Item = Step> {
    let mut current = subscription;
    take_as_paid(&mut current, policy);
    std::iter::from_fn(move || {
        let now = next_action_at(&current, policy).filter(|at| *at <= until)?;
        let mut step = step(&current, policy, now)?;
        take_as_paid(&mut step.outcome.subscription, policy);
        current = step.outcome.subscription.clone();
        Some(step)
    })
}

fn take_as_paid(subscription: &mut Subscription, policy: &Policy) {
    let has_period = billing(subscription).current_period_start.is_some();
    take_paid_change(subscription);
    if subscription.status == PastDue || subscription.status == Pending && has_period {
        subscription.status = Active;
        let billing = billing(subscription);
        billing.past_due_since = None;
        billing.dunning_ended_at = None;
        billing.lapses_at = None;
        settle(subscription, policy, subscription.updated_at);
    }
}

/// Takes a step that was due at `at`.
fn take(
    next: &mut Subscription,
    at: Timestamp,
    kind: StepKind,
    policy: &Policy,
    now: Timestamp,
) -> (StepKind, SideEffects) {
    let mut side_effects = SideEffects::default();
    match kind {
        StepKind::Ended => {
            // Open payments are not cancelled, because they pay for time that was used. But a pending subscription was
            // never active, so its open payments are cancelled.
            side_effects.cancels_open_payments = next.status == Pending;
            expire(next, at);
        }
        StepKind::Started => side_effects = start(next, policy, now),
        StepKind::PlanChanged => side_effects = change_plan(next, at),
        StepKind::Paused => {
            let change = billing(next).scheduled_change.take();
            if let Some(ScheduledChange::Pause { resumes_at }) = change {
                billing(next).resumes_at = resumes_at;
            }
            next.status = Paused;
        }
        StepKind::PeriodStarted | StepKind::PeriodsSkipped => {
            return start_period(next, at, policy, now);
        }
        StepKind::Resumed => resume(next, at),
        StepKind::Lapsed if next.awaited_payment().is_some() => {
            billing(next).scheduled_change = None;
        }
        StepKind::Lapsed => {
            expire(next, at);
            side_effects.cancels_open_payments = true;
        }
        StepKind::DunningEnded => match policy.after_dunning {
            AfterDunning::Unpaid if next.status == PastDue => next.status = Unpaid,
            AfterDunning::Unpaid | AfterDunning::Expired => expire(next, at),
        },
        StepKind::Reminded => {
            let renews_at = next.renews_at;
            billing(next).reminded_for = renews_at;
            let on_trial = next.status == OnTrial;
            side_effects.change = renews_at.map(|renews_at| {
                if on_trial {
                    Change::TrialWillEnd { trial_ends_at: renews_at }
                } else {
                    Change::RenewalUpcoming { renews_at }
                }
            });
        }
        StepKind::Corrected | StepKind::PaymentRetried => {}
    }
    (kind, side_effects)
}

/// Starts a subscription: its trial, or its first period with the payment to request.
pub(super) fn start(next: &mut Subscription, policy: &Policy, now: Timestamp) -> SideEffects {
    let start = next.starts_at;
    let end = next.renews_at;
    if next.trial_ends_at().is_some() {
        next.status = OnTrial;
        billing(next).current_period_start = Some(start);
        return SideEffects::default();
    }
    let ask = begin(next, PaymentKind::Initial, start, end);
    let waits = policy.activation == Activation::OnPayment && ask.is_some();
    next.status = if waits { Pending } else { Active };
    billing(next).lapses_at = waits.then(|| now.saturating_add(LAPSES_AFTER));
    let change = Change::PeriodStarted { period_start: start, period_end: end };
    SideEffects { ask, change: Some(change), ..SideEffects::default() }
}

/// Applies a scheduled change of plan. If the billing cycle changes, periods are counted from `at`.
fn change_plan(next: &mut Subscription, at: Timestamp) -> SideEffects {
    let change = billing(next).scheduled_change.take();
    let Some(ScheduledChange::ChangePlan(terms) | ScheduledChange::ByUser { terms, .. }) = change
    else {
        return SideEffects::default();
    };
    let moves = terms.billing_cycle != next.billing_cycle;
    let from_plan = next.subscription_plan_id;
    let to_plan = terms.subscription_plan_id;
    set_terms(next, terms);
    if moves {
        restart(next, at);
    }
    SideEffects {
        change: Some(Change::PlanChanged { from_plan, to_plan }),
        ..SideEffects::default()
    }
}

/// Starts the period at the renewal, or skips the oldest of the missed periods if there are more than
/// `missed_periods_max`.
fn start_period(
    next: &mut Subscription,
    at: Timestamp,
    policy: &Policy,
    now: Timestamp,
) -> (StepKind, SideEffects) {
    let max = u32::try_from(policy.missed_periods_max.get()).unwrap_or(u32::MAX);
    let count = missed(next, now).saturating_sub(max);
    if let Some(renewal) = renewal_after(next, count).filter(|_| count > 0) {
        next.renews_at = Some(renewal);
        let change = Some(Change::PeriodsSkipped { count });
        return (StepKind::PeriodsSkipped, SideEffects { change, ..SideEffects::default() });
    }
    // The period after a trial is the first paid period, also if the trial ended during a pause.
    let was_trial = next
        .trial_ends_at()
        .filter(|end| *end <= at)
        .zip(next.current_period_start())
        .is_some_and(|(end, start)| start < end);
    let is_first = next.status == OnTrial || was_trial;
    let kind = if is_first { PaymentKind::Initial } else { PaymentKind::Renewal };
    let end = next.schedule().next_after(at);
    // A payment that another system requested may have failed during the trial. The subscription is then past due after
    // the trial.
    let is_behind = next.status == OnTrial && next.past_due_since().is_some();
    next.status = if is_behind { PastDue } else { Active };
    let ask = begin(next, kind, at, end);
    let change = Change::PeriodStarted { period_start: at, period_end: end };
    (StepKind::PeriodStarted, SideEffects { ask, change: Some(change), ..SideEffects::default() })
}

/// Ends a pause at `at`. If the period has ended by then, the next period starts at `at`.
pub(super) fn resume(next: &mut Subscription, at: Timestamp) {
    let billing = billing(next);
    billing.resumes_at = None;
    next.status = if billing.past_due_since.is_some() {
        PastDue
    } else if billing.trial_ends_at.is_some_and(|end| end > at) {
        OnTrial
    } else {
        Active
    };
    if next.renews_at.is_some_and(|renews_at| renews_at <= at) {
        restart(next, at);
    }
}
