//! The invariants of billing. Each is a function that checks the life of one subscription.

#![expect(clippy::wildcard_enum_match_arm, reason = "an invariant is about few kinds of change")]

use std::collections::BTreeSet;
use std::sync::Arc;

use rust_decimal::Decimal;
use subscription_core::billing::{Policy, next_action_at};
use subscription_core::events::Change;
use subscription_core::{
    Amount, BillingCycle, ManagedBy, Payment, PaymentKind, PaymentStatus, Phase,
    SubscriptionStatus, Timestamp,
};

use super::discounts;
use super::executions::{Moved, preview_is_execution};
use super::life::{Life, PeriodStart as _, Written, is_awaited};
use super::people;
use crate::billing::amounts::{of_period, unused};
use crate::simulation::invariants::Broken;

/// The name of an invariant that is checked after the clock has advanced.
pub const NOTHING_DUE_RESTS: &str = "nothing_due_rests";

type Invariant = fn(&Life, &Policy) -> Result<(), String>;

/// Every invariant that can be checked on a single life.
pub const ALL: [(&str, Invariant); 32] = [
    ("periods_tile", periods_tile),
    ("no_period_asked_twice", no_period_asked_twice),
    ("every_period_is_asked_for", every_period_is_asked_for),
    ("money_adds_up", money_adds_up),
    ("on_the_grid", on_the_grid),
    ("skips_are_bounded", skips_are_bounded),
    ("next_action_is_true", next_action_is_true),
    ("access_is_history", access_is_history),
    ("behind_means_past_due", behind_means_past_due),
    ("no_asking_while_off", no_asking_while_off),
    ("retries_keep_the_schedule", retries_keep_the_schedule),
    ("silence_changes_nothing", silence_changes_nothing),
    ("ended_means_ended", ended_means_ended),
    ("cancel_wins", cancel_wins),
    ("callers_are_left_alone", callers_are_left_alone),
    ("a_step_is_one_event", a_step_is_one_event),
    ("reminders_once", reminders_once),
    ("preview_is_execution", |life, _| preview_is_execution(life)),
    ("no_key_twice", no_key_twice),
    ("credit_is_paid_for", credit_is_paid_for),
    ("fixed_ends_stay", fixed_ends_stay),
    ("nothing_waits_for_ever", nothing_waits_for_ever),
    ("people_move_their_own", people::people_move_their_own),
    ("sellers_schedule_survives", people::sellers_schedule_survives),
    ("more_access_only_for_money", people::more_access_only_for_money),
    ("people_never_gain_credit", people::people_never_gain_credit),
    ("lines_add_up", discounts::lines_add_up),
    ("basis_never_changes", discounts::basis_never_changes),
    ("reduced_periods_are_counted", discounts::reduced_periods_are_counted),
    ("credit_within_paid", discounts::credit_within_paid),
    ("free_by_discount_continues", discounts::free_by_discount_continues),
    ("other_terms_end_it", discounts::other_terms_end_it),
];

/// Checks every invariant, or only the one that `only` names. The error names the first that does not hold.
pub fn check(life: &Life, policy: &Policy, only: Option<&str>) -> Result<(), Broken> {
    let checked = ALL.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
    checked.into_iter().try_for_each(|(name, holds)| {
        holds(life, policy)
            .map_err(|detail| Broken::new(name, format!("{detail}\n{}", life.story())))
    })
}

pub(super) fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// Started periods follow each other without overlap or gap unless an event says why: a change of plan that starts
/// a period, skipped periods, or a status in which no period starts.
fn periods_tile(life: &Life, _: &Policy) -> Result<(), String> {
    if !life.always_on_clock() {
        return Ok(());
    }
    let periods = life.periods();
    for two in periods.windows(2) {
        let [(first, start, end), (second, next, _)] = two else { continue };
        if second.changes_plan() {
            ensure(next >= start, || {
                format!("the period from {next} is before that from {start}")
            })?;
            continue;
        }
        let Some(end) = end else { return Err(format!("{next} after an endless period")) };
        ensure(next >= end, || format!("[{start}, {end}) overlaps the period from {next}"))?;
        if next == end {
            continue;
        }
        let between = life.versions.iter().filter(|written| {
            written.subscription.version > first.subscription.version
                && written.subscription.version <= second.subscription.version
        });
        let explained = between.into_iter().any(|written| match written.event.change {
            Change::PeriodsSkipped { .. } => true,
            Change::SubscriptionStatusChanged { from, .. } => {
                matches!(from, SubscriptionStatus::Paused | SubscriptionStatus::Unpaid)
            }
            _ => false,
        });
        ensure(explained, || format!("a gap from {end} to {next}"))?;
    }
    Ok(())
}

/// No period start has two live payments.
fn no_period_asked_twice(life: &Life, _: &Policy) -> Result<(), String> {
    let mut asked = BTreeSet::new();
    life.last_payments().filter_map(|payment| payment.claimed_period()).try_for_each(|start| {
        ensure(asked.insert(start), || format!("the period from {start} was asked for twice"))
    })
}

/// When a period starts, a payment is requested for price times quantity minus the discount and the used credit. No
/// payment is requested if that is 0.
fn every_period_is_asked_for(life: &Life, _: &Policy) -> Result<(), String> {
    for (nth, written) in life.versions.iter().enumerate() {
        let before = nth.checked_sub(1).and_then(|before| life.versions.get(before));
        let subscription = &written.subscription;
        if written.changes_plan() {
            ensure(asks_for_the_rest(written), || {
                format!("version {} asks for another period", subscription.version)
            })?;
            continue;
        }
        if let Some((_, payment)) = written.begins_to_wait(before) {
            let is_its = written.asked().is_some_and(|asked| is_awaited(asked, payment));
            ensure(is_its, || format!("version {} waits for nothing", subscription.version))?;
            continue;
        }
        if !written.starts_period(before) {
            ensure(written.asked().is_none(), || {
                format!("version {} asks, but starts no period", subscription.version)
            })?;
            continue;
        }
        let Some(billing) = &subscription.billing else { return Err("no billing".into()) };
        let credit_before = before.map_or(billing.credit.value(), |before| {
            before.subscription.credit().map_or(billing.credit.value(), Amount::value)
        });
        let value = billing.period_value.value();
        let used = credit_before - billing.credit.value();
        let asked = written.asked_amount();
        // A payment from before the clock took over, or from another system, also pays for a period.
        if written.asked().is_none() && written.has_payment {
            ensure(used.is_zero(), || {
                format!("version {}: credit {used} used, but paid", subscription.version)
            })?;
            continue;
        }
        // For a new subscription the earlier credit is not known. The used credit cannot be more than the value.
        let adds_up = if before.is_some() { asked == value - used } else { asked <= value };
        ensure(adds_up, || {
            format!(
                "version {}: asked {asked} of {value}, credit used {used}",
                subscription.version
            )
        })?;
        let terms = subscription.terms().ok_or("no terms")?;
        let discount = match before {
            Some(before) => before.subscription.discount(),
            None => subscription.discount().map(unused),
        };
        let price = of_period(&terms, discount, Decimal::ZERO).value;
        ensure(price == value, || {
            format!("version {}: value {value} of price {price}", subscription.version)
        })?;
        if let Some(asked) = written.asked().and_then(|payment| payment.asked.as_ref()) {
            ensure(Some(asked.period_start) == billing.current_period_start, || {
                format!("asked for {asked:?} in the period from {:?}", billing.current_period_start)
            })?;
            let of_period = asked.value.value() == value
                && asked.period_end == subscription.renews_at
                && asked.due_at == asked.period_start
                && asked.cycle == subscription.billing_cycle;
            ensure(of_period, || format!("{asked:?} is not for a period worth {value}"))?;
        }
    }
    Ok(())
}

/// True if a change of plan requests no payment, or a payment for the rest of the running period at its new value.
fn asks_for_the_rest(written: &Written) -> bool {
    let subscription = &written.subscription;
    let asked = written.asked().and_then(|payment| payment.asked.as_ref());
    asked.is_none_or(|asked| {
        let value = subscription.billing.as_ref().map(|billing| billing.period_value);
        asked.kind == PaymentKind::Proration
            && Some(asked.value) == value
            && Some(asked.period_start) >= subscription.period_start()
            && asked.period_end == subscription.renews_at
            && asked.due_at == asked.period_start
            && asked.cycle == subscription.billing_cycle
    })
}

/// Only periods and changes of plan use credit, and never more than the subscription has. Only an update or a change to
/// a lower price adds credit. A change of plan requests the new price minus the unused part of the old price and minus
/// the credit.
fn money_adds_up(life: &Life, _: &Policy) -> Result<(), String> {
    for (before, after) in life.pairs() {
        let (Some(had), Some(has)) = (before.subscription.credit(), after.subscription.credit())
        else {
            continue;
        };
        if let Some(awaited) = before.awaited().filter(|_| after.changes_plan()) {
            ensure(people::is_as_quoted(life, before, after, awaited), || {
                format!("version {} is not as quoted", after.subscription.version)
            })?;
            continue;
        }
        if after.changes_plan() {
            let version = after.subscription.version;
            let execution = life.executions.iter().find(|it| it.written == Some(version));
            let Some(execution) = execution else { return Err("a change by nobody".into()) };
            let expected = execution.expected(&before.subscription, &after.subscription);
            let billing = after.subscription.billing.as_deref();
            let moved = billing.map(|billing| Moved {
                asked: after.asked_amount(),
                credit: has.value(),
                period_value: billing.period_value.value(),
                period_start: billing.current_period_start,
            });
            ensure(moved == expected, || format!("{moved:?} is not {expected:?}\n{execution:?}"))?;
            continue;
        }
        // An update writes no payment and leaves the status as it is.
        let is_update = !after.by_clock()
            && after.payments.is_empty()
            && after.subscription.status == before.subscription.status;
        if had.value() == has.value() || is_update {
            continue;
        }
        // A payment that is given back reduces the credit that changes of plan have made from payments.
        let of_changes =
            before.subscription.billing.as_ref().map(|billing| billing.credit_of_changes.value());
        let taken = had.value() - has.value();
        let is_back = |payment: &Payment| {
            matches!(payment.status, PaymentStatus::Refunded | PaymentStatus::Canceled)
                && taken <= payment.amount.value()
        };
        let is_taken_back =
            Some(taken) <= of_changes && after.payments.iter().any(|payment| is_back(payment));
        let is_used = is_taken_back || after.starts_period(Some(before));
        ensure(has.value() < had.value() && is_used, || {
            format!("version {}: credit {had} became {has}", after.subscription.version)
        })?;
    }
    Ok(())
}

/// Periods start and end on the grid of the anchor.
fn on_the_grid(life: &Life, _: &Policy) -> Result<(), String> {
    for (written, start, end) in life.periods() {
        if written.subscription.billing_cycle == BillingCycle::ONE_TIME {
            continue;
        }
        let schedule = written.subscription.schedule();
        ensure(schedule.starts_at(start), || format!("{start} is not on {schedule:?}"))?;
        if let Some(end) = end {
            ensure(schedule.next_after(start) == Some(end), || {
                format!("[{start}, {end}) is no period of {schedule:?}")
            })?;
        }
    }
    Ok(())
}

/// A catch-up requests payments for at most the allowed number of missed periods and the running period.
fn skips_are_bounded(life: &Life, policy: &Policy) -> Result<(), String> {
    let mut at: Option<(Timestamp, u64)> = None;
    for written in life.versions.iter().filter(|written| written.by_clock()) {
        let renewal = |payment: &&Arc<Payment>| {
            payment.asked.as_ref().is_some_and(|asked| asked.kind == PaymentKind::Renewal)
        };
        // A payment for the first period is always requested.
        let Some(payment) = written.asked().filter(renewal) else { continue };
        let count = match at {
            Some((moment, count)) if moment == payment.created_at => count + 1,
            _ => 1,
        };
        at = Some((payment.created_at, count));
        ensure(count <= policy.missed_periods_max.get() + 1, || {
            format!("{count} periods asked for at {}", payment.created_at)
        })?;
    }
    Ok(())
}

/// The stored time of a subscription's next step equals the computed time.
fn next_action_is_true(life: &Life, policy: &Policy) -> Result<(), String> {
    life.versions.iter().map(|written| &written.subscription).try_for_each(|version| {
        let expected = match version.managed_by {
            ManagedBy::Clock => next_action_at(version, policy),
            ManagedBy::Caller | ManagedBy::Provider => None,
        };
        ensure(version.next_action_at() == expected, || {
            let stored = version.next_action_at();
            format!("version {}: {stored:?} is stored, {expected:?} is true", version.version)
        })
    })
}

/// The status is that of the last event, and access follows from the status.
fn access_is_history(life: &Life, _: &Policy) -> Result<(), String> {
    for (before, after) in life.pairs() {
        let told = match after.event.change {
            Change::SubscriptionStatusChanged { from, to } => {
                ensure(from == before.subscription.status, || format!("{from} was not so"))?;
                to
            }
            _ => before.subscription.status,
        };
        let subscription = &after.subscription;
        ensure(told == subscription.status, || {
            format!("version {} is {}, told {told}", subscription.version, subscription.status)
        })?;
        let grants = subscription.status.grants_access()
            && !subscription.blocked
            && subscription.phase_at(subscription.updated_at) == Phase::Current;
        ensure(grants == subscription.is_active, || {
            format!("version {}: is_active {}", subscription.version, subscription.is_active)
        })?;
    }
    Ok(())
}

/// While a payment is behind, the subscription is not active. If the subscription is past due, a payment is behind.
fn behind_means_past_due(life: &Life, _: &Policy) -> Result<(), String> {
    let Some(now) = life.now().filter(|_| life.always_on_clock() && !life.deleted) else {
        return Ok(());
    };
    if now.status == SubscriptionStatus::Expired {
        return Ok(());
    }
    let behind = life.last_payments().any(|payment| payment.is_behind());
    ensure(!(behind && now.status == SubscriptionStatus::Active), || {
        "active with a payment behind".into()
    })?;
    ensure(behind || now.status != SubscriptionStatus::PastDue, || {
        "past due with nothing behind".into()
    })?;
    ensure(behind == now.past_due_since().is_some(), || {
        format!("behind: {behind}, past due since {:?}", now.past_due_since())
    })
}

/// A payment for a renewal or for the rest of a period is requested only in the status `active`.
fn no_asking_while_off(life: &Life, _: &Policy) -> Result<(), String> {
    life.versions.iter().try_for_each(|written| {
        let asked = written.asked().and_then(|payment| payment.asked.as_ref());
        let is_later = asked.is_some_and(|asked| asked.kind != PaymentKind::Initial);
        ensure(!is_later || written.subscription.status == SubscriptionStatus::Active, || {
            format!("a payment asked for while {}", written.subscription.status)
        })
    })
}

/// A failed payment is retried by the schedule, or at the time that its report sets. It is not retried more often or
/// earlier.
fn retries_keep_the_schedule(life: &Life, policy: &Policy) -> Result<(), String> {
    for (id, versions) in &life.payments {
        for (before, after) in versions.iter().zip(versions.iter().skip(1)) {
            let (Some(was), Some(is)) = (&before.asked, &after.asked) else { continue };
            let failed = |payment: &Payment| payment.status == PaymentStatus::Failed;
            if failed(after) && !failed(before) {
                let span = policy.dunning.next(is.retries);
                let by_schedule = span.and_then(|span| span.after(after.updated_at));
                let is_off = || {
                    life.was(after.updated_at, |version| {
                        let off = [SubscriptionStatus::Pending, SubscriptionStatus::Expired];
                        version.managed_by != ManagedBy::Clock || off.contains(&version.status)
                    })
                };
                let kept = is.next_attempt_at == by_schedule
                    || life.sent.contains(&(*id, is.next_attempt_at))
                    || is.next_attempt_at.is_none() && (life.deleted || is_off());
                ensure(kept, || format!("{is:?} failed at {}", after.updated_at))?;
            }
            let retried = before.status == PaymentStatus::Failed
                && after.status == PaymentStatus::Pending
                && is.retries > was.retries;
            if retried {
                let due = was.next_attempt_at.is_some_and(|at| at <= after.updated_at);
                ensure(due && Some(is.due_at) == was.next_attempt_at, || {
                    format!("{was:?} was retried at {} as {is:?}", after.updated_at)
                })?;
                ensure(is.attempt == was.attempt + 1, || format!("{was:?} became {is:?}"))?;
            }
        }
    }
    Ok(())
}

/// A subscription becomes past due only by the report of a failed payment. Time alone can only bring an active
/// subscription to a pause or an end that was set before.
fn silence_changes_nothing(life: &Life, _: &Policy) -> Result<(), String> {
    life.pairs().try_for_each(|(before, after)| {
        let Change::SubscriptionStatusChanged { from: SubscriptionStatus::Active, to } =
            after.event.change
        else {
            return Ok(());
        };
        let was = &before.subscription;
        let failed = |payment: &Arc<Payment>| payment.status == PaymentStatus::Failed;
        let told = match to {
            SubscriptionStatus::PastDue => !after.by_clock() && after.payments.iter().any(failed),
            SubscriptionStatus::Paused => !after.by_clock() || was.scheduled_change().is_some(),
            SubscriptionStatus::Expired => !after.by_clock() || was.ends_at.is_some(),
            SubscriptionStatus::Cancelled => !after.by_clock(),
            _ => false,
        };
        ensure(told, || format!("version {} became {to} in silence", after.subscription.version))
    })
}

/// After the status `expired` there is no step and no new payment.
fn ended_means_ended(life: &Life, _: &Policy) -> Result<(), String> {
    ensure(life.late_payments == 0, || "a payment after the end".into())?;
    let expired = |written: &Written| written.subscription.status == SubscriptionStatus::Expired;
    for (before, after) in life.pairs().filter(|(before, _)| expired(before)) {
        ensure(!after.by_clock(), || {
            format!("version {} is a step after the end", after.subscription.version)
        })?;
        ensure(expired(after), || format!("{:?} came back", before.subscription.version))?;
        ensure(after.subscription.next_action_at().is_none(), || "due after the end".into())?;
    }
    Ok(())
}

/// A subscription that ends with immediate effect has no open payment.
fn cancel_wins(life: &Life, _: &Policy) -> Result<(), String> {
    for (before, after) in life.pairs() {
        let at_once = before.subscription.status != SubscriptionStatus::Expired
            && after.subscription.status == SubscriptionStatus::Expired
            && before.subscription.managed_by == ManagedBy::Clock
            && !after.by_clock();
        // A subscriber who cancels still owes open payments.
        let is_left = life.left.contains(&after.subscription.version);
        ensure(!at_once || is_left || after.open == 0, || {
            format!("{} open payments after the subscription was cancelled", after.open)
        })?;
    }
    Ok(())
}

/// The clock writes only subscriptions that it manages.
fn callers_are_left_alone(life: &Life, _: &Policy) -> Result<(), String> {
    life.pairs().try_for_each(|(before, after)| {
        ensure(!after.by_clock() || before.subscription.managed_by == ManagedBy::Clock, || {
            format!("the clock wrote version {}", after.subscription.version)
        })
    })
}

/// A step is one version with one event.
fn a_step_is_one_event(life: &Life, _: &Policy) -> Result<(), String> {
    life.pairs().try_for_each(|(before, after)| {
        ensure(
            after.events == 1
                && after.subscription.version == before.subscription.version.next()
                && after.event.version == after.subscription.version,
            || format!("version {} has {} events", after.subscription.version, after.events),
        )
    })
}

/// A subscriber gets one reminder for each renewal, before the renewal.
fn reminders_once(life: &Life, _: &Policy) -> Result<(), String> {
    // A subscription that callers managed in between may get a second reminder.
    if !life.always_on_clock() {
        return Ok(());
    }
    let mut reminded = BTreeSet::new();
    life.versions.iter().try_for_each(|written| {
        let of = match written.event.change {
            Change::TrialWillEnd { trial_ends_at } => trial_ends_at,
            Change::RenewalUpcoming { renews_at } => renews_at,
            _ => return Ok(()),
        };
        ensure(reminded.insert(of), || format!("reminded twice of {of}"))?;
        ensure(written.event.at < of, || format!("reminded of {of} at {}", written.event.at))
    })
}

/// Two payments that are not cancelled never have the same charge key. A period has one key for ever, even if a backup
/// was restored and the payment was requested again.
fn no_key_twice(life: &Life, _: &Policy) -> Result<(), String> {
    for ((kind, start), keys) in &life.keys {
        ensure(keys.len() == 1, || format!("{kind} from {start} has the keys {keys:?}"))?;
    }
    let mut seen = BTreeSet::new();
    let kept = life.last_payments().filter(|payment| payment.status != PaymentStatus::Canceled);
    kept.filter_map(|payment| payment.charge_key())
        .try_for_each(|key| ensure(seen.insert(key), || format!("two payments have the key {key}")))
}

/// No part of a period is settled twice: the moment of a change of plan is never before that of the previous change.
fn credit_is_paid_for(life: &Life, _: &Policy) -> Result<(), String> {
    let mut settled = None;
    for (before, after) in life.pairs().filter(|(_, after)| after.changes_plan()) {
        let version = Some(after.subscription.version);
        let Some(execution) = life.executions.iter().find(|it| it.written == version) else {
            continue;
        };
        if !execution.settles(&before.subscription) {
            continue;
        }
        ensure(settled <= Some(execution.at), || {
            format!("a change for {} after one for {settled:?}", execution.at)
        })?;
        settled = Some(execution.at);
    }
    Ok(())
}

/// A resumed subscription has the end and the scheduled change that it had before it was cancelled.
fn fixed_ends_stay(life: &Life, _: &Policy) -> Result<(), String> {
    let on_clock = |written: &Written| written.subscription.managed_by == ManagedBy::Clock;
    let scheduled = |written: &Written| {
        written.subscription.billing.as_ref().and_then(|billing| billing.scheduled_change)
    };
    let mut found = None;
    for (before, after) in life.pairs() {
        let (was, is) = (&before.subscription, &after.subscription);
        if !on_clock(before) || !on_clock(after) {
            found = None;
        } else if is.status == SubscriptionStatus::Cancelled && was.status != is.status {
            // A change that waits for its payment is made or dropped meanwhile.
            let is_fixed = before.awaited().is_none();
            found = is_fixed.then(|| (was.ends_at, scheduled(before)));
        }
        let resumes = was.status == SubscriptionStatus::Cancelled
            && matches!(is.status, SubscriptionStatus::Active | SubscriptionStatus::OnTrial);
        if let Some((ends_at, change)) = found.filter(|_| resumes) {
            ensure(is.ends_at == ends_at && scheduled(after) == change, || {
                format!("version {}: {:?} ended at {ends_at:?} before", is.version, is.ends_at)
            })?;
        }
    }
    Ok(())
}

/// A subscription that is past due has a future step of the clock, or a payment that must be collected.
fn nothing_waits_for_ever(life: &Life, _: &Policy) -> Result<(), String> {
    let Some(now) = life.now().filter(|_| !life.deleted) else { return Ok(()) };
    if now.managed_by != ManagedBy::Clock || now.status != SubscriptionStatus::PastDue {
        return Ok(());
    }
    let is_ahead = life.last_payments().any(|payment| payment.action_at().is_some());
    ensure(is_ahead || now.next_action_at().is_some(), || {
        format!("version {} is past due for ever", now.version)
    })
}
