//! The verbs, such as cancel and pause, on a subscription that the clock manages.

use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid};

use super::outcome::{SideEffects, billing, expire, impossible, outcome};
use super::policy::Policy;
use super::steps;
use crate::error::{Conflict, Error};
use crate::plans::Reduction;
use crate::service::RuleDecision;
use crate::subscriptions::{
    Action, Cancellation, Effective, NewDiscount, ScheduledChange, Subscription, SubscriptionStatus,
};
use crate::values::{FaultCode, Faults, InvalidTransition, Timestamp};

/// The subscription after a verb such as cancel, or `None` if the verb changes nothing.
pub(super) fn act(
    before: &Subscription,
    action: Action,
    policy: &Policy,
    now: Timestamp,
) -> Result<Option<RuleDecision>, Error> {
    let mut next = before.clone();
    let mut side_effects = SideEffects::default();
    let missing =
        |record| Error::NotFound { record, name: format!("of subscription {}", before.id) };
    match action {
        Action::Cancel(effective) => {
            side_effects.cancels_open_payments = cancel(&mut next, effective, now)?;
            // The operator cancels a subscription that the subscriber has cancelled: the subscriber may no longer undo
            // the cancellation.
            if let Some(cancelled) = &mut billing(&mut next).cancelled {
                cancelled.by_user = false;
            }
        }
        Action::Leave => match next.status {
            // A subscription that is paid once has no renewal, so there is nothing to cancel.
            Active | OnTrial | PastDue if next.renews_at.is_none() => {
                return Err(refused(&next, Cancelled));
            }
            Active | OnTrial | PastDue => {
                cancel(&mut next, Some(Effective::PeriodEnd), now)?;
                next = next.cancelled(Cancellation { by_user: true, ..Cancellation::of(before) });
            }
            // Open payments are not cancelled, because they pay for time that was used. But a pending subscription was
            // never active, so its open payments are cancelled.
            Pending | Unpaid | Paused => {
                side_effects.cancels_open_payments = next.status == Pending;
                expire(&mut next, now);
            }
            Cancelled => {}
            Expired => return Err(refused(&next, Cancelled)),
        },
        Action::Resume => resume(&mut next, now)?,
        Action::Uncancel => match next.status {
            Cancelled if next.left_by_user().is_some() => resume(&mut next, now)?,
            Active | OnTrial => {
                let change = &mut billing(&mut next).scheduled_change;
                *change = change.filter(|change| !matches!(change, ScheduledChange::ByUser { .. }));
            }
            Pending | PastDue | Unpaid | Paused | Cancelled | Expired => {
                return Err(refused(&next, Active));
            }
        },
        Action::Pause { effective, resumes_at } => pause(&mut next, effective, resumes_at, now)?,
        Action::Unschedule => {
            before.scheduled_change().ok_or_else(|| missing("scheduled change"))?;
            billing(&mut next).scheduled_change = None;
        }
        Action::GiveDiscount(new) => give_discount(&mut next, new)?,
        Action::RemoveDiscount => {
            billing(&mut next).discount.take().ok_or_else(|| missing("discount"))?;
        }
    }
    // If the payment that a change of plan waits for is being processed, `lapses_at` is `None`. A verb that would drop
    // this change is refused, because the money may be on the way.
    let is_dropped = before.awaited_payment() != next.awaited_payment();
    if is_dropped && next.status != Expired && billing(&mut next).lapses_at.is_none() {
        return Err(Conflict::PaymentOpen.into());
    }
    Ok((next != *before).then(|| outcome(before, next, side_effects, policy, now)))
}

/// Gives a subscription a discount from the next whole period on.
fn give_discount(next: &mut Subscription, new: NewDiscount) -> Result<(), Error> {
    // A subscription that is paid once, and has begun, has no further period.
    let has_begun = billing(next).current_period_start.is_some();
    let is_over = next.renews_at.is_none() && has_begun;
    if next.status == Expired || is_over {
        return Err(impossible(next.status, "one with a discount"));
    }
    let state = billing(next);
    if state.discount.is_some() {
        return Err(Conflict::DiscountExists.into());
    }
    if let Reduction::Amount(amount) = new.off
        && let Some(currency) = state.currency
    {
        currency.check_digits(amount, "amount").map_err(Faults::from)?;
    }
    state.discount = Some(new.unused());
    Ok(())
}

/// Cancels a subscription. Returns true if its open payments are cancelled too.
fn cancel(
    next: &mut Subscription,
    effective: Option<Effective>,
    now: Timestamp,
) -> Result<bool, Error> {
    let by_status = match next.status {
        Active | OnTrial | Cancelled => Effective::PeriodEnd,
        PastDue | Unpaid | Paused | Pending | Expired => Effective::Now,
    };
    match (effective.unwrap_or(by_status), next.status) {
        (Effective::Now, Expired) | (Effective::PeriodEnd, Cancelled) => Ok(false),
        (Effective::Now, _) => {
            expire(next, now);
            billing(next).past_due_since = None;
            Ok(true)
        }
        (Effective::PeriodEnd, Active | OnTrial | PastDue | Paused) => {
            let found = Cancellation::of(next);
            let end = next.renews_at.map_or(now, |renews_at| renews_at.max(now));
            next.ends_at = Some(next.ends_at.map_or(end, |ends_at| ends_at.min(end)));
            next.status = Cancelled;
            let billing = billing(next);
            billing.cancelled = found.kept();
            billing.resumes_at = None;
            Ok(false)
        }
        (Effective::PeriodEnd, Pending | Unpaid | Expired) => Err(refused(next, Cancelled)),
    }
}

fn resume(next: &mut Subscription, now: Timestamp) -> Result<(), Error> {
    match next.status {
        Cancelled if next.ends_at.is_none_or(|ends_at| ends_at > now) => {
            if next.past_due_since().is_some() {
                return Err(Conflict::PaymentOpen.into());
            }
            let on_trial = next.trial_ends_at().is_some_and(|end| end > now);
            next.status = if on_trial { OnTrial } else { Active };
            next.ends_at = billing(next).cancelled.take().and_then(|found| found.ends_at);
        }
        Paused => steps::resume(next, now),
        Active | OnTrial => {
            let change = &mut billing(next).scheduled_change;
            *change = change.take_if(|change| !is_pause(change));
        }
        // A paused subscription may become past due when it is resumed. It is then not paused any more, so the verb
        // changes nothing.
        PastDue => {}
        Pending | Unpaid | Cancelled | Expired => return Err(refused(next, Active)),
    }
    Ok(())
}

fn pause(
    next: &mut Subscription,
    effective: Option<Effective>,
    resumes_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), Error> {
    if next.scheduled_change().is_some_and(|change| !is_pause(&change)) {
        return Err(Conflict::ChangeScheduled.into());
    }
    let at_end = effective != Some(Effective::Now);
    match next.status {
        Active | OnTrial if at_end => {
            let Some(renews_at) = next.renews_at else {
                return Err(Error::invalid(
                    FaultCode::NotAllowedValue,
                    "must be now: the subscription has no further period",
                    "effective",
                ));
            };
            check_resumption(resumes_at, renews_at, "renews_at, when the pause begins")?;
            billing(next).scheduled_change = Some(ScheduledChange::Pause { resumes_at });
        }
        Active | OnTrial => {
            check_resumption(resumes_at, now, "now")?;
            next.status = Paused;
            billing(next).scheduled_change = None;
            billing(next).resumes_at = resumes_at;
        }
        // The subscription is paused already: the verb can only change the end of the pause.
        Paused => {
            check_resumption(resumes_at, now, "now")?;
            let current = &mut billing(next).resumes_at;
            *current = resumes_at.or(*current);
        }
        Pending | PastDue | Unpaid | Cancelled | Expired => return Err(refused(next, Paused)),
    }
    Ok(())
}

/// Checks that a pause ends after it begins.
pub(super) fn check_resumption(
    resumes_at: Option<Timestamp>,
    begins_at: Timestamp,
    name: &str,
) -> Result<(), Error> {
    if resumes_at.is_some_and(|resumes_at| resumes_at <= begins_at) {
        return Err(Error::invalid(
            FaultCode::OutOfRange,
            format!("must be after {name}"),
            "resumes_at",
        ));
    }
    Ok(())
}

pub(super) const fn is_pause(change: &ScheduledChange) -> bool {
    matches!(change, ScheduledChange::Pause { .. })
}

fn refused(subscription: &Subscription, to: SubscriptionStatus) -> Error {
    let from = subscription.status;
    let over = subscription.status == Cancelled && to != Paused;
    let others = from.next().iter().filter(|next| **next != to && (!over || **next == Expired));
    let allowed = others.map(|next| next.as_str()).collect();
    let refused =
        InvalidTransition { record: "subscription", from: from.as_str(), to: to.as_str(), allowed };
    Conflict::from(refused).into()
}
