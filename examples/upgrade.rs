//! A subscriber upgrades, downgrades, and moves to payment by the year. Each change costs what its preview says.
//!
//!     cargo run --example upgrade

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::sync::Arc;

use subscription_core::billing::{Billing, Policy};
use subscription_core::store::PaymentQuery;
use subscription_core::{
    BillingCycle, ManualClock, MemoryStore, NewPlan, NewSubscription, PaymentChanges,
    PaymentStatus, Plan, PlanChange, SubscriptionId, SubscriptionService, UserId,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

async fn plan(billing: &Billing, slug: &str, price: &str, by: BillingCycle) -> Result<Arc<Plan>> {
    let plan = NewPlan::new(slug.parse()?, slug.parse()?, price.parse()?, by);
    let plan = NewPlan { currency: Some("USD".parse()?), ..plan };
    Ok(billing.service().create_plan(plan).await?)
}

/// Pays the payments that were requested, as a collector does, and returns the amounts.
async fn pay(billing: &Billing, id: SubscriptionId) -> Result<Vec<String>> {
    let mut amounts = Vec::new();
    for payment in billing.service().payments(PaymentQuery::of(id)).await?.items {
        if payment.status == PaymentStatus::Pending {
            let paid = PaymentChanges::status(PaymentStatus::Succeeded);
            billing.service().update_payment(payment.id, paid).await?;
            amounts.push(payment.amount.to_string());
        }
    }
    println!("  paid: {amounts:?}");
    Ok(amounts)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let clock = ManualClock::at("2026-04-01T00:00:00Z".parse()?);
    let service = SubscriptionService::builder(MemoryStore::default()).clock(clock.clone()).build();
    let billing = Billing::new(service, Policy::default());
    let starter = plan(&billing, "starter", "9.99", BillingCycle::MONTHLY).await?;
    let pro = plan(&billing, "pro", "29.99", BillingCycle::MONTHLY).await?;
    let yearly = plan(&billing, "starter-yearly", "99.00", BillingCycle::YEARLY).await?;
    let user: UserId = "8f14e45f-ceea-467f-ab3c-2d9c5b1a4e77".parse()?;
    let new = NewSubscription::new(user, starter.id);
    let id = billing.service().create_subscription(new).await?.id;
    assert_eq!(pay(&billing, id).await?, ["9.99"]);

    // Upgrade: a preview writes nothing. With `as_quoted` the change costs what was agreed to, or is refused.
    clock.set("2026-04-11T00:00:00Z".parse()?);
    let upgrade = PlanChange::to_plan(pro.id);
    let quote = billing.preview_plan_change(id, &upgrade).await?;
    println!("upgrade: {} {} to pay now", quote.amount_due, quote.currency);
    clock.set("2026-04-11T00:10:00Z".parse()?);
    billing.change_plan(id, &upgrade.as_quoted(&quote)).await?;
    assert_eq!(pay(&billing, id).await?, ["13.33"]);

    // Downgrade: the difference is credit, which the next periods use.
    clock.set("2026-04-21T00:00:00Z".parse()?);
    let downgraded = billing.change_plan(id, &PlanChange::to_plan(starter.id)).await?;
    let credit = downgraded.credit().unwrap_or_default().to_string();
    println!("downgrade: nothing to pay, and a credit of {credit}");
    assert_eq!((credit.as_str(), pay(&billing, id).await?), ("6.67", vec![]));

    // A change at the end of the period: its price is fixed now, and the running period is not settled.
    billing.change_plan(id, &PlanChange::to_plan(yearly.id).at_period_end()).await?;
    clock.set("2026-05-01T00:00:00Z".parse()?);
    billing.advance(200).await?;
    let changed = billing.service().subscription(id).await?;
    assert_eq!(changed.renews_at, Some("2027-05-01T00:00:00Z".parse()?));
    println!("by the year: 99.00 less the credit");
    assert_eq!(pay(&billing, id).await?, ["92.33"]);
    Ok(())
}
