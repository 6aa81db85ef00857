//! A billing job that charges every customer exactly once, even if it crashes between any two steps.
//!
//! Two keys make this safe. A payment's external id is made of the subscription and the day that is paid
//! for, so there is one payment for each period. The gateway's idempotency key is made of that id and the
//! payment's version, so it charges once for each attempt. Every step is recorded before the next one
//! begins: after a crash the subscription is still due, and the next run finds the steps that are done.

use std::sync::Arc;

use subscription_core::store::{Key, PageLimit, SubscriptionFilter, SubscriptionQuery};
use subscription_core::{
    Amount, Conflict, Currency, Error, ExternalId, NewPayment, Payment, PaymentChanges,
    PaymentStatus, Subscription, SubscriptionChanges, SubscriptionService,
    SubscriptionStatus as Status, Timestamp,
};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The payment gateway. All gateways have idempotency keys, such as the header `Idempotency-Key` of Stripe.
pub(crate) trait Gateway: Sync {
    /// Charges once for a key, and returns whether it was paid. A repeated key returns the first result. After
    /// an error it is not known whether anything was charged.
    fn charge(
        &self,
        key: &str,
        amount: Amount,
        currency: Currency,
    ) -> impl Future<Output = Result<bool>> + Send;
}

/// Whether a payment that failed is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    TryAgain,
    Stays,
}

/// Charges for the period that begins at `from`, and returns whether it is paid.
pub(crate) async fn charge(
    service: &SubscriptionService,
    gateway: &impl Gateway,
    subscription: &Subscription,
    from: Timestamp,
    refused: Refused,
) -> Result<bool> {
    let plan = service.plan_by_id(subscription.subscription_plan_id).await?;
    let id: ExternalId = format!("{}/{from}", subscription.id).parse()?;
    let mut new = NewPayment::new(subscription.id, plan.price, "EUR".parse()?);
    new.external_payment_id = Some(id.clone());
    new.status = Some(PaymentStatus::Processing);

    // 1. Create the payment. A second job gets the payment that the first one created.
    let mut payment = match service.create_payment(new).await {
        Ok(payment) => payment,
        Err(Error::Conflict(Conflict::Taken { holder: Key::Payment(id), .. })) => {
            service.payment(id).await?
        }
        Err(error) => return Err(error.into()),
    };
    match payment.status {
        PaymentStatus::Pending | PaymentStatus::Processing => {}
        PaymentStatus::Failed if refused == Refused::TryAgain => {
            payment = set(service, &payment, PaymentStatus::Processing).await?;
        }
        PaymentStatus::Failed | PaymentStatus::Canceled => return Ok(false),
        // Paid, even if it was refunded later.
        PaymentStatus::Succeeded
        | PaymentStatus::PartiallyRefunded
        | PaymentStatus::Refunded
        | PaymentStatus::Disputed => return Ok(true),
    }

    // 2. Charge. The version is the same after a crash, and another after a declined charge.
    let key = format!("{id}/{}", payment.version);
    let paid = gateway.charge(&key, payment.amount, payment.currency).await?;

    // 3. Record the result.
    let status = if paid { PaymentStatus::Succeeded } else { PaymentStatus::Failed };
    set(service, &payment, status).await?;
    Ok(paid)
}

/// Sets the status of a payment, unless it has changed since it was read.
async fn set(
    service: &SubscriptionService,
    read: &Payment,
    status: PaymentStatus,
) -> Result<Arc<Payment>> {
    let changes = PaymentChanges::status(status);
    Ok(service.update_payment_if(read.id, read.version, changes).await?)
}

/// The subscriptions with one of these statuses that are due at `now`.
///
/// The statuses matter: `renews_at` stays set on cancelled, expired and unpaid subscriptions.
pub(crate) async fn due(
    service: &SubscriptionService,
    statuses: &[Status],
    now: Timestamp,
) -> Result<Vec<Arc<Subscription>>> {
    let filter =
        SubscriptionFilter::default().with_statuses(statuses.to_vec()).with_renews_before(now);
    let mut query = SubscriptionQuery::default().with_filter(filter).with_limit(PageLimit::MAX);
    let mut due = Vec::new();
    loop {
        let page = service.subscriptions(query.clone()).await?;
        due.extend(page.items);
        query.after = page.next;
        if query.after.is_none() {
            return Ok(due);
        }
    }
}

/// Charges a subscription that is due and updates it. Returns whether it is paid.
///
/// If paid, it renews one period later; a subscription that is two periods late is due again at once. If
/// not, it is past due for the same period, whose payment [`Refused::TryAgain`] tries again.
pub(crate) async fn renew(
    service: &SubscriptionService,
    gateway: &impl Gateway,
    subscription: &Subscription,
    refused: Refused,
) -> Result<bool> {
    let Some(from) = subscription.renews_at else { return Ok(true) };
    let paid = charge(service, gateway, subscription, from, refused).await?;

    // 4. Update the subscription, unless it has changed since it was read.
    let changes = if paid {
        let renews_at = subscription.schedule().next_after(from).into();
        SubscriptionChanges { renews_at, ..SubscriptionChanges::status(Status::Active) }
    } else {
        SubscriptionChanges::status(Status::PastDue)
    };
    service.update_subscription_if(subscription.id, subscription.version, changes).await?;
    Ok(paid)
}
