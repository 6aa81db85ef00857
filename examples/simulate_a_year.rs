//! A year of a thousand subscriptions: they pay, renew, pause, fall behind, leave and come back.
//!
//!     cargo run --example simulate_a_year            # seed 1
//!     cargo run --example simulate_a_year -- 7       # another year
//!
//! The clock is turned by hand, a day at a time, and every chance comes from one seed, so a year takes a
//! moment and the same seed repeats it exactly. What happens goes through the service as it would in
//! earnest: what is due is found by its list, and no step is taken that the lifecycle does not know.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Datelike as _, Utc};
use subscription_core::store::{
    PageLimit, SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use subscription_core::{
    BillingCycle, Clock as _, IdSource, ManualClock, MemoryStore, NewPayment, NewPlan,
    NewSubscription, PaymentChanges, PaymentStatus, Plan, PlanId, SeededIds, Subscription,
    SubscriptionChanges, SubscriptionService, SubscriptionStatus as Status, Timestamp, UserId,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const SUBSCRIPTIONS: usize = 1_000;
const DAY: Duration = Duration::from_hours(24);

/// How likely things are, in a thousand.
mod odds {
    /// A payment does not go through.
    pub(crate) const FAILS: u64 = 60;
    /// Somebody in arrears pays on a given day.
    pub(crate) const CATCHES_UP: u64 = 250;
    /// Somebody cancels on a given day.
    pub(crate) const CANCELS: u64 = 2;
    /// Somebody who has cancelled thinks better of it on a given day.
    pub(crate) const STAYS: u64 = 5;
    /// Somebody pauses on a given day.
    pub(crate) const PAUSES: u64 = 1;
    /// Somebody comes back from a pause on a given day.
    pub(crate) const RESUMES: u64 = 20;
}

/// How long one in arrears may go on, and then how long the subscription is kept.
const ARREARS: Duration = Duration::from_hours(24 * 7);
const GRACE: Duration = Duration::from_hours(24 * 30);

/// A seed's chances.
struct Dice(Arc<SeededIds>);

impl Dice {
    fn roll(&self, sides: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes) % sides)
    }

    /// True so often in a thousand.
    fn happens(&self, odds: u64) -> Result<bool> {
        Ok(self.roll(1_000)? < odds)
    }
}

/// What a month came to.
#[derive(Debug, Default)]
struct Month {
    active: usize,
    churned: usize,
    renewals: usize,
    failures: usize,
    pauses: usize,
}

struct World {
    service: SubscriptionService,
    clock: ManualClock,
    dice: Dice,
    plans: BTreeMap<PlanId, Arc<Plan>>,
    /// By year and month.
    months: BTreeMap<(i32, u32), Month>,
}

impl World {
    async fn new(seed: u64) -> Result<Self> {
        let clock = ManualClock::at("2025-01-01T06:00:00Z".parse()?);
        let ids = Arc::new(SeededIds::new(seed));
        let service = SubscriptionService::builder(Arc::new(MemoryStore::default()))
            .clock(clock.clone())
            .ids(Arc::clone(&ids))
            .build();
        let mut plans = BTreeMap::new();
        for (name, price, cycle) in [
            ("basic", "4.90", BillingCycle::MONTHLY),
            ("pro", "19.90", BillingCycle::MONTHLY),
            ("team", "490.00", BillingCycle::YEARLY),
        ] {
            let new = NewPlan::new(name.parse()?, name.parse()?, price.parse()?, cycle);
            let plan = service.create_plan(new, None).await?.record;
            plans.insert(plan.id, plan);
        }
        Ok(Self { service, clock, dice: Dice(ids), plans, months: BTreeMap::new() })
    }

    fn month(&mut self) -> &mut Month {
        let now = DateTime::<Utc>::from(self.clock.now());
        self.months.entry((now.year(), now.month())).or_default()
    }

    /// A thousand people, who all had subscribed by the middle of the first month.
    async fn open(&mut self) -> Result<()> {
        for nth in 0..SUBSCRIPTIONS {
            if nth % (SUBSCRIPTIONS / 14) == 0 && nth > 0 {
                self.clock.advance(DAY);
            }
            let user = UserId::new(self.clock.now(), &*self.dice.0)?;
            let choice = usize::try_from(self.dice.roll(3)?)?;
            let plan = *self.plans.keys().nth(choice).ok_or("there are three plans")?;
            let new = NewSubscription::new(user, plan);
            let made = self.service.create_subscription(new, None).await?.record;
            self.pay(&made).await?;
        }
        Ok(())
    }

    /// Asks for the price, and says whether it came.
    async fn pay(&mut self, subscription: &Subscription) -> Result<bool> {
        let plan = self.plans.get(&subscription.subscription_plan_id).ok_or("a plan")?;
        let new = NewPayment::new(subscription.id, plan.price, "EUR".parse()?);
        let payment = self.service.create_payment(new, None).await?.record;
        let fails = self.dice.happens(odds::FAILS)?;
        let status = if fails { PaymentStatus::Failed } else { PaymentStatus::Succeeded };
        self.service.update_payment(payment.id, PaymentChanges::status(status), None).await?;
        Ok(!fails)
    }

    /// Moves a subscription on, if nobody has since it was read.
    async fn change(&self, read: &Subscription, changes: SubscriptionChanges) -> Result<()> {
        self.service.update_subscription(read.id, changes, Some(read.version)).await?;
        Ok(())
    }

    async fn step(&self, read: &Subscription, status: Status) -> Result<()> {
        self.change(read, SubscriptionChanges::status(status)).await
    }

    /// All that are in one of these states, page by page.
    async fn all(&self, filter: SubscriptionFilter) -> Result<Vec<Arc<Subscription>>> {
        let order = SubscriptionOrder::CreatedAt;
        let limit = PageLimit::MAX;
        let mut query = SubscriptionQuery { filter, order, limit, ..SubscriptionQuery::default() };
        let mut all = Vec::new();
        loop {
            let page = self.service.subscriptions(&query).await?;
            all.extend(page.items);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(all),
            }
        }
    }

    async fn in_status(&self, status: Status) -> Result<Vec<Arc<Subscription>>> {
        self.all(SubscriptionFilter { statuses: vec![status], ..SubscriptionFilter::default() })
            .await
    }

    async fn live_a_day(&mut self) -> Result<()> {
        self.clock.advance(DAY);
        self.renew().await?;
        self.dun().await?;
        self.decide().await?;
        self.end().await?;
        let filter = SubscriptionFilter { is_active: Some(true), ..SubscriptionFilter::default() };
        self.month().active = self.all(filter).await?.len();
        Ok(())
    }

    /// What is due today is paid and goes on, or falls behind; its place on the calendar stays either way.
    async fn renew(&mut self) -> Result<()> {
        let now = self.clock.now();
        let due = SubscriptionFilter {
            statuses: vec![Status::Active],
            renews_before: Some(now),
            ..SubscriptionFilter::default()
        };
        for subscription in self.all(due).await? {
            let paid = self.pay(&subscription).await?;
            let renews_at = subscription.schedule().next_after(now).into();
            let status = if paid { Status::Active } else { Status::PastDue };
            let changes = SubscriptionChanges { renews_at, ..SubscriptionChanges::status(status) };
            self.change(&subscription, changes).await?;
            let month = self.month();
            if paid {
                month.renewals += 1;
            } else {
                month.failures += 1;
            }
        }
        Ok(())
    }

    /// Those in arrears catch up, lose access after a week, and are given up after a month.
    async fn dun(&mut self) -> Result<()> {
        let now = self.clock.now();
        for subscription in self.in_status(Status::PastDue).await? {
            if self.dice.happens(odds::CATCHES_UP)? && self.pay(&subscription).await? {
                self.step(&subscription, Status::Active).await?;
            } else if subscription.updated_at.saturating_add(ARREARS) <= now {
                self.step(&subscription, Status::Unpaid).await?;
            }
        }
        for subscription in self.in_status(Status::Unpaid).await? {
            if subscription.updated_at.saturating_add(GRACE) <= now {
                self.step(&subscription, Status::Expired).await?;
                self.month().churned += 1;
            }
        }
        Ok(())
    }

    /// What people choose to do.
    async fn decide(&mut self) -> Result<()> {
        for subscription in self.in_status(Status::Active).await? {
            if self.dice.happens(odds::CANCELS)? {
                self.step(&subscription, Status::Cancelled).await?;
            } else if self.dice.happens(odds::PAUSES)? {
                self.step(&subscription, Status::Paused).await?;
                self.month().pauses += 1;
            }
        }
        for subscription in self.in_status(Status::Cancelled).await? {
            if subscription.is_active && self.dice.happens(odds::STAYS)? {
                self.step(&subscription, Status::Active).await?;
            }
        }
        for subscription in self.in_status(Status::Paused).await? {
            if self.dice.happens(odds::RESUMES)? {
                self.resume(&subscription).await?;
            }
        }
        Ok(())
    }

    /// Renewals that a pause slept through are not asked for.
    async fn resume(&self, subscription: &Subscription) -> Result<()> {
        let now = self.clock.now();
        let next: Option<Timestamp> = subscription.schedule().next_after(now);
        let active = SubscriptionChanges::status(Status::Active);
        let changes = SubscriptionChanges { renews_at: next.into(), ..active };
        self.change(subscription, changes).await
    }

    /// What was cancelled has lost access by itself; this tells that it is over.
    async fn end(&mut self) -> Result<()> {
        let cancelled = self.in_status(Status::Cancelled).await?;
        for subscription in cancelled.iter().filter(|subscription| !subscription.is_active) {
            self.step(subscription, Status::Expired).await?;
            self.month().churned += 1;
        }
        Ok(())
    }
}

/// One line a month, a mark for each twenty.
fn plot(months: &BTreeMap<(i32, u32), Month>) {
    println!("month     active  churned  # active, x churned, 20 each");
    for ((year, month), Month { active, churned, .. }) in months {
        let (stay, go) = ("#".repeat(active.div_ceil(20)), "x".repeat(churned.div_ceil(20)));
        println!("{year}-{month:02}  {active:>7}  {churned:>7}  {stay}{go}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let seed = std::env::args().nth(1).unwrap_or_else(|| "1".to_owned());
    let seed = seed.parse().map_err(|_| format!("{seed:?} is no seed: give a whole number"))?;
    println!("seed {seed}");
    let mut world = World::new(seed).await?;
    world.open().await?;
    let end: Timestamp = "2026-01-01T00:00:00Z".parse()?;
    while world.clock.now().saturating_add(DAY) < end {
        world.live_a_day().await?;
    }

    plot(&world.months);
    let sum = |what: fn(&Month) -> usize| world.months.values().map(what).sum::<usize>();
    let (renewals, failures) = (sum(|month| month.renewals), sum(|month| month.failures));
    println!("{renewals} renewals, {failures} payments that failed, {} pauses", sum(|m| m.pauses));

    // Nobody is lost: each is still here, in one state or another.
    let mut total = 0;
    for status in [Status::Active, Status::PastDue, Status::Unpaid, Status::Paused] {
        total += world.in_status(status).await?.len();
    }
    let cancelled = world.in_status(Status::Cancelled).await?.len();
    let over = world.in_status(Status::Expired).await?.len();
    assert_eq!(total + cancelled + over, SUBSCRIPTIONS);
    assert_eq!(over, sum(|month| month.churned));
    println!("at the end: {total} go on, {cancelled} have cancelled, {over} are over");
    Ok(())
}
