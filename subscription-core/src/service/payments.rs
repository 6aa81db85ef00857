//! Methods for payments.

use std::sync::Arc;

use super::{Created, SubscriptionService, expect_version, found};
use crate::error::Error;
use crate::events::Change;
use crate::payments::{NewPayment, Payment, PaymentChanges};
use crate::plans::BillingCycle;
use crate::store::{Guard, Idempotency, Key, Operation, Page, PaymentQuery, StoreExt as _};
use crate::subscriptions::Subscription;
use crate::values::faults::{FaultCode, Faults, InvalidValue};
use crate::values::id::{PaymentId, SubscriptionId};
use crate::values::version::Version;

/// # Payments
impl SubscriptionService {
    /// Creates a payment for a subscription.
    pub async fn create_payment(&self, new: NewPayment) -> Result<Arc<Payment>, Error> {
        Ok(self.create_payment_once(new, None::<Idempotency>).await?.record)
    }

    /// Creates a payment for a subscription, once for each [`Idempotency`]; with `None`, each
    /// time.
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
            // Without a subscription the rest is checked all the same, to return all faults at once.
            let cycle = paid_for_cycle.unwrap_or(BillingCycle::MONTHLY);
            let payment = Payment::create(new.clone(), cycle, id, now).map_err(Error::Invalid);
            let (paid_for, payment) = Error::all_faults(paid_for, payment)?;
            Ok((payment, vec![unchanged(&paid_for)]))
        })
        .await
    }

    /// The payment with this id.
    pub async fn payment(&self, id: PaymentId) -> Result<Arc<Payment>, Error> {
        found(self.store().get_as::<Payment>(&id).await, "payment", id)
    }

    /// A page of the payments of a subscription, which may have been deleted meanwhile.
    pub async fn payments(&self, query: PaymentQuery) -> Result<Page<Arc<Payment>>, Error> {
        if query.after.as_ref().is_some_and(|position| !PaymentQuery::fits(position)) {
            return Err(Error::WrongPosition);
        }
        self.store().list_as::<Payment>(query).await.map_err(Error::Store)
    }

    /// A page of the payments of a subscription. It is not found if it neither exists nor has payments from
    /// before it was deleted.
    pub async fn payments_of_subscription(
        &self,
        query: PaymentQuery,
    ) -> Result<Page<Arc<Payment>>, Error> {
        let (id, is_first) = (query.subscription_id, query.after.is_none());
        let page = self.payments(query).await?;
        let has_none = page.items.is_empty()
            && (is_first || self.payments(PaymentQuery::of(id)).await?.items.is_empty());
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

    /// Changes a payment if it is still at `version`; with `None`, at any version.
    pub async fn update_payment_if(
        &self,
        id: PaymentId,
        version: impl Into<Option<Version>> + Send,
        changes: PaymentChanges,
    ) -> Result<Arc<Payment>, Error> {
        let version = version.into();
        self.retrying_on(Key::Payment(id), || async {
            let current = self.payment(id).await?;
            expect_version(&*current, version)?;
            let now = self.now();
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
            let Some(next) = next else { return Ok(current) };
            let change = if next.status == current.status {
                Change::Updated { fields: current.changed_fields(&next) }
            } else {
                Change::PaymentStatusChanged { from: current.status, to: next.status }
            };
            self.commit_changed(next, change, guards, now).await
        })
        .await
    }

    /// Deletes a payment.
    pub async fn delete_payment(&self, id: PaymentId) -> Result<(), Error> {
        self.delete_payment_if(id, None::<Version>).await
    }

    /// Deletes a payment if it is still at `version`; with `None`, at any version.
    pub async fn delete_payment_if(
        &self,
        id: PaymentId,
        version: impl Into<Option<Version>> + Send,
    ) -> Result<(), Error> {
        let version = version.into();
        self.retrying_on(Key::Payment(id), || async {
            let payment = self.payment(id).await?;
            expect_version(&*payment, version)?;
            self.commit_deleted(&*payment, Vec::new()).await
        })
        .await
    }

    /// Checks that the subscription exists.
    async fn referenced_subscription(
        &self,
        id: SubscriptionId,
    ) -> Result<Arc<Subscription>, Error> {
        let found = self.store().get_as::<Subscription>(&id).await?;
        Ok(found.ok_or_else(|| {
            let message = "must be an existing subscription";
            let refused = InvalidValue::new(FaultCode::UnknownReference, message);
            Faults::from(refused.at("subscription_id"))
        })?)
    }
}

/// The guard that a subscription is not changed before the commit.
fn unchanged(subscription: &Subscription) -> Guard {
    Guard::Unchanged { key: Key::Subscription(subscription.id), version: subscription.version }
}
