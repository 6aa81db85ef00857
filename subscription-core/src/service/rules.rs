//! The interface between the service and the rules of billing.
//!
//! The service calls these rules for each create, change, verb and report of a payment, and as time passes. Without
//! billing, [`CallerRules`] decides: callers manage every subscription.

use std::fmt;

use serde::Serialize;

use crate::error::{Conflict, Error};
use crate::events::Change;
use crate::payments::{Basis, Payment, PaymentKind};
use crate::plans::{BillingCycle, Plan};
use crate::subscriptions::{Action, Managed, ManagedBy, Subscription};
use crate::values::as_text::named_enum;
use crate::values::{Amount, Currency, FaultCode, Field, Timestamp};

/// A subscription as it is to be written, and what is written with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleDecision {
    /// The subscription.
    pub subscription: Subscription,
    /// The change that the event of the subscription reports.
    pub change: Change,
    /// The payment to request; `None` if no payment is requested.
    pub ask: Option<PaymentRequest>,
    /// Open payments for changes of plan at this moment or later are cancelled. If it is [`Timestamp::MIN`], all open
    /// payments of the subscription are cancelled; if it is `None`, no payment is cancelled.
    pub cancels_from: Option<Timestamp>,
}

impl RuleDecision {
    /// The decision to write a subscription, and nothing else with it.
    pub const fn of(subscription: Subscription, change: Change) -> Self {
        Self { subscription, change, ask: None, cancels_from: None }
    }
}

/// A payment to request. Its JSON has the same field names as the JSON of a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PaymentRequest {
    /// The purpose of the payment.
    pub kind: PaymentKind,
    /// The start of the period that the payment is for.
    pub period_start: Timestamp,
    /// The end of the period that the payment is for; `None` if the period has no end.
    pub period_end: Option<Timestamp>,
    /// The amount to collect: more than 0.
    pub amount: Amount,
    /// The price of the whole period, before credit.
    #[serde(skip)]
    pub value: Amount,
    /// The billing cycle of the period.
    #[serde(skip)]
    pub cycle: BillingCycle,
    /// The currency of amount and value.
    pub currency: Currency,
    /// The earliest moment at which the payment is to be collected.
    pub due_at: Timestamp,
    /// The inputs from which the amount was computed.
    #[serde(skip)]
    pub basis: Basis,
}

/// The state of a subscription's other payments for periods, when one payment is reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtherPayments {
    /// True if one of these payments has failed and is not paid yet: see [`Payment::is_behind`].
    pub behind: bool,
    /// True if one of the payments that are behind will be collected again: a further attempt has begun, or has a date.
    pub to_try: bool,
}

/// The report of a payment: an update of its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentReport<'r> {
    /// The payment before the update.
    pub before: &'r Payment,
    /// The payment after the update.
    pub after: Payment,
    /// The time of the next attempt, as the report of a failure has it. If it is absent, the schedule of retries
    /// decides. If it is null, the payment is not tried again.
    pub next_attempt_at: Field<Timestamp>,
}

/// The consequences of the report of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportOutcome {
    /// The payment as it is to be written.
    pub payment: Payment,
    /// The subscription and what is written with it; `None` if the subscription does not change.
    pub subscription: Option<RuleDecision>,
}

named_enum! {
    /// A step that the service takes for a subscription when the time of the step has come.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum StepKind {
        /// The subscription ended.
        Ended = "ended",
        /// The subscription started.
        Started = "started",
        /// The plan of the subscription changed, as scheduled.
        PlanChanged = "plan_changed",
        /// The subscription paused, as scheduled.
        Paused = "paused",
        /// Some periods got no payment, because more than `missed_periods_max` were due at once.
        PeriodsSkipped = "periods_skipped",
        /// A period started.
        PeriodStarted = "period_started",
        /// The pause of the subscription ended.
        Resumed = "resumed",
        /// The subscription expired, because its first payment was not made in time; or a change of plan was dropped,
        /// because its payment was not made in time.
        Lapsed = "lapsed",
        /// The subscription became unpaid or expired, because no retry is left.
        DunningEnded = "dunning_ended",
        /// The subscriber is to be reminded of the end of the trial or of the renewal.
        Reminded = "reminded",
        /// Only `next_action_at` was corrected.
        Corrected = "corrected",
        /// A failed payment is requested again. Timelines have this step; no event is recorded for it.
        PaymentRetried = "payment_retried",
    }
}

/// A step that the service takes for a subscription when the time of the step has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The moment at which the step was due.
    pub at: Timestamp,
    /// The kind of step.
    pub kind: StepKind,
    /// The subscription after the step, and what is written with it.
    pub outcome: RuleDecision,
}

/// The rules of billing: pure functions, whose results the service writes.
pub trait Rules: fmt::Debug + Send + Sync {
    /// True if subscriptions can be managed by the clock.
    fn bills(&self) -> bool;

    /// A new subscription, with the payment to request. `imported` is true if the input has a status: the running
    /// period then counts as paid.
    fn create(
        &self,
        made: Subscription,
        imported: bool,
        plan: &Plan,
        now: Timestamp,
    ) -> Result<RuleDecision, Error>;

    /// An updated subscription. `after` is the subscription with the fields of the update, not yet checked against the
    /// rules that depend on its `managed_by`.
    fn change(
        &self,
        before: &Subscription,
        after: Subscription,
        now: Timestamp,
    ) -> Result<RuleDecision, Error>;

    /// The subscription after a verb such as cancel, or `None` if the verb changes nothing.
    fn act(
        &self,
        subscription: &Subscription,
        action: Action,
        now: Timestamp,
    ) -> Result<Option<RuleDecision>, Error>;

    /// The payment after a report of its status, and the consequences for its subscription.
    fn report(
        &self,
        report: PaymentReport<'_>,
        subscription: &Subscription,
        others: OtherPayments,
        now: Timestamp,
    ) -> ReportOutcome;

    /// The earliest step of a subscription that is due at `now`; `None` if no step is due.
    fn step(&self, subscription: &Subscription, now: Timestamp) -> Option<Step>;

    /// Calls `each` with the steps that a subscription will take after `from` and up to `until` if every payment
    /// succeeds. Reminders are left out. Steps that are due already come first.
    fn ahead(
        &self,
        _subscription: &Subscription,
        _from: Timestamp,
        _until: Timestamp,
        _each: &mut dyn FnMut(Step),
    ) {
    }
}

/// The rules without billing: callers manage every subscription.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallerRules;

impl Rules for CallerRules {
    fn bills(&self) -> bool {
        false
    }

    fn create(
        &self,
        made: Subscription,
        _: bool,
        _: &Plan,
        _: Timestamp,
    ) -> Result<RuleDecision, Error> {
        refuse_clock(made.managed_by)?;
        Ok(RuleDecision::of(made, Change::Created))
    }

    fn change(
        &self,
        before: &Subscription,
        after: Subscription,
        _: Timestamp,
    ) -> Result<RuleDecision, Error> {
        if before.managed_by != after.managed_by {
            refuse_clock(after.managed_by)?;
        }
        let change = before.change_to(&after);
        Ok(RuleDecision::of(after, change))
    }

    fn act(
        &self,
        subscription: &Subscription,
        action: Action,
        now: Timestamp,
    ) -> Result<Option<RuleDecision>, Error> {
        by_caller(subscription, action, now)
    }

    fn report(
        &self,
        report: PaymentReport<'_>,
        _: &Subscription,
        _: OtherPayments,
        _: Timestamp,
    ) -> ReportOutcome {
        ReportOutcome { payment: report.after, subscription: None }
    }

    fn step(&self, _: &Subscription, _: Timestamp) -> Option<Step> {
        None
    }
}

/// Applies a verb to a subscription that callers manage, as an update of its status. Fails if the clock or a provider
/// manages it.
pub(crate) fn by_caller(
    subscription: &Subscription,
    action: Action,
    now: Timestamp,
) -> Result<Option<RuleDecision>, Error> {
    let by = subscription.managed_by;
    if by != ManagedBy::Caller {
        return Err(Conflict::from(Managed { by, fields: vec!["status"] }).into());
    }
    let next = subscription.act(action, now)?;
    Ok(next.map(|next| {
        let change = subscription.change_to(&next);
        RuleDecision::of(next, change)
    }))
}

fn refuse_clock(managed_by: ManagedBy) -> Result<(), Error> {
    if managed_by == ManagedBy::Caller {
        return Ok(());
    }
    Err(Error::invalid(
        FaultCode::NotAllowedValue,
        "must be caller: billing is not enabled",
        "managed_by",
    ))
}
