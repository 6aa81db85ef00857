//! Invariants of the life of a subscription that the clock bills. They read only its writes and payments.
//!
//! | invariant | says |
//! | --- | --- |
//! | [`periods_tile`] | a period starts where the previous one ended, unless it is restarted or periods are skipped |
//! | [`no_period_is_asked_twice`] | no period start has two live initial or renewal payments |
//! | [`every_period_is_asked_for`] | the payment for a period is its value minus used credit; none if that is 0 |
//! | [`money_adds_up`] | requested + used credit = value of the periods + positive nets; credit = given - used |
//! | [`lines_add_up`] | the lines are those that the record before the step leads to, and add up to the amount |
//! | [`basis_never_changes`] | no report and no retry changes what an amount was computed from |
//! | [`reduced_periods_are_counted`] | the discount counts the started periods that it reduced, and nothing else |
//! | [`preview_is_execution`] | the payment, the credit and the start of a change of plan are those of its quote |
//! | [`on_the_grid`] | a period starts a whole number of cycles after the anchor, and is one cycle long |
//! | [`skips_are_bounded`] | a catch-up bills at most the maximum of missed periods and the running one |
//! | [`nothing_due_rests`] | no step is due |
//! | [`next_action_is_true`] | the stored next step is the computed one; versions, times, access are right |
//! | [`behind_means_past_due`] | a subscription is never active with a payment behind, nor past due without one |
//! | [`no_asking_while_off`] | a payment for a renewal is requested only in the status `active` |
//! | [`ended_means_ended`] | there is no step and no payment after `expired` |
//! | [`reminders_come_once`] | there is one reminder for each renewal, before the renewal |

use std::collections::BTreeSet;

use rust_decimal::Decimal;
use subscription_core::billing::{Policy, next_action_at, step};
use subscription_core::events::Change;
use subscription_core::payments::PaymentKind;
use subscription_core::{
    BillingCycle, Currency, LineKind, Payment, PaymentRequest, Quote, StepKind, Subscription,
    SubscriptionStatus, Timestamp,
};

use super::amounts::{
    Charged, adds_up, line, of_change, of_next_period, of_period, off_by, reduction, rows, sum,
    unused,
};
use super::life::{By, Life, Write};
use crate::simulation::invariants::Broken;

type Verdict = Result<(), Broken>;

/// Checks every invariant of a life.
pub fn all(life: &Life) -> Verdict {
    let Life { writes, payments, policy, .. } = life;
    periods_tile(writes)?;
    no_period_is_asked_twice(payments)?;
    every_period_is_asked_for(writes)?;
    money_adds_up(writes, payments)?;
    lines_add_up(writes)?;
    basis_never_changes(writes, payments)?;
    reduced_periods_are_counted(writes)?;
    preview_is_execution(writes)?;
    on_the_grid(writes)?;
    skips_are_bounded(writes, policy)?;
    nothing_due_rests(&life.subscription, policy, life.now)?;
    next_action_is_true(writes, policy)?;
    behind_means_past_due(&life.subscription, payments)?;
    no_asking_while_off(writes)?;
    ended_means_ended(writes)?;
    reminders_come_once(writes)
}

fn broken(invariant: &'static str, detail: &impl std::fmt::Debug) -> Verdict {
    Err(Broken::new(invariant, format!("{detail:#?}")))
}

fn period_start(subscription: &Subscription) -> Option<Timestamp> {
    subscription.billing.as_ref().and_then(|billing| billing.current_period_start)
}

fn credit(subscription: &Subscription) -> Decimal {
    subscription.credit().unwrap_or_default().value()
}

/// The value of a period: price times quantity, less the discount if it has reduced the period.
fn value(subscription: &Subscription) -> Decimal {
    let gross = subscription.price().unwrap().value() * Decimal::from(subscription.quantity.get());
    let applied = subscription.discount().filter(|discount| discount.applied);
    let digits = subscription.currency().map_or(0, Currency::digits);
    applied.map_or(gross, |discount| gross - reduction(discount.off, gross, digits))
}

/// The writes that start a period or a trial.
fn starts(writes: &[Write]) -> impl Iterator<Item = &Write> {
    writes.iter().filter(|write| {
        let before = write.before.as_ref().and_then(period_start);
        period_start(&write.after).is_some_and(|start| Some(start) != before)
    })
}

/// The writes that start a period whose full price must be paid. Excluded are trials, the running period of an imported
/// subscription, and changes of plan.
fn paid_starts(writes: &[Write]) -> impl Iterator<Item = (&Write, Timestamp)> {
    starts(writes)
        .filter(|write| write.after.status != SubscriptionStatus::OnTrial)
        .filter(|write| write.by != By::Create || write.ask.is_some())
        .filter(|write| write.by != By::PlanChange)
        .map(|write| (write, period_start(&write.after).unwrap()))
}

pub fn periods_tile(writes: &[Write]) -> Verdict {
    let mut expected = None;
    let mut last_start = None;
    for write in writes {
        let start = period_start(&write.after);
        if let Some(quote) = &write.quote {
            // A change of plan may begin a period, or move the end of a period that has not begun.
            let moved = (quote.period_start, quote.renews_at) != (last_start, expected);
            let begins = start == Some(write.now) && start >= last_start;
            let fits = !moved || begins || write.after.status == SubscriptionStatus::Pending;
            if !fits || (start.is_some() && start != quote.period_start) {
                return broken("periods_tile", &(expected, write));
            }
            last_start = start;
            expected = start.and(write.after.renews_at);
            continue;
        }
        if start != last_start {
            let fits = expected.is_none() || start == expected;
            if !fits || start <= last_start {
                return broken("periods_tile", &(expected, write));
            }
            last_start = start;
            expected = write.after.renews_at;
            continue;
        }
        // The end of the running period changes only in a write whose event says so.
        let skipped = matches!(write.change, Change::PeriodsSkipped { .. });
        let restarted =
            write.before.as_ref().is_some_and(|it| it.anchor_at != write.after.anchor_at);
        let trial_moved = write
            .before
            .as_ref()
            .is_some_and(|it| it.trial_ends_at() != write.after.trial_ends_at());
        if skipped || restarted || trial_moved {
            let back = write.after.renews_at < expected && !trial_moved;
            if back || (skipped && !skips_whole_periods(write)) {
                return broken("periods_tile", &(expected, write));
            }
            expected = write.after.renews_at;
        } else if start.is_some() && write.after.renews_at != expected {
            return broken("periods_tile", &(expected, write));
        }
    }
    Ok(())
}

/// True if the number of periods between the two renewals is the number that the event says.
fn skips_whole_periods(write: &Write) -> bool {
    let (Change::PeriodsSkipped { count }, Some(before)) = (&write.change, &write.before) else {
        return false;
    };
    let mut at = before.renews_at;
    for _ in 0..*count {
        at = at.and_then(|at| before.schedule().next_after(at));
    }
    at == write.after.renews_at
}

pub fn no_period_is_asked_twice(payments: &[Payment]) -> Verdict {
    let mut seen = BTreeSet::new();
    for payment in payments {
        if payment.claimed_period().is_some_and(|start| !seen.insert(start)) {
            return broken("no_period_is_asked_twice", payment);
        }
    }
    Ok(())
}

pub fn every_period_is_asked_for(writes: &[Write]) -> Verdict {
    for (write, start) in paid_starts(writes) {
        let Write { after, ask, .. } = write;
        let credit_before = write.before.as_ref().map_or(Decimal::ZERO, credit);
        let value = value(after);
        let used = if write.before.is_some() { credit_before.min(value) } else { Decimal::ZERO };
        let asked = |ask: &PaymentRequest| {
            ask.amount.value() + used == value
                && ask.value.value() == value
                && ask.amount.fraction_digits() == ask.currency.digits()
                && (ask.period_start, ask.period_end) == (start, after.renews_at)
                && (ask.due_at, ask.cycle) == (start, after.billing_cycle)
        };
        let right = match ask {
            Some(ask) if write.before.is_none() => {
                ask.amount.value() <= value && ask.period_start == start
            }
            Some(ask) => asked(ask) && value > used,
            None => value == used,
        };
        let period_value = after.billing.as_ref().unwrap().period_value;
        if !right || period_value.value() != value {
            return broken("every_period_is_asked_for", write);
        }
    }
    let of_change = |write: &&Write| write.by == By::PlanChange;
    let asks = writes.iter().filter(|write| write.ask.is_some() && !of_change(write)).count();
    let of_periods = paid_starts(writes).filter(|(write, _)| write.ask.is_some()).count();
    if asks != of_periods {
        return broken("every_period_is_asked_for", &(asks, of_periods));
    }
    Ok(())
}

pub fn money_adds_up(writes: &[Write], payments: &[Payment]) -> Verdict {
    let asked: Decimal = payments.iter().map(|payment| payment.amount.value()).sum();
    let (mut values, mut used) = (Decimal::ZERO, Decimal::ZERO);
    for write in writes {
        let is_start = paid_starts(std::slice::from_ref(write)).next().is_some();
        if is_start {
            values += value(&write.after);
        }
        let before = match &write.before {
            Some(before) => credit(before),
            // At creation, the credit that the caller sent is the credit that is left plus the credit that was used at
            // once.
            None => credit(&write.after) + used_at_once(write),
        };
        let less = before - credit(&write.after);
        let net = write.quote.as_ref().map_or(Decimal::ZERO, net);
        if is_start || net > Decimal::ZERO {
            values += net;
            used += less;
        } else if write.quote.is_some() {
            // A change of plan gave this credit.
            if less != net {
                return broken("money_adds_up", write);
            }
        } else if write.by != By::Update && !less.is_zero() && !is_taken_back(write, less) {
            return broken("money_adds_up", write);
        }
    }
    let owes = writes.iter().any(|write| credit(&write.after) < Decimal::ZERO);
    if asked + used != values || used < Decimal::ZERO || owes {
        return broken("money_adds_up", &(asked, used, values));
    }
    Ok(())
}

/// True if the credit fell because a payment was given back. It may fall by at most the credit that changes of plan
/// have made from payments.
fn is_taken_back(write: &Write, less: Decimal) -> bool {
    let billing = write.before.as_ref().and_then(|before| before.billing.as_ref());
    let of_changes = billing.map_or(Decimal::ZERO, |billing| billing.credit_of_changes.value());
    write.by == By::Report && less > Decimal::ZERO && less <= of_changes
}

/// The charges of a quote minus the unused part of the old period, before the balance.
pub fn net(quote: &Quote) -> Decimal {
    let mut rows = rows(&quote.lines);
    rows.retain(|(kind, _)| *kind != LineKind::Balance);
    sum(&rows)
}

/// The charge that a write must make, computed from the record before it. `None` if it charges nothing: it neither
/// starts a period that must be paid nor settles a change of plan.
fn expected(write: &Write) -> Option<Charged> {
    let after = &write.after;
    let terms = after.terms()?;
    if let (Some(quote), Some(before)) = (&write.quote, &write.before) {
        return of_change(before, &terms, quote.at).filter(|_| !quote.lines.is_empty());
    }
    paid_starts(std::slice::from_ref(write)).next()?;
    if let Some(before) = &write.before {
        return of_next_period(before);
    }
    // The credit before a creation is the credit that is left, and what the first payment has used.
    let used = write.ask.as_ref().map_or(Vec::new(), |ask| rows(&ask.basis.lines()));
    let before = credit(after) + line(&used, LineKind::Balance);
    Some(of_period(&terms, after.discount().map(unused), before))
}

pub fn lines_add_up(writes: &[Write]) -> Verdict {
    for write in writes {
        if let Some(quote) = &write.quote
            && (!adds_up(quote)
                || expected(write).is_some_and(|charged| charged.lines != rows(&quote.lines)))
        {
            return broken("lines_add_up", write);
        }
        let Some(ask) = &write.ask else { continue };
        let Some(charged) = expected(write) else { return broken("lines_add_up", write) };
        let basis = &ask.basis;
        let lines = rows(&basis.lines());
        let terms = write.after.terms();
        let of_terms = terms.is_some_and(|terms| {
            (basis.plan, basis.price.value(), basis.quantity)
                == (terms.subscription_plan_id, terms.price.value(), terms.quantity.get())
        });
        let right = of_terms
            && sum(&lines) == ask.amount.value()
            && lines == charged.lines
            && basis.discount == off_by(&lines, charged.discount);
        if !right {
            return broken("lines_add_up", &(charged, write));
        }
    }
    Ok(())
}

pub fn basis_never_changes(writes: &[Write], payments: &[Payment]) -> Verdict {
    let asked = writes.iter().filter_map(|write| write.ask.as_ref());
    for (ask, payment) in asked.zip(payments) {
        let basis = payment.asked.as_ref().and_then(|asked| asked.basis.as_ref());
        if basis != Some(&ask.basis) {
            return broken("basis_never_changes", &(ask, payment));
        }
    }
    Ok(())
}

pub fn reduced_periods_are_counted(writes: &[Write]) -> Verdict {
    for write in writes {
        let after = write.after.discount();
        let before = write.before.as_ref().and_then(Subscription::discount);
        let right = match expected(write) {
            Some(charged) => after == charged.discount,
            // A discount that was just given has reduced nothing yet. Every other write drops the discount, or leaves
            // it as it is.
            None => match (before, after) {
                (_, None) => true,
                (Some(before), Some(after)) => before == after,
                (None, Some(given)) => write.before.is_none() || given == unused(given),
            },
        };
        if !right || after.is_some_and(|it| it.periods.is_some_and(|periods| it.used > periods)) {
            return broken("reduced_periods_are_counted", write);
        }
    }
    Ok(())
}

pub fn preview_is_execution(writes: &[Write]) -> Verdict {
    for write in writes {
        let Write { before: Some(before), after, ask, quote: Some(quote), .. } = write else {
            if write.by == By::PlanChange {
                return broken("preview_is_execution", write);
            }
            continue;
        };
        let asked = ask.as_ref().map_or(Decimal::ZERO, |ask| ask.amount.value());
        let period_value = |it: &Subscription| it.billing.as_ref().unwrap().period_value.value();
        let settles = !quote.lines.is_empty();
        let right = asked == quote.amount_due.value()
            && ask.is_some() != asked.is_zero()
            && credit(before) == quote.credit_before.value()
            && credit(after) == quote.credit_after.value()
            && after.renews_at == quote.renews_at
            && period_value(after) == if settles { value(after) } else { period_value(before) };
        let ask_right = ask.as_ref().is_none_or(|ask| {
            ask.kind == PaymentKind::Proration
                && (ask.period_start, ask.period_end) == (quote.at, quote.period_end)
                && (ask.due_at, ask.cycle) == (quote.at, after.billing_cycle)
                && ask.value.value() == value(after)
                && (ask.amount.fraction_digits(), ask.currency)
                    == (quote.currency.digits(), quote.currency)
        });
        if !right || !ask_right {
            return broken("preview_is_execution", write);
        }
    }
    Ok(())
}

fn used_at_once(write: &Write) -> Decimal {
    write.ask.as_ref().map_or(Decimal::ZERO, |ask| ask.value.value() - ask.amount.value())
}

pub fn on_the_grid(writes: &[Write]) -> Verdict {
    for write in starts(writes) {
        let (after, start) = (&write.after, period_start(&write.after).unwrap());
        let is_first = start == after.starts_at;
        if !is_first && after.billing_cycle != BillingCycle::ONE_TIME {
            let anchor = after.anchor_at.unwrap_or(after.starts_at);
            let on_grid = after.schedule().starts_at(start) && anchor <= start;
            let whole = after.renews_at == after.schedule().next_after(start);
            if !on_grid || !whole {
                return broken("on_the_grid", write);
            }
        }
    }
    Ok(())
}

pub fn skips_are_bounded(writes: &[Write], policy: &Policy) -> Verdict {
    let max = usize::try_from(policy.missed_periods_max.get()).unwrap();
    let mut rounds: Vec<Vec<&Write>> = Vec::new();
    for write in writes {
        match rounds.last_mut() {
            Some(round) if round.first().is_some_and(|it| it.round == write.round) => {
                round.push(write);
            }
            _ => rounds.push(vec![write]),
        }
    }
    for round in rounds {
        let started = |write: &&&Write| matches!(write.by, By::Step(StepKind::PeriodStarted, _));
        if round.iter().filter(started).count() > max + 1 {
            return broken("skips_are_bounded", &round);
        }
    }
    Ok(())
}

pub fn nothing_due_rests(subscription: &Subscription, policy: &Policy, now: Timestamp) -> Verdict {
    let due = step(subscription, policy, now);
    let looked_at = subscription.next_action_at().is_some_and(|at| at <= now);
    if due.is_some() || looked_at { broken("nothing_due_rests", &(due, now)) } else { Ok(()) }
}

pub fn next_action_is_true(writes: &[Write], policy: &Policy) -> Verdict {
    for write in writes {
        let Write { before, after, now, .. } = write;
        let stored = after.next_action_at();
        let versions = before.as_ref().is_none_or(|before| {
            after.version == before.version.next()
                && after.updated_at == before.updated_at.max(*now)
        });
        let right = stored == next_action_at(after, policy)
            && after.is_active == after.is_active_at(*now)
            && versions;
        if !right {
            return broken("next_action_is_true", write);
        }
    }
    Ok(())
}

pub fn behind_means_past_due(subscription: &Subscription, payments: &[Payment]) -> Verdict {
    let behind = payments.iter().any(Payment::is_behind);
    let is = |status| subscription.status == status;
    let right =
        if behind { !is(SubscriptionStatus::Active) } else { !is(SubscriptionStatus::PastDue) };
    if right { Ok(()) } else { broken("behind_means_past_due", &(subscription, payments)) }
}

pub fn no_asking_while_off(writes: &[Write]) -> Verdict {
    for write in writes {
        let renews = write.ask.as_ref().is_some_and(|ask| ask.kind == PaymentKind::Renewal);
        if renews && write.after.status != SubscriptionStatus::Active {
            return broken("no_asking_while_off", write);
        }
    }
    Ok(())
}

pub fn ended_means_ended(writes: &[Write]) -> Verdict {
    for write in writes {
        let ended = write
            .before
            .as_ref()
            .is_some_and(|before| before.status == SubscriptionStatus::Expired);
        let acts = matches!(write.by, By::Step(..)) || write.ask.is_some();
        if ended && (acts || write.after.status != SubscriptionStatus::Expired) {
            return broken("ended_means_ended", write);
        }
    }
    Ok(())
}

pub fn reminders_come_once(writes: &[Write]) -> Verdict {
    let mut seen = BTreeSet::new();
    for write in writes {
        let (Change::TrialWillEnd { trial_ends_at: at }
        | Change::RenewalUpcoming { renews_at: at }) = write.change
        else {
            continue;
        };
        if !seen.insert(at) || write.now >= at || write.after.renews_at != Some(at) {
            return broken("reminders_come_once", write);
        }
    }
    Ok(())
}
