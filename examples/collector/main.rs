//! A collector: it charges exactly once each payment that the clock requests, even if it is killed at any step.
//!
//!     cargo run --example collector
//!
//! The clock requests money with a pending payment. A collector finds it, charges it at a payment gateway, and reports
//! the result; the service does the rest. `collect` is the part to copy. A test kills it at every read, every commit
//! and every charge.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

#[cfg(test)]
mod killed;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use subscription_core::billing::{Billing, Policy};
use subscription_core::store::{DuePayments, PageLimit};
use subscription_core::{
    Amount, BillingCycle, Clock as _, Currency, Error, ManualClock, MemoryStore, NewPlan,
    NewSubscription, Payment, PaymentChanges, PaymentStatus, SubscriptionService, UserId,
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

/// Collects every payment that is due. Any number of collectors may run at the same time.
pub(crate) async fn collect(billing: &Billing, gateway: &impl Gateway) -> Result<()> {
    // First the payments whose collection has begun: by this collector before it was killed, or by another one.
    for status in [PaymentStatus::Processing, PaymentStatus::Pending] {
        let mut query = DuePayments::until(status, billing.service().now());
        query = query.with_limit(PageLimit::MAX);
        loop {
            let page = billing.due_payments(query.clone()).await?;
            for payment in &page.items {
                collect_one(billing.service(), gateway, payment).await?;
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
    }
    Ok(())
}

async fn collect_one(
    service: &SubscriptionService,
    gateway: &impl Gateway,
    payment: &Payment,
) -> Result<()> {
    // 1. Begin. From here on a cancellation of the subscription leaves this payment open, and a change of an older
    // version is refused.
    let begun = PaymentChanges::status(PaymentStatus::Processing);
    let payment = match service.update_payment_if(payment.id, payment.version, begun).await {
        Ok(payment) => payment,
        // Another collector was faster, or the subscription was cancelled.
        Err(Error::Stale { .. } | Error::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };

    // 2. Charge. The key names the period and the attempt: it is the same after a crash, even if the service was
    // restored from a backup, and another one after a declined charge.
    let Some((key, attempt)) = payment.charge_key().zip(payment.attempt()) else { return Ok(()) };
    let key = format!("{key}/{attempt}");
    let paid = gateway.charge(&key, payment.amount, payment.currency).await?;

    // 3. Report. The change of the subscription is written in the same commit.
    let status = if paid { PaymentStatus::Succeeded } else { PaymentStatus::Failed };
    match service
        .update_payment_if(payment.id, payment.version, PaymentChanges::status(status))
        .await
    {
        // Another collector has charged under the same key, and has reported the same result.
        Ok(_) | Err(Error::Stale { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A gateway in memory: it repeats its result for a key that it has seen, and declines every fourth charge.
#[derive(Default)]
struct MemoryGateway(Mutex<BTreeMap<String, bool>>);

impl Gateway for MemoryGateway {
    async fn charge(&self, key: &str, amount: Amount, currency: Currency) -> Result<bool> {
        let mut charged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let declined = charged.len() % 4 == 3;
        let paid = *charged.entry(key.to_owned()).or_insert(!declined);
        println!("    {amount} {currency} {}", if paid { "paid" } else { "declined" });
        Ok(paid)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let clock = ManualClock::at("2025-01-31T10:00:00Z".parse()?);
    let service = SubscriptionService::builder(MemoryStore::default()).clock(clock.clone()).build();
    let billing = Billing::new(service, Policy::default());
    let (service, gateway) = (billing.service(), MemoryGateway::default());
    let pro = NewPlan::new("Pro".parse()?, "pro".parse()?, "19.90".parse()?, BillingCycle::MONTHLY);
    let pro = service.create_plan(NewPlan { currency: Some("EUR".parse()?), ..pro }).await?;
    let user = UserId::new(clock.now(), service.randomness())?;
    let subscription = service.create_subscription(NewSubscription::new(user, pro.id)).await?;

    // A server advances and collects in a loop. Here the clock jumps to the next due moment, for half a year.
    let end = "2025-07-31T10:00:00Z".parse()?;
    loop {
        let advanced = billing.advance(200).await?;
        println!("{}  {}", clock.now(), service.subscription(subscription.id).await?.status);
        collect(&billing, &gateway).await?;
        match billing.advance(0).await?.next_at.or(advanced.next_at) {
            Some(next) if next <= end => clock.set(next.max(clock.now())),
            _ => break,
        }
    }
    Ok(())
}
