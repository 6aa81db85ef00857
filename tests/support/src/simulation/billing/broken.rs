//! Rules of billing with one fault, to test that the simulation finds the fault.

#![expect(clippy::wildcard_enum_match_arm, reason = "a fault is planted in one place")]

use std::time::Duration;

use subscription_core::billing::{BillingRules, Policy, next_action_at};
use subscription_core::{
    Action, Amount, Bounded, Error, ManagedBy, OtherPayments, PaymentReport, PaymentStatus, Plan,
    ReportOutcome, RuleDecision, Rules, Step, StepKind, Subscription, SubscriptionStatus,
    Timestamp,
};

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
        Ok(self.asking(self.rules.create(made, imported, plan, now)?))
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
        let mut acted = self.rules.act(subscription, action, now)?;
        if let Some(outcome) = &mut acted {
            match self.fault {
                Fault::KeepsAccess => outcome.subscription.is_active = subscription.is_active,
                Fault::LeavesPaymentsOpen => outcome.cancels_open_payments = false,
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
        step.outcome = self.asking(step.outcome);
        Some(step)
    }
}
