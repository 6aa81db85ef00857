//! `Billing`: takes due steps, requests failed payments again, and lists upcoming steps.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::advanced::Advanced;
use super::collection::retry;
use super::due_page::DuePage;
use super::policy::{AfterDunning, Policy};
use super::rules::BillingRules;
use super::steps::steps;
use crate::error::{Conflict, Error};
use crate::events::{Actor, Subject};
use crate::payments::{Payment, PaymentStatus};
use crate::service::{Created, PaymentRequest, Rules, StepKind, SubscriptionService};
use crate::store::{
    ChangeSet, DuePayments, DueSubscriptions, Guard, Idempotency, Key, Page, PageLimit, Position,
    Record, StoreError, StoreExt as _,
};
use crate::subscriptions::{Managed, ManagedBy, Subscription, SubscriptionStatus};
use crate::values::{PaymentId, SubscriptionId, Timestamp, Version};

/// The largest number of upcoming steps that are searched for the next charge. There is a limit, because a subscription
/// that costs nothing has no charge.
const STEPS_TO_CHARGE: usize = 24;

/// When nothing is due but steps whose records others hold, these steps are tried again after this time.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Takes the due steps of subscriptions that the clock manages: see [`Billing::advance`].
///
/// `Billing` starts no task. Call [`advance`](Self::advance) from a loop, a scheduler or a test; any number of
/// processes may do so at the same time.
#[derive(Debug, Clone)]
pub struct Billing {
    pub(super) service: SubscriptionService,
    pub(super) policy: Arc<Policy>,
}

/// A step that a subscription will take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Upcoming {
    /// When the subscription takes the step.
    pub at: Timestamp,
    /// The kind of step.
    pub step: StepKind,
    /// The status after the step.
    pub status: SubscriptionStatus,
    /// The payment that is requested with the step; `None` if no payment is requested.
    pub ask: Option<PaymentRequest>,
}

impl Billing {
    /// The billing of the subscriptions of a service.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the service without rules is not to be used any more"
    )]
    pub fn new(service: SubscriptionService, policy: Policy) -> Self {
        let policy = Arc::new(policy);
        let service = service.with_rules(BillingRules::new(Arc::clone(&policy)));
        Self { service, policy }
    }

    /// The service with the rules of billing. Write through this service: a service without these rules does not know
    /// that the clock manages subscriptions.
    pub const fn service(&self) -> &SubscriptionService {
        &self.service
    }

    /// A clone of this `Billing` whose events name this actor.
    #[must_use]
    pub fn by(&self, actor: Actor) -> Self {
        Self { service: self.service.by(actor), policy: Arc::clone(&self.policy) }
    }

    /// A clone of this `Billing` with other rules, for tests that plant faults in the rules.
    #[doc(hidden)]
    #[must_use]
    pub fn with_rules(&self, rules: impl Rules + 'static) -> Self {
        Self { service: self.service.with_rules(rules), policy: Arc::clone(&self.policy) }
    }

    /// Takes up to `limit` due steps, the longest due first: the steps of subscriptions, and then the retries of
    /// failed payments.
    ///
    /// A step is one commit: the subscription, its event and the payment that it requests. If another writer is
    /// faster, the step is not taken; if it is still due, the next call finds it. A step whose record somebody else holds
    /// ([`StoreError::Busy`](crate::store::StoreError::Busy)) is left to a later call too, and the others are taken.
    pub async fn advance(&self, limit: usize) -> Result<Advanced, Error> {
        let clock = self.service.by(Actor::Clock);
        let mut advanced = Advanced::default();
        let next_step = self.advance_subscriptions(&clock, limit, &mut advanced).await?;
        let next_retry = if advanced.more {
            None
        } else {
            self.advance_payments(&clock, limit, &mut advanced).await?
        };
        advanced.next_at = next_step.into_iter().chain(next_retry).min();
        Ok(advanced)
    }

    /// Takes the steps of subscriptions; returns when the next one is due, or `None` if none is due later.
    async fn advance_subscriptions(
        &self,
        clock: &SubscriptionService,
        limit: usize,
        advanced: &mut Advanced,
    ) -> Result<Option<Timestamp>, Error> {
        let mut after = None;
        let mut steps_before = 0;
        loop {
            let now = clock.now();
            let next = match self.first_subscription(after.clone()).await? {
                Some(next) if next <= now => next,
                // A subscription that has taken a step may be due again, at a position before the current one. So the
                // search starts again at the first position.
                _ if advanced.steps > steps_before => {
                    after = None;
                    steps_before = advanced.steps;
                    continue;
                }
                // A step that was not taken because another writer was faster may still be due. So `now` is returned as
                // the time of the next step.
                _ if advanced.refused > 0 => return Ok(Some(now)),
                next => {
                    let busy = (advanced.busy > 0).then(|| now.saturating_add(BUSY_PAUSE));
                    return Ok(next.into_iter().chain(busy).min());
                }
            };
            advanced.lag = advanced.lag.max(now.since(next));
            if advanced.tried() >= limit {
                advanced.more = true;
                return Ok(Some(next));
            }
            let left = limit - advanced.tried();
            after = DuePage::commit_all(clock, after, left, advanced).await?;
            if after.is_none() {
                return Ok(Some(next));
            }
        }
    }

    /// When the first subscription after a position is due; `None` if there is no such subscription.
    async fn first_subscription(
        &self,
        after: Option<Position>,
    ) -> Result<Option<Timestamp>, Error> {
        let query =
            DueSubscriptions::until(Timestamp::MAX).with_after(after).with_limit(PageLimit::ONE);
        let page = self.service.store().due_subscriptions(query).await?;
        Ok(page.items.first().and_then(|first| first.next_action_at()))
    }

    /// Requests failed payments again; returns when the next retry is due, or `None` if none is due later.
    async fn advance_payments(
        &self,
        clock: &SubscriptionService,
        limit: usize,
        advanced: &mut Advanced,
    ) -> Result<Option<Timestamp>, Error> {
        let failed = PaymentStatus::Failed;
        let mut after = None;
        loop {
            let now = clock.now();
            let first = DuePayments::until(failed, Timestamp::MAX);
            let first = first.with_after(after.clone()).with_limit(PageLimit::ONE);
            let first = clock.store().due_payments(first).await?;
            let next = match first.items.first().and_then(|first| first.next_attempt_at()) {
                Some(next) if next <= now => next,
                next => return Ok(next),
            };
            advanced.lag = advanced.lag.max(now.since(next));
            if advanced.tried() >= limit {
                advanced.more = true;
                return Ok(Some(next));
            }
            let size = PageLimit::new(limit - advanced.tried()).unwrap_or(PageLimit::MAX);
            let query = DuePayments::until(failed, now).with_after(after.clone()).with_limit(size);
            let page = clock.store().due_payments(query).await?;
            let Some(last) = page.items.last() else { return Ok(Some(next)) };
            after = DuePayments::position(last);
            let mut sets = Vec::with_capacity(page.items.len());
            for payment in &page.items {
                let paid_for =
                    match clock.store().get_as::<Subscription>(&payment.subscription_id).await {
                        Err(StoreError::Damaged(_)) => {
                            advanced.damaged += 1;
                            continue;
                        }
                        paid_for => paid_for?,
                    };
                let Some(next) = retry(payment, paid_for.as_deref(), now) else { continue };
                sets.push(retried(clock, payment, next, paid_for.as_deref(), now)?);
            }
            let results = clock.store().commit_each(sets).await;
            let is_reached = advanced.is_reached(&results);
            for result in results {
                match result {
                    Ok(()) => {
                        advanced.steps += 1;
                        advanced.retries += 1;
                    }
                    Err(error) => advanced.lost(error.into(), is_reached)?,
                }
            }
        }
    }

    /// A page of the payments that are due up to the moment of the query, the longest due first.
    pub async fn due_payments(&self, query: DuePayments) -> Result<Page<Arc<Payment>>, Error> {
        self.service.store().due_payments(query).await.map_err(Error::Store)
    }

    /// Requests a failed payment again at once, for example for a subscriber with a new card. The payment must still be
    /// at `version`, and is requested only once for each [`Idempotency`]. If `version` is `None`, every version is
    /// accepted; without an [`Idempotency`], each call requests it. The attempt does not count as a retry of the
    /// schedule.
    pub async fn retry_payment(
        &self,
        id: PaymentId,
        version: impl Into<Option<Version>> + Send,
        idempotency: impl Into<Option<Idempotency>> + Send,
    ) -> Result<Created<Payment>, Error> {
        let version = version.into();
        self.service.retry_payment(id, version, idempotency.into()).await
    }

    /// The steps that a subscription will take after `after`, up to `until`, if every payment is made at once. At most
    /// `limit` steps are returned, and also the steps at the same moment as the last of these. The boolean is true if
    /// there are more steps up to `until`.
    ///
    /// The list also contains the retries of payments that have failed and the end of these retries, as if each retry
    /// failed. These do not count towards `limit`.
    pub async fn timeline(
        &self,
        id: SubscriptionId,
        after: Timestamp,
        until: Timestamp,
        limit: PageLimit,
    ) -> Result<(Vec<Upcoming>, bool), Error> {
        let subscription = self.service.subscription(id).await?;
        if subscription.managed_by != ManagedBy::Clock {
            let managed = Managed { by: subscription.managed_by, fields: Vec::new() };
            return Err(Conflict::from(managed).into());
        }
        let mut upcoming = steps(Subscription::clone(&subscription), &self.policy, until)
            .filter(|step| step.at > after)
            .map(|step| Upcoming {
                at: step.at,
                step: step.kind,
                status: step.outcome.subscription.status,
                ask: step.outcome.ask,
            });
        let mut found: Vec<_> = upcoming.by_ref().take(limit.get()).collect();
        let mut next = upcoming.next();
        while let Some(step) = next.take_if(|step| found.last().is_some_and(|l| l.at == step.at)) {
            found.push(step);
            next = upcoming.next();
        }
        let until = next.as_ref().zip(found.last()).map_or(until, |(_, last)| last.at);
        let retries = self.retries(&subscription).await?;
        found.extend(retries.into_iter().filter(|retry| retry.at > after && retry.at <= until));
        found.sort_by_key(|step| step.at);
        Ok((found, next.is_some()))
    }

    /// The next payment that the clock will request for a subscription, if every payment is made at once. `None` if
    /// none of the next 24 steps requests a payment, or if the clock does not manage the subscription.
    pub fn next_charge(&self, subscription: &Subscription) -> Option<PaymentRequest> {
        if subscription.managed_by != ManagedBy::Clock {
            return None;
        }
        let upcoming = steps(subscription.clone(), &self.policy, Timestamp::MAX);
        upcoming.take(STEPS_TO_CHARGE).find_map(|step| step.outcome.ask)
    }

    /// The retries of the payments that have failed, as if each retry failed, and the end of these retries. Retries
    /// after the end of the subscription are left out.
    async fn retries(&self, of: &Subscription) -> Result<Vec<Upcoming>, Error> {
        let mut found = Vec::new();
        let is_past_due = of.status == SubscriptionStatus::PastDue;
        let mut ends = is_past_due || of.status == SubscriptionStatus::Cancelled;
        let upcoming = |at, step, status| Upcoming { at, step, status, ask: None };
        for payment in self.service.periods_of(of.id).await? {
            let mut retries = payment.asked.as_ref().map_or(0, |asked| asked.retries);
            let mut next = payment.next_attempt_at();
            while let Some(at) = next {
                let has_ended = of.ends_at.is_some_and(|ends_at| ends_at <= at);
                if has_ended || of.status == SubscriptionStatus::Expired {
                    ends = false;
                    break;
                }
                found.push(upcoming(at, StepKind::PaymentRetried, of.status));
                retries += 1;
                next = self.policy.dunning.next(retries).and_then(|span| span.after(at));
            }
        }
        if let Some(at) = found.iter().map(|retry| retry.at).max().filter(|_| ends) {
            let is_unpaid = is_past_due && self.policy.after_dunning == AfterDunning::Unpaid;
            let status =
                if is_unpaid { SubscriptionStatus::Unpaid } else { SubscriptionStatus::Expired };
            found.push(upcoming(at, StepKind::DunningEnded, status));
        }
        Ok(found)
    }
}

/// The change set of a payment that is requested again. It guards the subscription: if a report ends the subscription
/// at the same time, only one of the two commits succeeds.
fn retried(
    clock: &SubscriptionService,
    before: &Payment,
    next: Payment,
    paid_for: Option<&Subscription>,
    now: Timestamp,
) -> Result<ChangeSet, Error> {
    let key = Key::Subscription(before.subscription_id);
    let version = paid_for.map_or(Version::NEW, |paid_for| paid_for.version);
    let event =
        clock.event(Subject::Payment(next.id), next.version, before.change_to(&next), now)?;
    Ok(ChangeSet {
        guards: vec![Guard::Unchanged { key, version }],
        writes: vec![Record::from(next)],
        events: vec![event],
        ..ChangeSet::default()
    })
}
