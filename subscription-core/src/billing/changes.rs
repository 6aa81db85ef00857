//! Updates of a subscription: the clock starts or stops managing it, or callers set the fields that they may set.

use super::creation;
use super::outcome::{billing, impossible, settle};
use super::periods::count_from_renewal;
use super::policy::Policy;
use super::proration::own_credit;
use super::verbs::{check_resumption, is_pause};
use crate::error::{Conflict, Error};
use crate::subscriptions::{Managed, ManagedBy, ScheduledChange, Subscription, SubscriptionStatus};
use crate::values::{FaultCode, Timestamp};

/// The updated subscription, ready to be written; it has the version of `after`.
pub(super) fn change(
    before: &Subscription,
    mut after: Subscription,
    policy: &Policy,
    now: Timestamp,
) -> Result<Subscription, Error> {
    let is_settled = before.terms() != after.terms()
        || before.credit() != after.credit()
        || before.managed_by != after.managed_by;
    if is_settled && before.awaited_payment().is_some() {
        return Err(Conflict::PaymentOpen.into());
    }
    match (before.managed_by, after.managed_by) {
        (ManagedBy::Clock, ManagedBy::Clock) => set_free_fields(before, &mut after, now)?,
        (_, ManagedBy::Clock) => take_over(&mut after, policy, now)?,
        (ManagedBy::Clock, ManagedBy::Caller | ManagedBy::Provider) => {
            release(&mut after);
            return Ok(after);
        }
        (ManagedBy::Caller | ManagedBy::Provider, ManagedBy::Caller | ManagedBy::Provider) => {
            return Ok(after);
        }
    }
    settle(&mut after, policy, now);
    Ok(after)
}

/// Lets the clock manage a subscription from now on. Its running period counts as paid.
fn take_over(after: &mut Subscription, policy: &Policy, now: Timestamp) -> Result<(), Error> {
    if after.status == SubscriptionStatus::Expired {
        return Err(impossible(after.status, "managed by the clock"));
    }
    creation::check(after, now)?;
    creation::take_over(after, policy, now);
    Ok(())
}

/// Removes the billing fields of a subscription that the clock no longer manages, except those that
/// `BillingState::released` keeps.
fn release(after: &mut Subscription) {
    after.billing = after.billing.take().and_then(|billing| billing.released().kept());
}

/// Checks the fields that callers may set on a subscription that the clock manages, and sets the fields that depend
/// on them.
fn set_free_fields(
    before: &Subscription,
    after: &mut Subscription,
    now: Timestamp,
) -> Result<(), Error> {
    if after.price().is_none() {
        return Err(Error::invalid(
            FaultCode::NullNotAllowed,
            "must be set, because managed_by is clock",
            "price",
        ));
    }
    if own_credit(after).is_some() && moves_currency(after) {
        return Err(Conflict::ChangeScheduled.into());
    }
    if after.trial_ends_at() != before.trial_ends_at() {
        move_trial(before, after, now)?;
    }
    if after.resumes_at() != before.resumes_at() {
        move_resumption(after, now)?;
    }
    Ok(())
}

/// True if a change to another currency is scheduled. Credit cannot be moved to another currency.
fn moves_currency(subscription: &Subscription) -> bool {
    // The stored field is read, because `scheduled_change()` returns `None` while the subscription is cancelled.
    let scheduled = subscription.billing.as_ref().and_then(|billing| billing.scheduled_change);
    let Some(ScheduledChange::ChangePlan(terms)) = scheduled else { return false };
    subscription.currency() != Some(terms.currency)
}

/// Moves the end of a trial. The first paid period starts at the new end. If the subscription was to end with its
/// trial, it ends at the new end of the trial.
fn move_trial(
    before: &Subscription,
    after: &mut Subscription,
    now: Timestamp,
) -> Result<(), Error> {
    if before.status != SubscriptionStatus::OnTrial {
        let managed = Managed { by: ManagedBy::Clock, fields: vec!["trial_ends_at"] };
        return Err(Conflict::from(managed).into());
    }
    let Some(end) = after.trial_ends_at().filter(|end| *end > now) else {
        return Err(Error::invalid(
            FaultCode::OutOfRange,
            "must be in the future: the subscription is on trial",
            "trial_ends_at",
        ));
    };
    if before.ends_at.is_some() && before.ends_at == before.trial_ends_at() {
        after.ends_at = Some(end);
    }
    after.renews_at = Some(end);
    count_from_renewal(after);
    Ok(())
}

/// Moves the end of the present pause, or of the scheduled pause.
fn move_resumption(after: &mut Subscription, now: Timestamp) -> Result<(), Error> {
    let resumes_at = after.resumes_at();
    let status = after.status;
    let renews_at = after.renews_at;
    let scheduled = after.scheduled_change().is_some_and(|change| is_pause(&change));
    if status == SubscriptionStatus::Paused {
        check_resumption(resumes_at, now, "now")
    } else if let Some(renews_at) = renews_at.filter(|_| scheduled) {
        check_resumption(resumes_at, renews_at, "renews_at, when the pause begins")?;
        let billing = billing(after);
        billing.resumes_at = None;
        billing.scheduled_change = Some(ScheduledChange::Pause { resumes_at });
        Ok(())
    } else {
        Err(Error::invalid(
            FaultCode::NotAllowedValue,
            "is only for a subscription that is paused, or for which a pause is scheduled",
            "resumes_at",
        ))
    }
}
