//! Methods for payments.

use std::sync::Arc;

use super::idempotency::{Decision, IdempotentRequest};
use super::{
    Created, OtherPayments, PaymentReport, ReportOutcome, SubscriptionService, expect_version,
    found,
};
use crate::error::{Conflict, Error};
use crate::payments::{NewPayment, Payment, PaymentChanges, PaymentStatus, RequestedPayment};
use crate::plans::BillingCycle;
use crate::store::{
    ChangeSet, Guard, Idempotency, Key, Operation, Page, PaymentQuery, StoreExt as _,
};
use crate::subscriptions::{Managed, ManagedBy, Subscription};
use crate::values::{FaultCode, PaymentId, SubscriptionId, Timestamp, Version};

/// # Payments
impl SubscriptionService {
    /// Creates a payment for a subscription.
    pub async fn create_payment(&self, new: NewPayment) -> Result<Arc<Payment>, Error> {
        Ok(self.create_payment_once(new, None::<Idempotency>).await?.record)
    }

    /// Creates a payment for a subscription, only once for each [`Idempotency`]. Without an [`Idempotency`], each call
    /// creates a payment.
    pub async fn create_payment_once(
        &self,
        new: NewPayment,
        idempotency: impl Into<Option<Idempotency>> + Send,
    ) -> Result<Created<Payment>, Error> {
        let new = &new;
        self.create(Operation::CreatePayment, idempotency.into(), new, |now| async move {
            let paid_for = self.referenced_subscription(new.subscription_id).await;
            let id = PaymentId::new(now, self.randomness())?;
            let paid_for_cycle = paid_for.as_ref().map(|paid_for| paid_for.billing_cycle);
            // If the subscription does not exist, the rest of the input is still checked, to return all faults at once.
            let cycle = paid_for_cycle.unwrap_or(BillingCycle::MONTHLY);
            let payment = Payment::create(new.clone(), cycle, id, now).map_err(Error::Invalid);
            let (paid_for, payment) = Error::all_faults(paid_for, payment)?;
            let guards = vec![unchanged(&paid_for)];
            Ok((payment, ChangeSet { guards, ..ChangeSet::default() }))
        })
        .await
    }

    /// The payment with this id.
    pub async fn payment(&self, id: PaymentId) -> Result<Arc<Payment>, Error> {
        found(self.store().get_as::<Payment>(&id).await, "payment", id)
    }

    /// A page of payments. It may also contain payments of subscriptions that were deleted.
    pub async fn payments(&self, query: PaymentQuery) -> Result<Page<Arc<Payment>>, Error> {
        if query.after.as_ref().is_some_and(|position| !PaymentQuery::fits(position)) {
            return Err(Error::WrongPosition);
        }
        self.store().readable_as::<Payment>(query).await.map_err(Error::Store)
    }

    /// A page of the payments of a subscription. The result is [`Error::NotFound`] if the subscription does not exist
    /// and has no payments from the time before it was deleted.
    pub async fn payments_of_subscription(
        &self,
        query: PaymentQuery,
    ) -> Result<Page<Arc<Payment>>, Error> {
        let of = query.subscription_id;
        let is_first = query.after.is_none();
        let page = self.payments(query).await?;
        let Some(id) = of else { return Ok(page) };
        let is_empty = |page: &Page<_>| page.items.is_empty() && page.damaged.is_empty();
        let has_none =
            is_empty(&page) && (is_first || is_empty(&self.payments(PaymentQuery::of(id)).await?));
        if has_none {
            self.subscription(id).await?;
        }
        Ok(page)
    }

    /// Changes a payment. If no field would get a different value, nothing is written.
    pub async fn update_payment(
        &self,
        id: PaymentId,
        changes: PaymentChanges,
    ) -> Result<Arc<Payment>, Error> {
        self.update_payment_if(id, None::<Version>, changes).await
    }

    /// Changes a payment if it is still at `version`. If `version` is `None`, every version is accepted.
    ///
    /// If the payment pays for a period, and the clock manages its subscription, a new status is a *report*: the rules
    /// of billing decide how the subscription changes too, and both records are written in one commit.
    pub async fn update_payment_if(
        &self,
        id: PaymentId,
        version: impl Into<Option<Version>> + Send,
        changes: PaymentChanges,
    ) -> Result<Arc<Payment>, Error> {
        let version = version.into();
        let (payment, moved) = self.update_payment_and_subscription(id, version, changes).await?;
        if let Some(moved) = moved {
            self.take_due_steps(moved).await;
        }
        Ok(payment)
    }

    /// Changes a payment, and also its subscription if the clock manages it and the status of the payment changes.
    async fn update_payment_and_subscription(
        &self,
        id: PaymentId,
        version: Option<Version>,
        changes: PaymentChanges,
    ) -> Result<(Arc<Payment>, Option<Arc<Subscription>>), Error> {
        self.retrying_on(Key::Payment(id), || async {
            let current = self.payment(id).await?;
            expect_version(&*current, version)?;
            let now = self.now();
            self.refuse_provider_fields(&current, &changes).await?;
            let moved = changes.subscription_id.filter(|id| *id != current.subscription_id);
            let next = current.change(changes.clone(), now).map_err(Error::from);
            let (guards, next) = match moved {
                Some(id) => {
                    let paid_for = self.referenced_subscription(id).await;
                    let (paid_for, next) = Error::all_faults(paid_for, next)?;
                    (vec![unchanged(&paid_for)], next)
                }
                None => (Vec::new(), next?),
            };
            let Some(next) = next else { return Ok((current, None)) };
            let is_report = next.to_collect().is_some()
                && (next.status != current.status
                    || next.next_attempt_at() != current.next_attempt_at());
            let paid_for = if is_report { self.on_clock(&current).await? } else { None };
            let Some(paid_for) = paid_for else {
                let change = current.change_to(&next);
                return Ok((self.commit_changed(next, change, guards, now).await?, None));
            };
            let next_attempt_at = changes.next_attempt_at;
            let report = PaymentReport { before: &current, after: next, next_attempt_at };
            self.commit_report(report, &paid_for, now).await
        })
        .await
    }

    /// Requests a failed payment again at once; see `Billing::retry_payment`.
    pub(crate) async fn retry_payment(
        &self,
        id: PaymentId,
        version: Option<Version>,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Payment>, Error> {
        let request = IdempotentRequest::new(Operation::RetryPayment, idempotency, &id);
        self.retrying_on(Key::Payment(id), || {
            self.once(request.as_ref(), || async {
                let current = self.payment(id).await?;
                expect_version(&*current, version)?;
                let now = self.now();
                let paid_for =
                    self.store().get_as::<Subscription>(&current.subscription_id).await?;
                let by =
                    paid_for.as_ref().map_or(ManagedBy::Caller, |paid_for| paid_for.managed_by);
                let on_clock = paid_for.filter(|_| by == ManagedBy::Clock);
                let (Some(paid_for), Some(asked)) = (on_clock, current.to_collect()) else {
                    // A payment that pays for no period is managed by callers, even if the clock manages its
                    // subscription.
                    let is_theirs = by == ManagedBy::Provider || current.is_mirrored();
                    let by = if is_theirs { ManagedBy::Provider } else { ManagedBy::Caller };
                    let managed = Managed { by, fields: Vec::new() };
                    return Err(Conflict::from(managed).into());
                };
                current.status.step(PaymentStatus::Pending).map_err(Conflict::from)?;
                if current.status == PaymentStatus::Pending {
                    return Ok(Decision { record: current, write: None, now });
                }
                let asked = RequestedPayment {
                    due_at: now,
                    attempt: asked.attempt.saturating_add(1),
                    next_attempt_at: None,
                    ..RequestedPayment::clone(asked)
                };
                let next = Arc::new(Payment {
                    status: PaymentStatus::Pending,
                    asked: Some(Box::new(asked)),
                    updated_at: now,
                    version: current.version.next(),
                    ..Payment::clone(&current)
                });
                let with = ChangeSet { guards: vec![unchanged(&paid_for)], ..ChangeSet::default() };
                let write = Some((current.change_to(&next), with));
                Ok(Decision { record: next, write, now })
            })
        })
        .await
    }

    /// Refuses all changes except those of the metadata, if a provider collects the payment and manages its
    /// subscription.
    async fn refuse_provider_fields(
        &self,
        current: &Payment,
        changes: &PaymentChanges,
    ) -> Result<(), Error> {
        let fields = current.provider_fields(changes);
        // A payment that a provider collects always has an external id. `is_mirrored` is not used here: it is true only
        // for payments that pay for a period, and a provider also collects payments that pay for no period.
        if current.external_payment_id.is_none() || fields.is_empty() {
            return Ok(());
        }
        let paid_for = self.store().get_as::<Subscription>(&current.subscription_id).await?;
        let by = ManagedBy::Provider;
        if paid_for.is_some_and(|paid_for| paid_for.managed_by == by) {
            return Err(Conflict::from(Managed { by, fields }).into());
        }
        Ok(())
    }

    /// The subscription of a payment; `None` if the clock does not manage it.
    async fn on_clock(&self, payment: &Payment) -> Result<Option<Arc<Subscription>>, Error> {
        let found = self.store().get_as::<Subscription>(&payment.subscription_id).await?;
        Ok(found.filter(|found| found.managed_by == ManagedBy::Clock))
    }

    /// Commits a report. The subscription is written or guarded, so that two reports never interleave.
    async fn commit_report(
        &self,
        report: PaymentReport<'_>,
        paid_for: &Subscription,
        now: Timestamp,
    ) -> Result<(Arc<Payment>, Option<Arc<Subscription>>), Error> {
        let before = report.before;
        let others = if report.after.status == PaymentStatus::Failed
            || paid_for.past_due_since().is_some()
        {
            others(self.periods_of(paid_for.id).await?.iter().filter(|other| other.id != before.id))
        } else {
            OtherPayments::default()
        };
        let ReportOutcome { payment, subscription } =
            self.rules().report(report, paid_for, others, now);
        let change = before.change_to(&payment);
        let payment = Arc::new(payment);
        let Some(mut outcome) = subscription else {
            let with = ChangeSet { guards: vec![unchanged(paid_for)], ..ChangeSet::default() };
            return Ok((self.commit(payment, change, with, now).await?, None));
        };
        let mut with = self.change_set(&payment, change, ChangeSet::default(), now)?;
        self.move_live_key_of_step(&mut outcome, &mut with, now).await?;
        Ok((payment, Some(self.commit_outcome(outcome, with, now).await?)))
    }

    /// Deletes a payment.
    pub async fn delete_payment(&self, id: PaymentId) -> Result<(), Error> {
        self.delete_payment_if(id, None::<Version>).await
    }

    /// Deletes a payment if it is still at `version`. If `version` is `None`, every version is accepted.
    pub async fn delete_payment_if(
        &self,
        id: PaymentId,
        version: impl Into<Option<Version>> + Send,
    ) -> Result<(), Error> {
        let version = version.into();
        self.retrying_on(Key::Payment(id), || async {
            let payment = self.payment(id).await?;
            expect_version(&*payment, version)?;
            let under_way =
                payment.status == PaymentStatus::Processing && payment.to_collect().is_some();
            if (payment.is_open() || under_way) && self.on_clock(&payment).await?.is_some() {
                return Err(Conflict::PaymentOfPeriod { fields: Vec::new() }.into());
            }
            self.commit_deleted(&*payment, ChangeSet::default()).await
        })
        .await
    }

    /// Checks that the subscription exists.
    async fn referenced_subscription(
        &self,
        id: SubscriptionId,
    ) -> Result<Arc<Subscription>, Error> {
        let found = self.store().get_as::<Subscription>(&id).await?;
        found.ok_or_else(|| {
            Error::invalid(
                FaultCode::UnknownReference,
                "must be an existing subscription",
                "subscription_id",
            )
        })
    }
}

/// The state of the other payments of a subscription, as the rules of billing need it.
fn others<'p>(payments: impl Iterator<Item = &'p Arc<Payment>>) -> OtherPayments {
    payments.filter(|payment| payment.is_behind()).fold(
        OtherPayments::default(),
        |others, payment| {
            let is_over =
                payment.status == PaymentStatus::Failed && payment.next_attempt_at().is_none();
            OtherPayments { behind: true, to_try: others.to_try || !is_over }
        },
    )
}

/// The guard that a subscription is not changed before the commit.
pub(super) fn unchanged(subscription: &Subscription) -> Guard {
    Guard::Unchanged { key: Key::Subscription(subscription.id), version: subscription.version }
}
