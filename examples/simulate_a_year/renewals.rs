//! Charges through a gateway, so that a crash between any two steps charges nobody twice and forgets nobody.
//!
//! Two names make it so. A payment's external id is made of the subscription and of the day that is paid
//! for, so that there is one payment for each period, whoever asks for it and however often. And the
//! gateway is asked under a key that is made of that id and of the payment's version, so that it
//! charges once for each attempt. Every step is written down before the next one is taken: after a crash
//! the subscription is still due, the next run does all of it again, and finds what is done.

use std::sync::Arc;

use subscription_core::store::{Key, PageLimit, SubscriptionFilter, SubscriptionQuery};
use subscription_core::{
    Amount, Conflict, Currency, Error, ExternalId, NewPayment, Payment, PaymentChanges,
    PaymentStatus, Subscription, SubscriptionChanges, SubscriptionService,
    SubscriptionStatus as Status, Timestamp,
};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The payment provider. All gateways know keys like this: `Idempotency-Key` at Stripe, for one.
pub(crate) trait Gateway: Sync {
    /// Charges once for a key, and says whether the money came. For a key that it has seen, it says what
    /// it said then. An error leaves open whether anything was charged.
    fn charge(
        &self,
        key: &str,
        amount: Amount,
        currency: Currency,
    ) -> impl Future<Output = Result<bool>> + Send;
}

/// Whether a payment that was refused is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    TryAgain,
    Stays,
}

/// Charges for the period of a subscription that begins at `from`, and says whether that is paid.
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

    // 1. Write down that it is asked for. Whoever comes second is given the payment that there is.
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
        // Paid, whatever became of it later.
        PaymentStatus::Succeeded
        | PaymentStatus::PartiallyRefunded
        | PaymentStatus::Refunded
        | PaymentStatus::Disputed => return Ok(true),
    }

    // 2. Charge. The version is that of this attempt: the same after a crash, another after a refusal.
    let key = format!("{id}/{}", payment.version);
    let paid = gateway.charge(&key, payment.amount, payment.currency).await?;

    // 3. Write down what became of it.
    let status = if paid { PaymentStatus::Succeeded } else { PaymentStatus::Failed };
    set(service, &payment, status).await?;
    Ok(paid)
}

/// Moves a payment on, if nobody has since it was read.
async fn set(
    service: &SubscriptionService,
    read: &Payment,
    status: PaymentStatus,
) -> Result<Arc<Payment>> {
    let changes = PaymentChanges::status(status);
    Ok(service.update_payment_if(read.id, read.version, changes).await?)
}

/// The subscriptions in one of these states that are due at `now`.
///
/// Always with the states: `renews_at` stays on what was cancelled, expired or given up, too.
pub(crate) async fn due(
    service: &SubscriptionService,
    statuses: &[Status],
    now: Timestamp,
) -> Result<Vec<Arc<Subscription>>> {
    let filter = SubscriptionFilter {
        statuses: statuses.to_vec(),
        renews_before: Some(now),
        ..SubscriptionFilter::default()
    };
    let mut query =
        SubscriptionQuery { filter, limit: PageLimit::MAX, ..SubscriptionQuery::default() };
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

/// Charges a subscription that is due, and moves it on; says whether it is paid.
///
/// Paid, it renews one period later: what was due for two is due again at once. Refused, it falls behind
/// and stays due for the same period, whose payment [`Refused::TryAgain`] asks for again.
pub(crate) async fn renew(
    service: &SubscriptionService,
    gateway: &impl Gateway,
    subscription: &Subscription,
    refused: Refused,
) -> Result<bool> {
    let Some(from) = subscription.renews_at else { return Ok(true) };
    let paid = charge(service, gateway, subscription, from, refused).await?;

    // 4. Move the subscription on, if nobody has since it was read.
    let changes = if paid {
        let renews_at = subscription.schedule().next_after(from).into();
        SubscriptionChanges { renews_at, ..SubscriptionChanges::status(Status::Active) }
    } else {
        SubscriptionChanges::status(Status::PastDue)
    };
    service.update_subscription_if(subscription.id, subscription.version, changes).await?;
    Ok(paid)
}
