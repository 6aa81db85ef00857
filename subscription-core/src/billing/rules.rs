//! The rules of billing, as the service calls them.

use std::sync::Arc;

use super::policy::Policy;
use super::{changes, collection, creation, steps, verbs};
use crate::error::Error;
use crate::events::Change;
use crate::plans::Plan;
use crate::service::{
    OtherPayments, PaymentReport, ReportOutcome, RuleDecision, Rules, Step, by_caller,
};
use crate::subscriptions::{Action, ManagedBy, Subscription};
use crate::values::Timestamp;

/// The rules of billing, with their policy. They bill only subscriptions that the clock manages.
#[derive(Debug, Clone, Default)]
pub struct BillingRules {
    policy: Arc<Policy>,
}

impl BillingRules {
    /// The rules of billing with this policy.
    pub fn new(policy: impl Into<Arc<Policy>>) -> Self {
        Self { policy: policy.into() }
    }
}

impl Rules for BillingRules {
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
        if made.managed_by != ManagedBy::Clock {
            return Ok(RuleDecision::of(made, Change::Created));
        }
        Ok(creation::create(made, imported, plan, &self.policy, now)?)
    }

    fn change(
        &self,
        before: &Subscription,
        after: Subscription,
        now: Timestamp,
    ) -> Result<RuleDecision, Error> {
        let after = changes::change(before, after, &self.policy, now)?;
        let change = before.change_to(&after);
        Ok(RuleDecision::of(after, change))
    }

    fn act(
        &self,
        subscription: &Subscription,
        action: Action,
        now: Timestamp,
    ) -> Result<Option<RuleDecision>, Error> {
        if subscription.managed_by != ManagedBy::Clock {
            return by_caller(subscription, action, now);
        }
        verbs::act(subscription, action, &self.policy, now)
    }

    fn report(
        &self,
        report: PaymentReport<'_>,
        subscription: &Subscription,
        others: OtherPayments,
        now: Timestamp,
    ) -> ReportOutcome {
        collection::report(report, subscription, others, &self.policy, now)
    }

    fn step(&self, subscription: &Subscription, now: Timestamp) -> Option<Step> {
        steps::step(subscription, &self.policy, now)
    }

    fn ahead(
        &self,
        subscription: &Subscription,
        from: Timestamp,
        until: Timestamp,
        each: &mut dyn FnMut(Step),
    ) {
        let policy = Policy { remind_before: None, ..Policy::clone(&self.policy) };
        let updated_at = subscription.updated_at.max(from);
        let subscription = Subscription { updated_at, ..subscription.clone() };
        steps(subscription, &policy, until).for_each(each);
    }
}
