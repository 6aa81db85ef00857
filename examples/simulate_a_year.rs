//! A year of a thousand subscriptions that pay, fall behind and leave.
//!
//!     cargo run --example simulate_a_year            # seed 1
//!     cargo run --example simulate_a_year -- 7       # another year
//!
//! The clock is set by hand, and all chance comes from one seed: a year takes a moment, and the same seed repeats it.
//! The billing moves the subscriptions; this program only turns the clock, reports payments and cancels subscriptions.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use subscription_core::billing::{Billing, Policy};
use subscription_core::store::{
    DuePayments, PageLimit, PaymentQuery, SubscriptionFilter, SubscriptionQuery,
};
use subscription_core::{
    BillingCycle, Clock as _, ManualClock, MemoryStore, NewPlan, NewSubscription, PaymentChanges,
    PaymentStatus, Randomness, SeededRandomness, Subscription, SubscriptionService,
    SubscriptionStatus as Status, UserId,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// True in `times` of a thousand cases.
fn happens(random: &dyn Randomness, times: u64) -> Result<bool> {
    let mut bytes = [0; 8];
    random.fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes) % 1_000 < times)
}

/// All subscriptions with one of these statuses, page by page.
async fn all(
    service: &SubscriptionService,
    statuses: impl IntoIterator<Item = Status>,
) -> Result<Vec<Arc<Subscription>>> {
    let filter = SubscriptionFilter::default().with_statuses(Vec::from_iter(statuses));
    let mut query = SubscriptionQuery::default().with_filter(filter).with_limit(PageLimit::MAX);
    let mut all = Vec::new();
    loop {
        let page = service.subscriptions(query.clone()).await?;
        all.extend(page.items);
        query.after = page.next;
        if query.after.is_none() {
            return Ok(all);
        }
    }
}

/// Reports every payment that is due: most first attempts are paid, and fewer of the retries.
async fn collect(billing: &Billing, random: &dyn Randomness) -> Result<()> {
    let now = billing.service().now();
    let due = DuePayments::until(PaymentStatus::Pending, now).with_limit(PageLimit::MAX);
    loop {
        let page = billing.due_payments(due.clone()).await?.items;
        for payment in &page {
            let first = payment.attempt() == Some(1);
            let paid = happens(random, if first { 940 } else { 400 })?;
            let status = if paid { PaymentStatus::Succeeded } else { PaymentStatus::Failed };
            billing.service().update_payment(payment.id, PaymentChanges::status(status)).await?;
        }
        if page.is_empty() {
            return Ok(());
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let seed = std::env::args().nth(1).unwrap_or_else(|| "1".to_owned());
    let seed = seed.parse().map_err(|_| format!("{seed:?} is not a whole number"))?;
    let random = Arc::new(SeededRandomness::new(seed));
    let clock = ManualClock::at("2025-01-01T06:00:00Z".parse()?);
    let service = SubscriptionService::builder(MemoryStore::default())
        .clock(clock.clone())
        .randomness(Arc::clone(&random))
        .build();
    let billing = Billing::new(service, Policy::default());
    let service = billing.service();
    let pro = NewPlan::new("Pro".parse()?, "pro".parse()?, "19.90".parse()?, BillingCycle::MONTHLY);
    let pro = service.create_plan(NewPlan { currency: Some("EUR".parse()?), ..pro }).await?;
    for _ in 0..1_000 {
        let user = UserId::new(clock.now(), &*random)?;
        service.create_subscription(NewSubscription::new(user, pro.id)).await?;
    }

    println!("seed {seed}\nmonth    active");
    for day in 0..365 {
        while billing.advance(1_000).await?.more {}
        collect(&billing, &*random).await?;
        for subscription in all(service, [Status::Active]).await? {
            if happens(&*random, 2)? {
                service.cancel(subscription.id).await?;
            }
        }
        if day > 0 && day % 30 == 0 {
            let active = all(service, [Status::Active]).await?.len();
            println!("{:>5}  {active:>7}  {}", day / 30, "#".repeat(active / 20));
        }
        clock.advance(Duration::from_hours(24));
    }

    // Each period has one payment, whatever failed meanwhile.
    let mut periods = 0;
    for subscription in all(service, Status::all()).await? {
        let mut starts = BTreeSet::new();
        for payment in service.payments(PaymentQuery::of(subscription.id)).await?.items {
            let asked = payment.asked.as_ref().ok_or("every payment is for a period")?;
            assert!(starts.insert(asked.period_start), "{} twice", asked.period_start);
            periods += usize::from(payment.status == PaymentStatus::Succeeded);
        }
    }
    println!("{periods} periods were paid, each once");
    Ok(())
}
