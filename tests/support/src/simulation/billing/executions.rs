//! The changes of plan in a life, with the previews before them. This module computes what each change must cost, and
//! which kinds of change a life had.

use std::collections::BTreeSet;

use rust_decimal::Decimal;
use subscription_core::events::{Actor, Change};
use subscription_core::subscriptions::{ScheduledChange, Terms};
use subscription_core::{
    Amount, BillingCycle, Effective, PaymentKind, PlanChange, Proration, Quote, Subscription,
    SubscriptionStatus, Timestamp, Version,
};

use super::life::{Life, PeriodStart as _, Written};
use crate::billing::amounts::{credit, of_change};

/// A change of plan, or a refused attempt.
#[derive(Debug, Clone)]
pub struct Execution {
    pub change: PlanChange,
    /// The moment for which the applied quote was computed.
    pub at: Timestamp,
    /// The preview before the change, or the error code of a refused preview. `None` if there was no preview.
    pub preview: Option<Result<Quote, &'static str>>,
    /// The events between the preview and the execution.
    pub meanwhile: Meanwhile,
    /// The error code if the change was refused, else `None`.
    pub refused: Option<&'static str>,
    /// The version of the subscription that the change wrote. `None` if it wrote nothing.
    pub written: Option<Version>,
}

/// The events between a preview and its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// Nothing at all.
    Nothing,
    /// Time passes.
    Time,
    /// The plan, the subscription or its payments may change.
    Changes,
}

/// The money that a change of plan moves.
#[derive(Debug, PartialEq, Eq)]
pub struct Moved {
    pub asked: Decimal,
    pub credit: Decimal,
    pub period_value: Decimal,
    /// The start of the running period. It may start with the change.
    pub period_start: Option<Timestamp>,
}

impl Execution {
    /// True if the change settles the running period up to its moment.
    pub fn settles(&self, before: &Subscription) -> bool {
        before.status == SubscriptionStatus::Active
            && self.change.effective == Effective::Now
            && self.change.proration == Proration::Prorated
    }

    /// The money that the change must move, computed without the rules of billing. `None` if the subscription has no
    /// billing state or price.
    pub fn expected(&self, before: &Subscription, after: &Subscription) -> Option<Moved> {
        let was = before.billing.as_deref()?;
        let (old, credit) = (was.period_value.value(), was.credit.value());
        if !self.settles(before) {
            let (asked, period_start) = (Decimal::ZERO, before.period_start());
            return Some(Moved { asked, credit, period_value: old, period_start });
        }
        let charged = of_change(before, &after.terms()?, self.at)?;
        let period_start = if charged.restarts { Some(self.at) } else { before.period_start() };
        Some(Moved {
            asked: charged.amount,
            credit: charged.credit,
            period_value: charged.value,
            period_start,
        })
    }
}

/// Checks that a preview and its execution agree: the requested amount, the credit, the next renewal, and the amount
/// that is then requested if nothing else happens before. If the preview is refused, the execution must be refused with
/// the same code.
pub fn preview_is_execution(life: &Life) -> Result<(), String> {
    for execution in &life.executions {
        let Some(preview) = &execution.preview else { continue };
        // If callers manage the subscription, a preview gives them the price, but they charge it themselves.
        if execution.refused == Some("managed_by_caller") {
            continue;
        }
        let at_once = execution.meanwhile == Meanwhile::Nothing;
        match (preview, execution.refused) {
            (Ok(quote), None) if at_once || execution.change.agreed.is_some() => {
                compare(life, execution, quote)
                    .map_err(|wrong| format!("{wrong}\n{execution:#?}"))?;
            }
            (Ok(_), Some(code)) | (&Err(code), None) if at_once => {
                return Err(format!("one of the two was refused: {code}\n{execution:#?}"));
            }
            (&Err(code), Some(other)) if at_once && code != other => {
                return Err(format!("{code} is not {other}\n{execution:#?}"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn compare(life: &Life, execution: &Execution, quote: &Quote) -> Result<(), String> {
    let same = |what: &str, holds: bool| {
        if holds { Ok(()) } else { Err(format!("{what} is not as quoted")) }
    };
    let due = quote.amount_due.value();
    let Some(version) = execution.written else {
        let free = quote.lines.is_empty() && due.is_zero();
        return same("nothing written", free && quote.credit_before == quote.credit_after);
    };
    let Some(nth) = life.versions.iter().position(|it| it.subscription.version == version) else {
        return Err(format!("no version {version}"));
    };
    let (_, later) = life.versions.split_at(nth);
    let Some((written, later)) = later.split_first() else { return Ok(()) };
    let subscription = &written.subscription;
    same("the amount", written.asked_amount() == due)?;
    if let Some(asked) = written.asked().and_then(|payment| payment.asked.as_ref()) {
        // A forged quote may name another moment. If the change starts a period, it may cost the same then.
        let is_forged = execution.at != quote.at;
        same("the period", is_forged || asked.period_end == quote.period_end)?;
        same("the kind", asked.kind == PaymentKind::Proration)?;
    }
    if let Some((terms, _)) = written.awaited() {
        return same("the terms", Terms { price: quote.price, ..terms } == quote.terms());
    }
    // After other changes, the price or the end of the trial may differ, if no amount of the agreed quote changes.
    let changes = execution.meanwhile == Meanwhile::Changes;
    if !changes {
        same("the renewal", subscription.renews_at == quote.renews_at)?;
        same("the credit", credit(subscription) == quote.credit_after.value())?;
        let terms = terms_after(subscription).ok_or("no terms")?;
        let price = terms.price.value() == quote.price.value();
        same("the terms", price && Terms { price: quote.price, ..terms } == quote.terms())?;
        let runs = subscription.status == SubscriptionStatus::Active;
        same("the start", !runs || subscription.current_period_start() == quote.period_start)?;
    }
    next_ask(written, later, quote, changes)
}

/// Checks that the payment for the next period has the amount of the quote, if only the clock writes until then.
fn next_ask(
    written: &Written,
    later: &[Written],
    quote: &Quote,
    any_time: bool,
) -> Result<(), String> {
    let mut before = written;
    let mut skipped = any_time;
    for after in later {
        let goes_on = matches!(
            after.subscription.status,
            SubscriptionStatus::Pending | SubscriptionStatus::OnTrial | SubscriptionStatus::Active
        );
        if !after.by_clock() || !goes_on {
            return Ok(());
        }
        skipped |= matches!(after.event.change, Change::PeriodsSkipped { .. });
        if after.starts_period(Some(before)) {
            // The period was paid through another system, so no payment is requested.
            if after.asked().is_none() && after.has_payment {
                return Ok(());
            }
            let start = after.subscription.current_period_start();
            // A change that was scheduled before the start is executed after the first period.
            if quote.effective == Effective::PeriodEnd && start < quote.renews_at {
                before = after;
                continue;
            }
            let in_time = start == quote.renews_at
                || skipped
                || quote.effective == Effective::Now
                    && written.subscription.status == SubscriptionStatus::Pending;
            let asked = after.asked_amount();
            let expected = quote.next_amount.map(Amount::value);
            if !in_time || expected != Some(asked) {
                return Err(format!("asked {asked} from {start:?}, quoted {expected:?}"));
            }
            return Ok(());
        }
        before = after;
    }
    Ok(())
}

/// The terms after a change of plan, also if the change is only scheduled.
fn terms_after(subscription: &Subscription) -> Option<Terms> {
    if let Some(ScheduledChange::ChangePlan(terms) | ScheduledChange::ByUser { terms, .. }) =
        subscription.scheduled_change()
    {
        return Some(terms);
    }
    Some(Terms {
        subscription_plan_id: subscription.subscription_plan_id,
        billing_cycle: subscription.billing_cycle,
        price: subscription.price()?,
        currency: subscription.currency()?,
        quantity: subscription.quantity,
    })
}

/// The kinds of changes of plan in a life.
pub fn kinds(life: &Life) -> BTreeSet<&'static str> {
    let mut kinds = BTreeSet::new();
    let mut saw = |kind, seen: bool| {
        if seen {
            kinds.insert(kind);
        }
    };
    for execution in &life.executions {
        let agreed = execution.change.agreed.is_some();
        saw("refused as another quote", agreed && execution.refused == Some("quote_changed"));
        saw("nothing to change", execution.refused.is_none() && execution.written.is_none());
        let mut pairs = life.pairs();
        let wrote = |after: &Written| Some(after.subscription.version) == execution.written;
        let Some((before, after)) = pairs.find(|(_, after)| wrote(after)) else { continue };
        saw("as agreed", agreed && execution.at == after.event.at);
        saw("as agreed before", execution.at < after.event.at);
        let (was, is) = (&before.subscription, &after.subscription);
        saw("asked for", after.asked().is_some());
        saw("credit is used", credit(is) < credit(was));
        saw("credit is given", credit(is) > credit(was));
        saw("of a trial", was.status == SubscriptionStatus::OnTrial);
        saw("before the start", was.status == SubscriptionStatus::Pending);
        if execution.change.effective == Effective::PeriodEnd {
            saw("scheduled", true);
            continue;
        }
        saw("of the quantity", was.quantity != is.quantity);
        if was.status != SubscriptionStatus::Active {
            continue;
        }
        let value = |version: &Subscription| {
            version.billing.as_ref().map_or(Decimal::ZERO, |it| it.period_value.value())
        };
        let once = |version: &Subscription| version.billing_cycle == BillingCycle::ONE_TIME;
        let other_cycle = was.billing_cycle != is.billing_cycle;
        saw("without proration", execution.change.proration == Proration::None);
        saw("to another cycle", other_cycle && !once(was) && !once(is));
        saw("to one_time", other_cycle && once(is));
        saw("from one_time", other_cycle && once(was));
        saw("within the period", was.period_start() == is.period_start());
        saw("from free to paid", value(was).is_zero() && !value(is).is_zero());
        saw("from paid to free", !value(was).is_zero() && value(is).is_zero());
    }
    for (before, after) in life.pairs() {
        let waits = before.awaited().is_some();
        let is_theirs = matches!(after.event.actor, Actor::User(_));
        saw("waits for its payment", after.begins_to_wait(Some(before)).is_some());
        saw("is paid", waits && after.changes_plan());
        saw("is not paid", waits && after.awaited().is_none() && !after.changes_plan());
        saw("is made by credit", is_theirs && after.changes_plan());
        let (was, is) = (&before.subscription, &after.subscription);
        let Some(ScheduledChange::ChangePlan(terms)) = was.scheduled_change() else { continue };
        let gone = is.scheduled_change().is_none();
        saw("schedule applied", after.by_clock() && was.status == is.status && gone);
        saw(
            "schedule moves the cycle",
            after.by_clock() && terms.billing_cycle != was.billing_cycle,
        );
        let currency = Some(terms.currency) != was.currency();
        saw("schedule changes the currency", after.by_clock() && currency && gone);
        saw("schedule dropped", !after.by_clock() && was.status == is.status && gone);
        saw("schedule ends with a cancel", is.status == SubscriptionStatus::Cancelled);
    }
    kinds
}
