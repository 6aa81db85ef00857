//! A year of a thousand subscriptions: they pay, renew, pause, fall behind, leave and come back.
//!
//!     cargo run --example simulate_a_year            # seed 1
//!     cargo run --example simulate_a_year -- 7       # another year
//!
//! The clock is turned by hand, a day at a time, and every chance comes from one seed, so a year takes a
//! moment and the same seed repeats it exactly. What happens goes through the service as it would in
//! earnest: what is due is found by its list, and no step is taken that the lifecycle does not know.
//!
//! `renewals.rs` is the part to copy: it charges nobody twice and forgets nobody, whenever it is killed. Every
//! tenth day here it is, in the middle of its work, and begins again. What this leaves out, and your
//! gateway does: cards, and payments that take days to be told of.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

#[cfg(test)]
mod killed;
mod renewals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Datelike as _, Utc};
use subscription_core::store::{
    Idempotency, PageLimit, SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use subscription_core::{
    Amount, BillingCycle, Clock as _, Currency, ManualClock, MemoryStore, NewPlan, NewSubscription,
    Plan, PlanId, Randomness, SeededRandomness, Subscription, SubscriptionChanges,
    SubscriptionService, SubscriptionStatus as Status, Timestamp, UserId,
};

use self::renewals::{Gateway, Refused, Result};

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
#[derive(Clone)]
struct Dice(Arc<SeededRandomness>);

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

/// The totals of a month.
#[derive(Debug, Default)]
struct Month {
    active: usize,
    churned: usize,
    renewals: usize,
    failures: usize,
    pauses: usize,
}

/// A gateway in memory, which remembers what it said for each key.
struct Till {
    dice: Dice,
    state: Mutex<TillState>,
}

#[derive(Default)]
struct TillState {
    said: BTreeMap<String, bool>,
    /// How many charges are made before the job is killed, in earnest by a power cut.
    fuse: Option<u32>,
}

impl Till {
    fn state(&self) -> MutexGuard<'_, TillState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gateway for Till {
    async fn charge(&self, key: &str, _: Amount, _: Currency) -> Result<bool> {
        let mut state = self.state();
        let paid = match state.said.get(key) {
            Some(paid) => *paid,
            None => !self.dice.happens(odds::FAILS)?,
        };
        state.said.insert(key.to_owned(), paid);
        match state.fuse {
            Some(0) => Err("killed after a charge".into()),
            left => {
                state.fuse = left.map(|left| left - 1);
                Ok(paid)
            }
        }
    }
}

struct World {
    service: SubscriptionService,
    clock: ManualClock,
    dice: Dice,
    till: Till,
    plans: BTreeMap<PlanId, Arc<Plan>>,
    /// By year and month.
    months: BTreeMap<(i32, u32), Month>,
}

impl World {
    async fn new(seed: u64) -> Result<Self> {
        let clock = ManualClock::at("2025-01-01T06:00:00Z".parse()?);
        let ids = Arc::new(SeededRandomness::new(seed));
        let service = SubscriptionService::builder(MemoryStore::default())
            .clock(clock.clone())
            .randomness(Arc::clone(&ids))
            .build();
        let mut plans = BTreeMap::new();
        for (name, price, cycle) in [
            ("basic", "4.90", BillingCycle::MONTHLY),
            ("pro", "19.90", BillingCycle::MONTHLY),
            ("team", "490.00", BillingCycle::YEARLY),
        ] {
            let new = NewPlan::new(name.parse()?, name.parse()?, price.parse()?, cycle);
            let plan = service.create_plan(new).await?;
            plans.insert(plan.id, plan);
        }
        let dice = Dice(ids);
        let till = Till { dice: dice.clone(), state: Mutex::default() };
        Ok(Self { service, clock, dice, till, plans, months: BTreeMap::new() })
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
            self.subscribe(nth, user, plan).await?;
        }
        Ok(())
    }

    /// An order, which may be repeated: the same number makes no second subscription. It is pending until
    /// its first period is paid.
    async fn subscribe(&mut self, order: usize, user: UserId, plan: PlanId) -> Result<()> {
        let mut new = NewSubscription::new(user, plan);
        new.status = Some(Status::Pending);
        let once = Idempotency { client: "shop".into(), key: format!("order-{order}").parse()? };
        let made = self.service.create_subscription_once(new, once).await?.record;
        let from = made.starts_at;
        let paid = renewals::charge(&self.service, &self.till, &made, from, Refused::Stays).await?;
        self.step(&made, if paid { Status::Active } else { Status::Expired }).await?;
        if !paid {
            self.month().churned += 1;
        }
        Ok(())
    }

    /// Moves a subscription on, if nobody has since it was read.
    async fn change(&self, read: &Subscription, changes: SubscriptionChanges) -> Result<()> {
        self.service.update_subscription_if(read.id, read.version, changes).await?;
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
            let page = self.service.subscriptions(query.clone()).await?;
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

    /// Collects each renewal that is due: what is paid for goes on, the rest falls behind and stays due.
    async fn renew(&mut self) -> Result<()> {
        if self.dice.roll(10)? == 0 {
            self.till.state().fuse = Some(3);
        }
        // Killed in the middle, the job runs again: what it had done by then it finds done.
        let killed = self.renew_all().await.is_err();
        self.till.state().fuse = None;
        if killed { self.renew_all().await } else { Ok(()) }
    }

    async fn renew_all(&mut self) -> Result<()> {
        for subscription in
            renewals::due(&self.service, &[Status::Active], self.clock.now()).await?
        {
            let refused = Refused::Stays;
            let paid = renewals::renew(&self.service, &self.till, &subscription, refused).await?;
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
            if self.dice.happens(odds::CATCHES_UP)? {
                let again = Refused::TryAgain;
                renewals::renew(&self.service, &self.till, &subscription, again).await?;
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

    /// The choices of users.
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

    /// A cancelled subscription has lost access by itself; this marks it as expired.
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

    // Nobody was charged twice for a period, however often the job was killed.
    let mut periods = BTreeSet::new();
    for (key, _) in world.till.state().said.iter().filter(|(_, paid)| **paid) {
        let (period, _attempt) = key.rsplit_once('/').ok_or("a key")?;
        assert!(periods.insert(period.to_owned()), "{period} twice");
    }
    println!("{} periods were paid, each once", periods.len());
    Ok(())
}
