//! Turns a decision of the billing rules into one change set: the subscription, a payment to request, and the open
//! payments to cancel.

use std::sync::Arc;

use super::{PaymentRequest, RuleDecision, SubscriptionService};
use crate::error::Error;
use crate::events::{Change, Subject};
use crate::payments::{Payment, PaymentKind, PaymentStatus, RequestedPayment};
use crate::store::{
    ChangeSet, Direction, Key, PageLimit, PaymentQuery, Record, StoreError, StoreExt as _, Unique,
    UniqueValue,
};
use crate::subscriptions::{Discount, ManagedBy, Subscription, SubscriptionStatus};
use crate::values::{Currency, PaymentId, SubscriptionId, Timestamp, Version};

/// The maximum number of due steps that a request takes for the subscription that it has changed. If more steps are
/// due, the clock takes them later.
const STEPS_AT_ONCE: usize = 8;

/// The maximum number of payments that are cancelled with their subscription.
const CANCELLED_MAX: usize = ChangeSet::RECORDS_MAX - 3;

/// # The rules of billing
impl SubscriptionService {
    /// Commits a decision of the billing rules: the subscription, the payments and events that follow from it, and the
    /// changes in `with`, in one commit.
    pub(crate) async fn commit_outcome(
        &self,
        outcome: RuleDecision,
        with: ChangeSet,
        now: Timestamp,
    ) -> Result<Arc<Subscription>, Error> {
        let (subscription, change, changes) = self.changes_of(outcome, with, now).await?;
        self.commit(subscription, change, changes, now).await
    }

    /// The subscription of a decision of the billing rules, the change for its event, and the change set to commit with
    /// both: the changes in `with`, and the payments that follow from the decision, with their events.
    pub(crate) async fn changes_of(
        &self,
        outcome: RuleDecision,
        mut with: ChangeSet,
        now: Timestamp,
    ) -> Result<(Arc<Subscription>, Change, ChangeSet), Error> {
        let RuleDecision { mut subscription, change, ask, cancels_from } = outcome;
        if subscription.status == SubscriptionStatus::Expired {
            subscription.live_key = None;
        }
        if let Some(from) = cancels_from {
            self.cancel_payments(subscription.id, from, &mut with, now).await?;
        }
        if let Some(ask) = ask {
            let payment = self.asked_payment(subscription.id, &ask, now)?;
            let subject = Subject::Payment(payment.id);
            with.events.push(self.event(subject, payment.version, Change::Created, now)?);
            with.writes.push(Record::from(payment));
        }
        Ok((Arc::new(subscription), change, with))
    }

    fn asked_payment(
        &self,
        subscription_id: SubscriptionId,
        ask: &PaymentRequest,
        now: Timestamp,
    ) -> Result<Payment, Error> {
        Ok(Payment {
            id: PaymentId::new(now, self.randomness())?,
            subscription_id,
            amount: ask.amount,
            currency: ask.currency,
            external_payment_id: None,
            status: PaymentStatus::Pending,
            metadata: None,
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
            settled: false,
            asked: Some(Box::new(RequestedPayment {
                kind: ask.kind,
                period_start: ask.period_start,
                period_end: ask.period_end,
                due_at: ask.due_at,
                attempt: 1,
                next_attempt_at: None,
                retries: 0,
                value: ask.value,
                cycle: ask.cycle,
                mirrored: false,
                by_clock: true,
                basis: Some(ask.basis.clone()),
            })),
        })
    }

    /// Adds the cancellation of open payments of a subscription to a change set: of all open payments if `from` is
    /// [`Timestamp::MIN`], otherwise only of the open payments for changes of plan that happen at `from` or later.
    /// Payments that the change set already writes are left out.
    pub(crate) async fn cancel_payments(
        &self,
        of: SubscriptionId,
        from: Timestamp,
        with: &mut ChangeSet,
        now: Timestamp,
    ) -> Result<(), Error> {
        let written: Vec<_> = with.writes.iter().map(Record::key).collect();
        let open = self.periods_of(of).await?.into_iter().filter(|payment| {
            let is_of_change = payment.kind() == Some(PaymentKind::Proration);
            payment.is_open()
                && payment.period_start().is_some_and(|start| from <= start)
                && (is_of_change || from == Timestamp::MIN)
        });
        let open = open.filter(|payment| !written.contains(&Subject::Payment(payment.id).into()));
        for payment in open.take(CANCELLED_MAX.saturating_sub(with.writes.len())) {
            let cancelled = payment.cancelled(now);
            let change = payment.change_to(&cancelled);
            let subject = Subject::Payment(payment.id);
            with.events.push(self.event(subject, cancelled.version, change, now)?);
            with.writes.push(Record::from(cancelled));
        }
        Ok(())
    }

    /// The payments of a subscription that pay for periods and that no provider collects, newest first.
    pub(crate) async fn periods_of(&self, id: SubscriptionId) -> Result<Vec<Arc<Payment>>, Error> {
        let query =
            PaymentQuery::of(id).with_direction(Direction::Descending).with_limit(PageLimit::MAX);
        let page = |after| query.clone().with_after(after);
        let mut found = self.store().all_as::<Payment>(page).await?;
        found.retain(|payment| payment.to_collect().is_some());
        Ok(found)
    }

    /// Takes the due steps of a subscription, as the clock would, and returns its last version. If a step cannot be
    /// taken now, the clock takes it later.
    pub(crate) async fn take_due_steps(
        &self,
        mut subscription: Arc<Subscription>,
    ) -> Arc<Subscription> {
        if subscription.managed_by != ManagedBy::Clock {
            return subscription;
        }
        let clock = self.by(crate::events::Actor::Clock);
        for _ in 0..STEPS_AT_ONCE {
            let now = self.now();
            let Some(step) = self.rules().step(&subscription, now) else { break };
            match clock.commit_step(&subscription, step.outcome, now).await {
                Ok(next) => subscription = next,
                Err(_) => break,
            }
        }
        subscription
    }

    /// Takes the steps that are due. If at least one was due, the result is a conflict: the service then decides again,
    /// on the subscription as it is after these steps.
    pub(crate) async fn without_due_steps(
        &self,
        current: &Arc<Subscription>,
        now: Timestamp,
    ) -> Result<(), Error> {
        if self.rules().step(current, now).is_none() {
            return Ok(());
        }
        self.take_due_steps(Arc::clone(current)).await;
        Err(StoreError::Conflict(Key::Subscription(current.id)).into())
    }

    /// The change set of a step.
    pub(crate) async fn step_set(
        &self,
        before: &Subscription,
        outcome: RuleDecision,
        now: Timestamp,
    ) -> Result<ChangeSet, Error> {
        let (_, set) = self.changes_of_step(before, outcome, now).await?;
        Ok(set)
    }

    async fn changes_of_step(
        &self,
        before: &Subscription,
        mut outcome: RuleDecision,
        now: Timestamp,
    ) -> Result<(Arc<Subscription>, ChangeSet), Error> {
        // If credit or a discount covers the whole price of the period, the step writes no payment. Then the store
        // cannot refuse the step if the period already has a payment. So this check looks for such a payment.
        if outcome.ask.is_none()
            && let Some(start) = outcome.charged_period(before)
            && self.store().find(UniqueValue::PaymentPeriod(before.id, start)).await?.is_some()
        {
            outcome = outcome.unasked(before);
        }
        let mut with = ChangeSet::default();
        self.move_live_key_of_step(&mut outcome, &mut with, now).await?;
        let (subscription, change, with) = self.changes_of(outcome, with, now).await?;
        let set = self.change_set(&subscription, change, with, now)?;
        Ok((subscription, set))
    }

    /// Commits a step. If a payment for the same period was requested before (by an import), the step requests no
    /// payment.
    pub(crate) async fn commit_step(
        &self,
        before: &Subscription,
        outcome: RuleDecision,
        now: Timestamp,
    ) -> Result<Arc<Subscription>, Error> {
        let unasked = outcome.clone().unasked(before);
        let (subscription, set) = self.changes_of_step(before, outcome, now).await?;
        match self.store().commit(set).await {
            Ok(()) => Ok(subscription),
            Err(StoreError::Taken(Unique::PaymentPeriod)) => {
                self.commit_outcome(unasked, ChangeSet::default(), now).await
            }
            Err(error) => Err(Error::Store(error)),
        }
    }
}

impl RuleDecision {
    /// The start of the period that a step begins, if the step requests a payment for this period, or uses credit or a
    /// discount for it; otherwise `None`.
    pub(crate) fn charged_period(&self, before: &Subscription) -> Option<Timestamp> {
        let start = self.subscription.billing.as_ref()?.current_period_start;
        let begins = before.billing.as_ref().is_none_or(|it| it.current_period_start != start);
        let is_charged = self.ask.is_some()
            || self.subscription.credit() != before.credit()
            || self.subscription.discount() != before.discount();
        start.filter(|_| begins && is_charged)
    }

    /// Changes the outcome of a step because the period that the step begins already has a payment: the step then
    /// requests no payment, and uses neither credit nor a discount.
    pub(crate) fn unasked(mut self, before: &Subscription) -> Self {
        self.ask = None;
        let price = self.subscription.price();
        let gross = price.and_then(|price| price.times(self.subscription.quantity.get()));
        if let Some(billing) = &mut self.subscription.billing {
            billing.credit = before.credit().unwrap_or_default();
            billing.discount = before.discount().map(|it| Discount { applied: false, ..it });
            if let Some(gross) = gross {
                let digits = billing.currency.map_or(0, Currency::digits);
                billing.period_value = gross.with_digits(digits);
            }
        }
        self
    }
}

impl Payment {
    /// The payment, cancelled.
    fn cancelled(&self, now: Timestamp) -> Self {
        let mut cancelled = self.clone();
        cancelled.status = PaymentStatus::Canceled;
        cancelled.updated_at = now.max(self.updated_at);
        cancelled.version = self.version.next();
        if let Some(asked) = &mut cancelled.asked {
            asked.next_attempt_at = None;
        }
        cancelled
    }
}
