//! A subscription lives through a year by the clock: a trial, twelve periods, a cancellation.
//!
//!     cargo run --example renewals

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use subscription_core::billing::{Billing, Policy};
use subscription_core::store::{PageLimit, PaymentQuery};
use subscription_core::{
    BillingCycle, Clock as _, ManualClock, MemoryStore, NewPlan, NewSubscription, PaymentChanges,
    PaymentStatus, SubscriptionService, SubscriptionStatus, UserId,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The clock is turned by hand here; a server uses the machine's clock, which is the default.
    let clock = ManualClock::at("2025-01-31T10:00:00Z".parse()?);
    let service = SubscriptionService::builder(MemoryStore::default()).clock(clock.clone()).build();
    let billing = Billing::new(service, Policy::default());
    let service = billing.service();

    // A plan with a currency is billed by the clock.
    let pro = NewPlan::new("Pro".parse()?, "pro".parse()?, "19.90".parse()?, BillingCycle::MONTHLY);
    let pro =
        NewPlan { currency: Some("EUR".parse()?), trial_period: Some("P14D".parse()?), ..pro };
    let pro = service.create_plan(pro).await?;
    let user = UserId::new(clock.now(), service.randomness())?;
    let subscription = service.create_subscription(NewSubscription::new(user, pro.id)).await?;

    println!("what will happen, if every payment is made:");
    let (now, year) = (clock.now(), "2026-01-31T10:00:00Z".parse()?);
    for step in billing.timeline(subscription.id, now, year, PageLimit::default()).await?.0 {
        let asked =
            step.ask.map_or_else(String::new, |ask| format!("{} {}", ask.amount, ask.currency));
        println!("  {} {:<14} {:<9} {asked}", step.at, step.step, step.status);
    }

    // The year passes. `advance` takes all steps that are due, and the payments that they request are made at once.
    while let Some(next) = billing.advance(200).await?.next_at.filter(|next| *next <= year) {
        clock.set(next);
        billing.advance(200).await?;
        let payments = service.payments(PaymentQuery::of(subscription.id)).await?.items;
        for payment in payments.iter().filter(|one| one.status == PaymentStatus::Pending) {
            let paid = PaymentChanges::status(PaymentStatus::Succeeded);
            service.update_payment(payment.id, paid).await?;
        }
    }

    // The subscription is cancelled, and ends with the period that is paid for.
    let cancelled = service.cancel(subscription.id).await?;
    assert_eq!(cancelled.status, SubscriptionStatus::Cancelled);
    clock.set(cancelled.ends_at.ok_or("a cancelled subscription has an end")?);
    billing.advance(200).await?;
    let ended = service.subscription(subscription.id).await?;
    assert_eq!(ended.status, SubscriptionStatus::Expired);

    let payments = service.payments(PaymentQuery::of(subscription.id)).await?.items;
    assert_eq!(payments.len(), 12);
    println!("{} payments, each for one period; it ended at {}", payments.len(), clock.now());
    Ok(())
}
