//! Rules of billing with one fault, to test that the simulation finds the fault.

#![expect(clippy::wildcard_enum_match_arm, reason = "a fault is planted in one place")]

use std::time::Duration;

use rust_decimal::Decimal;
use subscription_core::billing::{BillingRules, Policy, next_action_at};
use subscription_core::events::Change;
use subscription_core::plans::Reduction;
use subscription_core::subscriptions::{ScheduledChange, Terms};
use subscription_core::{
    Action, Amount, Basis, Bounded, Error, Line, LineKind, ManagedBy, OtherPayments, PaymentReport,
    PaymentStatus, Plan, ReportOutcome, RuleDecision, Rules, Step, StepKind, Subscription,
    SubscriptionStatus, Timestamp,
};

use crate::billing::amounts;
use crate::simulation::broken::Breakage;

/// A fault in the rules of billing, or in the store below them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A payment is for the previous period, and the store accepts a second payment for that period.
    AsksForThePeriodBefore,
    /// No payment is requested for a renewal.
    ForgetsToAsk,
    /// The payment is for one unit, whatever the quantity is.
    IgnoresQuantity,
    /// The credit is lost after a failed payment.
    LosesCredit,
    /// A period lasts an hour too long.
    EndsOffTheGrid,
    /// Periods are skipped without an event that says so.
    SkipsInSilence,
    /// A payment is requested for every missed period.
    SkipsNothing,
    /// Every missed period is skipped.
    SkipsEverything,
    /// No reminder is sent, and the subscription stays due.
    NeverReminds,
    /// The next step is stored an hour too late.
    LooksLate,
    /// Actions do not change access.
    KeepsAccess,
    /// A failed payment changes nothing.
    IgnoresFailures,
    /// New periods begin while a payment is behind.
    RenewsWhilePastDue,
    /// A payment is tried again an hour too late.
    RetriesLate,
    /// A subscription falls behind though no payment has failed.
    FallsBehindInSilence,
    /// Steps are executed for an expired subscription.
    ActsAfterTheEnd,
    /// A step that was decided before a cancellation is written after it.
    IgnoresVersions,
    /// A subscription that is cancelled at once keeps its open payments.
    LeavesPaymentsOpen,
    /// A subscription that the clock has released stays due, and its steps are executed.
    StepsForCallers,
    /// Events are stored twice.
    RepeatsEvents,
    /// The same reminder is sent again and again.
    RemindsTwice,
    /// A change of plan starts a period without an event that says so.
    ChangesInSilence,
    /// The payment for a change of plan has twice its right amount.
    DoublesProrations,
    /// A change of plan loses the credit.
    LosesNets,
    /// A scheduled change of plan keeps the price of the old plan.
    KeepsThePrice,
    /// Charge keys are the ids of payments.
    KeysByPayment,
    /// The time of the last change of plan is not stored.
    ForgetsSettlements,
    /// A resumed subscription loses its end.
    LiftsEnds,
    /// The clock never checks a subscription again that was past due when the clock took it over.
    WaitsForEver,
    /// The discount is rounded for each unit.
    RoundsPerUnit,
    /// The discount is taken off what the credit has left.
    DiscountsAfterBalance,
    /// A renewal costs its full price, although the discount is counted.
    ChargesGross,
    /// A reduced period has the value of its full price.
    ValuesAtGross,
    /// Started periods use the discount even if it does not reduce them.
    CountsEveryStart,
    /// Skipped periods use the discount.
    CountsSkips,
    /// Months use the discount, whatever the periods are.
    CountsMonths,
    /// The running period does not know that the discount has reduced it.
    ForgetsApplied,
    /// A scheduled change of plan keeps the discount.
    KeepsScheduledDiscount,
    /// The payment for a change of plan stores the price before the change.
    PricesBeforeTheChange,
    /// A second attempt of a payment loses what its amount was computed from.
    RebuildsBasis,
    /// A change of plan with immediate effect keeps the discount.
    KeepsDiscount,
    /// A scheduled change of plan ends the discount when it is scheduled.
    EndsDiscountEarly,
    /// Users change the subscriptions of others.
    IgnoresOwners,
    /// The clock renews a subscription although a change of plan waits for its payment.
    RenewsWhileWaiting,
    /// A change of plan by a user is made although its payment has failed.
    ChangesUnpaid,
    /// A change of plan by a user follows the rules of a change by the seller.
    ChangesAsSeller,
    /// Users resume what the seller has cancelled, and drop a pause that the seller has scheduled.
    ResumesForUsers,
}

impl Fault {
    /// The breakage of the store that causes this fault. `None` if the fault is in the rules. The broken store is above
    /// the recorder of commits.
    pub fn breakage(self) -> Option<Breakage> {
        match self {
            Self::IgnoresVersions => Some(Breakage::IgnoresVersions),
            Self::RepeatsEvents => Some(Breakage::RepeatsEvents),
            Self::ChangesInSilence => Some(Breakage::HidesPlanChanges),
            Self::DoublesProrations => Some(Breakage::DoublesProrations),
            Self::LosesNets => Some(Breakage::LosesCredit),
            Self::KeysByPayment => Some(Breakage::KeysByPayment),
            Self::ForgetsSettlements => Some(Breakage::ForgetsSettlements),
            Self::PricesBeforeTheChange => Some(Breakage::PricesBeforeTheChange),
            Self::RebuildsBasis => Some(Breakage::RebuildsBasis),
            Self::KeepsDiscount => Some(Breakage::KeepsDiscount),
            Self::EndsDiscountEarly => Some(Breakage::EndsDiscountEarly),
            _ => None,
        }
    }

    /// True if the fault makes a subscription due again and again, so that a preview would never end.
    pub fn is_endless(self) -> bool {
        matches!(self, Self::ActsAfterTheEnd | Self::RemindsTwice)
    }
}

/// The rules of billing with one fault.
#[derive(Debug)]
pub struct BrokenRules {
    rules: BillingRules,
    policy: Policy,
    fault: Fault,
}

impl BrokenRules {
    pub fn new(policy: &Policy, fault: Fault) -> Self {
        let missed = match fault {
            Fault::SkipsNothing => 366,
            Fault::SkipsEverything => 0,
            _ => policy.missed_periods_max.get(),
        };
        let missed = Bounded::new(missed).expect("at most 366");
        let followed = policy.clone().with_missed_periods_max(missed);
        Self { rules: BillingRules::new(followed), policy: policy.clone(), fault }
    }

    fn asking(&self, mut outcome: RuleDecision) -> RuleDecision {
        let price = outcome.subscription.price();
        if let (Fault::IgnoresQuantity, Some(ask), Some(price)) =
            (self.fault, &mut outcome.ask, price)
        {
            (ask.amount, ask.value) = (price, price);
        }
        outcome
    }

    /// A step that the fault adds to an expired subscription.
    fn step_after_the_end(before: &Subscription, now: Timestamp) -> Step {
        let mut next = before.clone();
        (next.version, next.updated_at) = (before.version.next(), now);
        let change = before.change_to(&next);
        Step { at: now, kind: StepKind::Corrected, outcome: RuleDecision::of(next, change) }
    }

    /// The subscription that is passed to the rules, changed by the fault.
    fn seen(&self, subscription: &Subscription) -> Subscription {
        let mut seen = subscription.clone();
        match self.fault {
            Fault::RenewsWhilePastDue if seen.status == SubscriptionStatus::PastDue => {
                seen.status = SubscriptionStatus::Active;
            }
            Fault::StepsForCallers => seen.managed_by = ManagedBy::Clock,
            Fault::RenewsWhileWaiting => {
                if let Some(billing) = &mut seen.billing
                    && matches!(billing.scheduled_change, Some(ScheduledChange::ByUser { .. }))
                {
                    billing.scheduled_change = None;
                }
            }
            _ => {}
        }
        seen
    }

    fn break_step(&self, before: &Subscription, kind: StepKind, outcome: &mut RuleDecision) {
        let next = &mut outcome.subscription;
        let Some(billing) = &mut next.billing else { return };
        match (self.fault, kind) {
            (Fault::AsksForThePeriodBefore, StepKind::PeriodStarted) => {
                let start = before.current_period_start();
                if let Some((ask, start)) = outcome.ask.as_mut().zip(start) {
                    ask.period_start = start;
                }
            }
            (Fault::ForgetsToAsk, StepKind::PeriodStarted) => outcome.ask = None,
            (Fault::EndsOffTheGrid, StepKind::PeriodStarted) => {
                next.renews_at = next.renews_at.map(an_hour_after);
            }
            (Fault::SkipsInSilence, StepKind::PeriodsSkipped) => {
                outcome.change = before.change_to(next);
            }
            (Fault::RenewsWhilePastDue, _) if before.status == SubscriptionStatus::PastDue => {
                next.status = before.status;
            }
            (Fault::FallsBehindInSilence, StepKind::Reminded)
                if next.status == SubscriptionStatus::Active =>
            {
                next.status = SubscriptionStatus::PastDue;
                outcome.change = before.change_to(next);
            }
            (Fault::StepsForCallers, _) => next.managed_by = before.managed_by,
            (Fault::RemindsTwice, StepKind::Reminded) => billing.reminded_for = None,
            (Fault::KeepsThePrice, StepKind::PlanChanged) => billing.price = before.price(),
            _ => {}
        }
        let next_action_at = next_action_at(next, &self.policy);
        if let Some(billing) = &mut next.billing {
            let late = self.fault == Fault::LooksLate;
            billing.next_action_at =
                next_action_at.map(|at| if late { an_hour_after(at) } else { at });
        }
    }
}

/// A month, as long as [`Fault::CountsMonths`] takes it to be.
const MONTH: u64 = 30 * 86_400;

impl BrokenRules {
    /// Breaks the discount of a creation, or of a step of a subscription.
    fn break_discount(
        &self,
        step: Option<(&Subscription, StepKind)>,
        outcome: &mut RuleDecision,
        now: Timestamp,
    ) {
        let next = &mut outcome.subscription;
        let Some(terms) = next.terms() else { return };
        let starts_at = next.starts_at;
        let starts = match step {
            Some((_, kind)) => matches!(kind, StepKind::Started | StepKind::PeriodStarted),
            None => next.status != SubscriptionStatus::Pending || outcome.ask.is_some(),
        };
        let Some(billing) = &mut next.billing else { return };
        if let (Fault::KeepsScheduledDiscount, Some((before, StepKind::PlanChanged))) =
            (self.fault, step)
        {
            billing.discount = before.discount();
        }
        let Some(discount) = &mut billing.discount else { return };
        let periods = discount.periods.unwrap_or(u32::MAX);
        let off = discount.off;
        match self.fault {
            Fault::ForgetsApplied => discount.applied = false,
            Fault::ValuesAtGross if starts => amounts::forget_reduction(billing, &terms),
            Fault::CountsEveryStart if starts && !discount.applied => {
                discount.used = periods.min(discount.used + 1);
            }
            Fault::CountsSkips => {
                if let Change::PeriodsSkipped { count } = outcome.change {
                    discount.used = periods.min(discount.used.saturating_add(count));
                }
            }
            Fault::CountsMonths if starts => {
                let months = now.since(starts_at).as_secs() / MONTH;
                discount.used = periods.min(u32::try_from(months).unwrap_or(periods) + 1);
            }
            Fault::ChargesGross if starts && step.is_some() && discount.applied => {
                reprice(outcome, &terms, |_, _| Decimal::ZERO);
            }
            Fault::RoundsPerUnit if starts && discount.applied => {
                let digits = terms.currency.digits();
                reprice(outcome, &terms, |_, _| {
                    let unit = amounts::reduction(off, terms.price.value(), digits);
                    let percent = matches!(off, Reduction::Percent(_));
                    unit * if percent { terms.quantity.get().into() } else { Decimal::ONE }
                });
            }
            Fault::DiscountsAfterBalance if starts && discount.applied => {
                let digits = terms.currency.digits();
                reprice(outcome, &terms, |gross, credit| {
                    amounts::reduction(off, (gross - credit).max(Decimal::ZERO), digits)
                });
            }
            _ => {}
        }
    }
}

/// Gives the payment of a new period another reduction, which is computed from the price of the period and the credit
/// before it. Does nothing without a payment.
fn reprice(
    outcome: &mut RuleDecision,
    terms: &Terms,
    reduction: impl FnOnce(Decimal, Decimal) -> Decimal,
) {
    let Some(billing) = &mut outcome.subscription.billing else { return };
    let Some(ask) = &mut outcome.ask else { return };
    let used = amounts::line(&amounts::rows(&ask.basis.lines()), LineKind::Balance);
    let credit = billing.credit.value() + used;
    let gross = amounts::gross(terms);
    let reduction = reduction(gross, credit);
    let value = gross - reduction;
    let balance = value.min(credit);
    let amount = |value: Decimal| {
        let amount = Amount::try_from(value).expect("an amount");
        amount.with_digits(terms.currency.digits())
    };
    let line = |kind, value: Decimal| Line { kind, amount: amount(value) };
    let lines = [
        line(LineKind::Period, gross),
        line(LineKind::Discount, reduction),
        line(LineKind::Balance, balance),
    ];
    let lines = lines.into_iter().filter(|it| it.kind == LineKind::Period || !it.amount.is_zero());
    let off = ask.basis.discount.filter(|_| !reduction.is_zero());
    let basis = &ask.basis;
    ask.basis = Basis::new(basis.plan, basis.price, basis.quantity, off, lines.collect());
    ask.amount = amount(value - balance);
    ask.value = amount(value);
    billing.period_value = amount(value);
    billing.credit = amount(credit - balance);
    if ask.amount.is_zero() {
        outcome.ask = None;
    }
}

fn an_hour_after(at: Timestamp) -> Timestamp {
    at.saturating_add(Duration::from_hours(1))
}

impl Rules for BrokenRules {
    fn bills(&self) -> bool {
        true
    }

    fn create(
        &self,
        made: Subscription,
        imported: bool,
        plan: &Plan,
        now: Timestamp,
    ) -> Result<RuleDecision, Error> {
        let mut outcome = self.rules.create(made, imported, plan, now)?;
        self.break_discount(None, &mut outcome, now);
        Ok(self.asking(outcome))
    }

    fn change(
        &self,
        before: &Subscription,
        after: Subscription,
        now: Timestamp,
    ) -> Result<RuleDecision, Error> {
        let mut outcome = self.rules.change(before, after, now)?;
        if self.fault == Fault::StepsForCallers
            && let Some(billing) = &mut outcome.subscription.billing
        {
            billing.next_action_at = billing.next_action_at.or(before.next_action_at());
        }
        if self.fault == Fault::WaitsForEver && before.managed_by == ManagedBy::Caller {
            let next = &mut outcome.subscription;
            if let Some(billing) = &mut next.billing {
                billing.dunning_ended_at = None;
            }
            let next_action_at = next_action_at(next, &self.policy);
            if let Some(billing) = &mut next.billing {
                billing.next_action_at = next_action_at;
            }
        }
        Ok(outcome)
    }

    fn act(
        &self,
        subscription: &Subscription,
        action: Action,
        now: Timestamp,
    ) -> Result<Option<RuleDecision>, Error> {
        let action = match (self.fault, action) {
            (Fault::ResumesForUsers, Action::Uncancel) => Action::Resume,
            _ => action,
        };
        let mut acted = self.rules.act(subscription, action, now)?;
        if let Some(outcome) = &mut acted {
            match self.fault {
                Fault::KeepsAccess => outcome.subscription.is_active = subscription.is_active,
                Fault::LeavesPaymentsOpen => outcome.cancels_from = None,
                Fault::LiftsEnds if subscription.status == SubscriptionStatus::Cancelled => {
                    outcome.subscription.ends_at = None;
                }
                _ => {}
            }
        }
        Ok(acted)
    }

    fn report(
        &self,
        report: PaymentReport<'_>,
        subscription: &Subscription,
        others: OtherPayments,
        now: Timestamp,
    ) -> ReportOutcome {
        if self.fault == Fault::ChangesUnpaid && report.after.status == PaymentStatus::Failed {
            let mut paid = report.clone();
            paid.after.status = PaymentStatus::Succeeded;
            let mut reported = self.rules.report(paid, subscription, others, now);
            reported.payment.status = PaymentStatus::Canceled;
            return reported;
        }
        let mut reported = self.rules.report(report, subscription, others, now);
        if reported.payment.status != PaymentStatus::Failed {
            return reported;
        }
        match self.fault {
            Fault::IgnoresFailures => reported.subscription = None,
            Fault::LosesCredit => {
                let moved = reported.subscription.as_mut();
                if let Some(billing) = moved.and_then(|moved| moved.subscription.billing.as_mut()) {
                    billing.credit = Amount::ZERO;
                }
            }
            Fault::RetriesLate => {
                if let Some(asked) = &mut reported.payment.asked {
                    asked.next_attempt_at = asked.next_attempt_at.map(an_hour_after);
                }
            }
            _ => {}
        }
        reported
    }

    fn step(&self, subscription: &Subscription, now: Timestamp) -> Option<Step> {
        let expired = subscription.status == SubscriptionStatus::Expired;
        if self.fault == Fault::ActsAfterTheEnd && expired {
            return Some(Self::step_after_the_end(subscription, now));
        }
        let mut step = self.rules.step(&self.seen(subscription), now)?;
        if self.fault == Fault::NeverReminds && step.kind == StepKind::Reminded {
            return None;
        }
        self.break_step(subscription, step.kind, &mut step.outcome);
        self.break_discount(Some((subscription, step.kind)), &mut step.outcome, now);
        step.outcome = self.asking(step.outcome);
        Some(step)
    }
}
