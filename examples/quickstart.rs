//! The life of a subscription, in memory: created, paid, renewed, cancelled, ended.
//!
//!     cargo run --example quickstart
//!
//! Shows a plan being published, a user subscribing on 31 January, a payment, two renewals that keep
//! to the month's last day, a cancellation, and the access of the user before and after the end. The
//! clock is set by hand.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use subscription_core::store::PageLimit;
use subscription_core::{
    BillingCycle, ManualClock, MemoryStore, NewPayment, NewPlan, NewSubscription, PaymentChanges,
    PaymentStatus, SubscriptionChanges, SubscriptionService, SubscriptionStatus, SystemRandomness,
    UserId,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::at("2025-01-31T09:00:00Z".parse()?);
    let service = SubscriptionService::builder(MemoryStore::default()).clock(clock.clone()).build();

    let mut pro =
        NewPlan::new("Pro".parse()?, "pro".parse()?, "19.90".parse()?, BillingCycle::MONTHLY);
    pro.features = "api, sso, audit log".parse()?;
    let plan = service.create_plan(pro).await?;
    println!("published {} for {} {}", plan.name, plan.price, plan.billing_cycle);

    let ada = UserId::new(service.now(), &SystemRandomness)?;
    let new = NewSubscription::new(ada, plan.id);
    let mut subscription = service.create_subscription(new).await?;
    println!("subscribed on {}: {}", subscription.starts_at, subscription.status);

    let new = NewPayment::new(subscription.id, plan.price, "USD".parse()?);
    let payment = service.create_payment(new).await?;
    let paid = PaymentChanges::status(PaymentStatus::Succeeded);
    let payment = service.update_payment(payment.id, paid).await?;
    println!("payment of {} {}: {}", payment.amount, payment.currency, payment.status);

    let april = "2025-04-01T00:00:00Z".parse()?;
    while let Some(due) = subscription.renews_at.filter(|due| *due < april) {
        clock.set(due);
        let renews_at = subscription.schedule().next_after(due).into();
        let renewal = SubscriptionChanges { renews_at, ..SubscriptionChanges::default() };
        subscription = service.update_subscription(subscription.id, renewal).await?;
        println!("renewed on {due}");
    }

    let cancel = SubscriptionChanges::status(SubscriptionStatus::Cancelled);
    subscription = service.update_subscription(subscription.id, cancel).await?;
    let end = subscription.ends_at.ok_or("a cancelled subscription has an end")?;
    println!("cancelled on {}, valid until {end}", service.now());

    let features: Vec<_> = service.entitlement(ada).await?.features().map(String::from).collect();
    println!("until then ada may use: {}", features.join(", "));
    clock.set(end);
    println!("then has access: {}", service.entitlement(ada).await?.has_access());

    println!("\nwhat happened, from the feed of events:");
    for recorded in service.events(0, PageLimit::MAX).await? {
        println!("{:>3}  {}  {}", recorded.sequence, recorded.event.at, recorded.event.name());
    }
    Ok(())
}
