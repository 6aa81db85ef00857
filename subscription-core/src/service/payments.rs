//! What can be done with payments.

use crate::store::StoreExt as _;
use crate::subscriptions::Subscription;
use std::sync::Arc;

use super::{Created, Known, Request, SubscriptionService, expect_version, found};
use crate::error::Error;
use crate::events::Change;
use crate::payments::{NewPayment, Payment, PaymentChanges};
use crate::store::{Guard, Idempotency, Key, Operation, Page, PaymentQuery};
use crate::values::faults::{FaultCode, Faults, InvalidValue};
use crate::values::id::{PaymentId, SubscriptionId};
use crate::values::version::Version;

/// # Payments
impl SubscriptionService {
    /// Makes a payment for a subscription; with `once`, the same request makes it no second time.
    pub async fn create_payment(
        &self,
        new: NewPayment,
        once: Option<Idempotency>,
    ) -> Result<Created<Payment>, Error> {
        let request = Request::new(Operation::CreatePayment, once, &new);
        self.retrying(|| async {
            let version = match self.known(request.as_ref()).await? {
                Known::Answered(created) => return Ok(created),
                Known::Fresh(version) => version,
            };
            let now = self.now();
            let guard = self.referenced_subscription(new.subscription_id).await;
            let payment = Payment::create(new.clone(), PaymentId::new(now, self.ids())?, now);
            let (guard, payment) = Error::all_faults(guard, payment.map_err(Error::Invalid))?;
            self.commit_new(payment, vec![guard], request.as_ref(), version, now).await
        })
        .await
    }

    /// The payment of an id.
    pub async fn payment(&self, id: PaymentId) -> Result<Arc<Payment>, Error> {
        found(self.store().get_as::<Payment>(&id).await, "payment", id)
    }

    /// A page of the payments of a subscription, which may have been deleted meanwhile.
    pub async fn payments(&self, query: &PaymentQuery) -> Result<Page<Arc<Payment>>, Error> {
        if query.after.as_ref().is_some_and(|position| !PaymentQuery::fits(position)) {
            return Err(Error::WrongPosition);
        }
        self.store().list_as::<Payment>(query.clone()).await.map_err(Error::Store)
    }

    /// Changes a payment, with `if_version` only if it is still at that version.
    ///
    /// Changes that change nothing write nothing.
    pub async fn update_payment(
        &self,
        id: PaymentId,
        changes: PaymentChanges,
        if_version: Option<Version>,
    ) -> Result<Arc<Payment>, Error> {
        self.retrying_on(Key::Payment(id), || async {
            let current = self.payment(id).await?;
            expect_version(&*current, if_version)?;
            let now = self.now();
            let moved = changes.subscription_id.filter(|id| *id != current.subscription_id);
            let next = current.change(changes.clone(), now).map_err(Error::from);
            let (guards, next) = match moved {
                Some(id) => {
                    let guard = self.referenced_subscription(id).await;
                    let (guard, next) = Error::all_faults(guard, next)?;
                    (vec![guard], next)
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
    pub async fn delete_payment(
        &self,
        id: PaymentId,
        if_version: Option<Version>,
    ) -> Result<(), Error> {
        self.retrying_on(Key::Payment(id), || async {
            let payment = self.payment(id).await?;
            expect_version(&*payment, if_version)?;
            self.commit_deleted(&*payment, Vec::new()).await
        })
        .await
    }

    /// The subscription is there, and goes on to be until the commit.
    async fn referenced_subscription(&self, id: SubscriptionId) -> Result<Guard, Error> {
        let found = self.store().get_as::<Subscription>(&id).await?;
        let found = found.ok_or_else(|| {
            let message = "must be an existing subscription";
            let refused = InvalidValue::new(FaultCode::UnknownReference, message);
            Faults::from(refused.at("subscription_id"))
        })?;
        Ok(Guard::Unchanged { key: Key::Subscription(id), version: found.version })
    }
}
