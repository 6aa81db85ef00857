//! A year of a thousand subscriptions that pay, fall behind and leave.
//!
//!     cargo run --example simulate_a_year            # seed 1
//!     cargo run --example simulate_a_year -- 7       # another year
//!
//! The clock is set by hand, a day at a time, and all chance comes from one seed: a year takes a moment, and
//! the same seed repeats it. `renewals.rs` is the part to copy: a billing job that charges every customer
//! exactly once, even if it is killed. Here it is killed on every tenth day, after a few charges, and
//! started again.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

#[cfg(test)]
mod killed;
mod renewals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subscription_core::store::{PageLimit, SubscriptionFilter, SubscriptionQuery};
use subscription_core::{
    Amount, BillingCycle, Clock as _, Currency, ManualClock, MemoryStore, NewPlan, NewSubscription,
    Randomness, SeededRandomness, Subscription, SubscriptionChanges, SubscriptionService,
    SubscriptionStatus as Status, UserId,
};

use self::renewals::{Gateway, Refused, Result, charge, due, renew};

const DAY: Duration = Duration::from_hours(24);

/// True in so many of a thousand cases.
fn happens(random: &dyn Randomness, times: u64) -> Result<bool> {
    let mut bytes = [0; 8];
    random.fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes) % 1_000 < times)
}

/// A payment gateway in memory: it repeats its result for a key that it has seen.
struct MemoryGateway {
    random: Arc<SeededRandomness>,
    results: Mutex<BTreeMap<String, bool>>,
    /// How many charges succeed before the job is killed, as by a power cut.
    charges_left: Mutex<Option<u32>>,
}

impl Gateway for MemoryGateway {
    async fn charge(&self, key: &str, _: Amount, _: Currency) -> Result<bool> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let paid = match results.get(key) {
            Some(paid) => *paid,
            None => !happens(&*self.random, 60)?,
        };
        results.insert(key.to_owned(), paid);
        let mut left = self.charges_left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.map(|left| left.checked_sub(1).ok_or("killed after a charge")).transpose()?;
        Ok(paid)
    }
}

impl MemoryGateway {
    fn die_after(&self, charges: Option<u32>) {
        *self.charges_left.lock().unwrap_or_else(PoisonError::into_inner) = charges;
    }
}

/// All subscriptions with this status, page by page.
async fn all(service: &SubscriptionService, status: Status) -> Result<Vec<Arc<Subscription>>> {
    let filter = SubscriptionFilter::default().with_statuses(vec![status]);
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

async fn set(service: &SubscriptionService, read: &Subscription, status: Status) -> Result<()> {
    let changes = SubscriptionChanges::status(status);
    service.update_subscription_if(read.id, read.version, changes).await?;
    Ok(())
}

/// The billing job: charges all subscriptions that are due.
async fn bill(service: &SubscriptionService, gateway: &MemoryGateway) -> Result<()> {
    for subscription in due(service, &[Status::Active], service.now()).await? {
        renew(service, gateway, &subscription, Refused::Stays).await?;
    }
    Ok(())
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
    let gateway = MemoryGateway {
        random: Arc::clone(&random),
        results: Mutex::default(),
        charges_left: Mutex::default(),
    };
    let pro = NewPlan::new("Pro".parse()?, "pro".parse()?, "19.90".parse()?, BillingCycle::MONTHLY);
    let pro = service.create_plan(pro).await?;
    for _ in 0..1_000 {
        let user = UserId::new(clock.now(), &*random)?;
        // Pending until the first period is paid.
        let new =
            NewSubscription { status: Some(Status::Pending), ..NewSubscription::new(user, pro.id) };
        let new = service.create_subscription(new).await?;
        let paid = charge(&service, &gateway, &new, new.starts_at, Refused::Stays).await?;
        set(&service, &new, if paid { Status::Active } else { Status::Expired }).await?;
    }

    println!("seed {seed}\nmonth    active");
    for day in 1..365 {
        clock.advance(DAY);
        gateway.die_after((day % 10 == 0).then_some(3));
        if bill(&service, &gateway).await.is_err() {
            gateway.die_after(None);
            bill(&service, &gateway).await?;
        }
        for late in all(&service, Status::PastDue).await? {
            if happens(&*random, 250)? {
                renew(&service, &gateway, &late, Refused::TryAgain).await?;
            } else if late.updated_at.saturating_add(DAY * 30) <= clock.now() {
                set(&service, &late, Status::Expired).await?;
            }
        }
        for subscription in all(&service, Status::Active).await? {
            if happens(&*random, 2)? {
                set(&service, &subscription, Status::Cancelled).await?;
            }
        }
        // Access ended by itself at the end of the period; this records it.
        let cancelled = all(&service, Status::Cancelled).await?;
        for ended in cancelled.iter().filter(|subscription| !subscription.is_active) {
            set(&service, ended, Status::Expired).await?;
        }
        if day % 30 == 0 {
            let active = all(&service, Status::Active).await?.len();
            println!("{:>5}  {active:>7}  {}", day / 30, "#".repeat(active / 20));
        }
    }

    // Each period was paid at most once, however often the job was killed.
    let results = gateway.results.lock().unwrap_or_else(PoisonError::into_inner);
    let mut periods = BTreeSet::new();
    for (key, _) in results.iter().filter(|(_, paid)| **paid) {
        let (period, _attempt) = key.rsplit_once('/').ok_or("a key ends with its attempt")?;
        assert!(periods.insert(period), "{period} was paid twice");
    }
    println!("{} periods were paid, each once", periods.len());
    Ok(())
}
