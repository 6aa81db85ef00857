//! The simulation of one life in two ways, over a store that fails: with another pace of the clock, or with another
//! form of the same price. The payments of both must have the same periods and amounts.

use std::sync::Arc;
use std::time::Duration;

use rust_decimal::Decimal;
use subscription_core::billing::{AfterDunning, Billing, Policy};
use subscription_core::store::{PaymentQuery, StoreExt as _};
use subscription_core::{
    Action, Amount, Bounded, Clock, Discount, Effective, Error, Field, ManualClock, MemoryStore,
    NewPlan, NewSubscription, Payment, PaymentChanges, PaymentStatus, PlanChange, PlanId, Quantity,
    Store, Subscription, SubscriptionChanges, SubscriptionId, SubscriptionStatus, Timestamp,
    UserId,
};
use uuid::Uuid;

use super::broken::{BrokenRules, Fault};
use super::world::{later, random_discount};
use crate::billing::amounts;
use crate::rng::Rng;
use crate::service_world::of;
use crate::simulation::invariants::Broken;
use crate::simulation::world::service_over;

const CYCLES: [&str; 6] = ["daily", "weekly", "P10D", "monthly", "quarterly", "one_time"];
/// The number of plans with cycles of their own.
const PLANS: usize = 3;
/// The number of acts in a life, and the largest number of days between two acts.
const ACTS: u64 = 9;
const GAP_MAX: u64 = 40;

/// How often the clock advances the billing.
#[derive(Debug, Clone, Copy)]
enum Pace {
    WheneverDue,
    EveryDays(u64),
    AtOnce,
}

#[derive(Debug, Clone)]
enum Act {
    Verb(Action),
    Update(Box<SubscriptionChanges>),
    /// Pays everything that is owed, and changes to a plan, which is given by its index in the script.
    Change {
        plan: usize,
        change: PlanChange,
    },
    /// Reports the payment for a period. `nth` counts back from the last period.
    Report {
        nth: usize,
        status: PaymentStatus,
    },
}

/// The events of a life, which do not depend on the pace of the clock.
#[derive(Debug, Clone)]
struct Script {
    seed: u64,
    /// The cycles and prices of the plans. The subscription begins with the first plan.
    plans: Vec<(&'static str, u64)>,
    quantity: u64,
    /// The subscription, without plan, price and quantity.
    new: NewSubscription,
    policy: Policy,
    acts: Vec<(Timestamp, Act)>,
}

/// The end of a life.
#[derive(Debug, Clone, PartialEq)]
struct Lived {
    asked: Vec<Asked>,
    status: SubscriptionStatus,
    renews_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    credit: Option<Amount>,
    discount: Option<Discount>,
}

/// A payment. Its retries are not compared, because a late clock makes none after the end.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    start: Timestamp,
    end: Option<Timestamp>,
    amount: Amount,
    /// The value of the period.
    value: Amount,
}

/// Checks that the pace of the clock changes neither periods nor amounts, as long as no more periods are missed than
/// allowed.
pub async fn late_is_punctual(seed: u64, fault: Option<Fault>) -> Result<(), Broken> {
    let script = Script::random(seed);
    let punctual = script.live(Pace::WheneverDue, fault).await;
    for pace in [Pace::EveryDays(1), Pace::EveryDays(11), Pace::AtOnce] {
        let late = script.live(pace, fault).await;
        script.compare("late_is_punctual", &punctual, &late, pace)?;
    }
    Ok(())
}

/// Checks that a price with a quantity leads to the same amounts as one unit at the multiplied price.
pub async fn quantity_multiplies(seed: u64, fault: Option<Fault>) -> Result<(), Broken> {
    let mut script = Script::random(seed);
    script.acts.retain(|(_, act)| match act {
        Act::Update(changes) => changes.quantity.is_none() && changes.price == Field::Absent,
        Act::Verb(_) | Act::Report { .. } | Act::Change { .. } => true,
    });
    let mut product = Script { quantity: 1, ..script.clone() };
    product.plans.iter_mut().for_each(|(_, cents)| *cents *= script.quantity);
    let pace = Pace::EveryDays(11);
    let (apart, whole) = (script.live(pace, fault).await, product.live(pace, fault).await);
    script.compare("quantity_multiplies", &apart, &whole, pace)
}

/// Checks that a discount changes no period, and reduces the values of its first periods and no others.
pub async fn discounted_twin(seed: u64, fault: Option<Fault>) -> Result<(), Broken> {
    let rng = Rng::new(seed ^ 0xD15C);
    let mut script = Script::random(seed);
    // Each life must ask for the same payments: the discount leaves something of each price, and no change of plan or
    // credit pays for a whole period.
    let least = |price: Amount| price.value() >= Decimal::ONE;
    script.acts.retain(|(_, act)| match act {
        Act::Update(changes) => {
            let keeps_price = changes.price == Field::Absent;
            changes.credit.is_none() && (keeps_price || changes.price.or(None).is_some_and(least))
        }
        Act::Verb(Action::GiveDiscount(_) | Action::RemoveDiscount) | Act::Change { .. } => false,
        Act::Verb(_) | Act::Report { .. } => true,
    });
    script.plans.iter_mut().for_each(|(_, price)| *price += 100);
    script.new.credit = rng.maybe(50, |_| cents(20));
    let periods = rng.maybe(80, |rng| 1 + rng.below(4));
    let discount = if rng.percent(50) {
        amounts::percent(&format!("{}", 1 + rng.below(70)), periods)
    } else {
        amounts::amount("0.25", periods)
    };
    script.new.discount = None;
    let mut reduced = script.clone();
    reduced.new.discount = Some(discount);
    let pace = Pace::EveryDays(11);
    let plain = script.live(pace, fault).await;
    let found = reduced.live(pace, fault).await;
    let mut left = periods.unwrap_or(u32::MAX);
    let mut expected = Lived { discount: found.discount, ..plain };
    for asked in &mut expected.asked {
        let off = match left {
            0 => Decimal::ZERO,
            _ => amounts::reduction(discount.off, asked.value.value(), 2),
        };
        left -= u32::from(!off.is_zero());
        let less = |amount: Amount| Amount::try_from(amount.value() - off).expect("an amount");
        asked.amount = less(asked.amount);
        asked.value = less(asked.value);
    }
    reduced.compare("discounted_twin", &expected, &found, pace)
}

impl Script {
    fn random(seed: u64) -> Self {
        let rng = Rng::new(seed);
        let mut now: Timestamp = of("2024-01-31T12:00:00Z");
        let mut new = NewSubscription::new(UserId::from(Uuid::from_u128(1)), Uuid::nil().into());
        new.credit = rng.maybe(30, |rng| cents(rng.below(20_000)));
        new.starts_at = rng.maybe(20, |rng| later(rng, now, 20));
        let after_start = new.starts_at.unwrap_or(now).saturating_add(Duration::from_hours(1));
        new.trial_ends_at = rng.maybe(30, |rng| later(rng, after_start, 40)).into();
        new.ends_at = rng.maybe(15, |rng| later(rng, after_start, 300));
        new.discount = rng.maybe(50, random_discount);
        let expires = rng.percent(30);
        let policy = Policy::default().with_missed_periods_max(Bounded::new(366).expect("366"));
        let policy =
            if expires { policy.with_after_dunning(AfterDunning::Expired) } else { policy };
        let acts = (0..=rng.below(ACTS)).map(|_| {
            now = later(&rng, now, GAP_MAX);
            (now, Act::random(&rng, now))
        });
        let acts = acts.collect();
        let plan = |_| (rng.pick(CYCLES).expect("a cycle"), rng.below(10_000));
        let mut plans: Vec<_> = (0..PLANS).map(plan).collect();
        // Two plans have the same cycle, so that changes also settle a running period, not only start a new one.
        plans.push((plans[0].0, rng.below(10_000)));
        Self { seed, plans, quantity: 1 + rng.below(6), new, policy, acts }
    }

    fn compare(
        &self,
        invariant: &'static str,
        expected: &Lived,
        found: &Lived,
        pace: Pace,
    ) -> Result<(), Broken> {
        if expected == found {
            return Ok(());
        }
        let Self { seed, .. } = self;
        let detail = format!(
            "repeat with SUBSCRIPTION_TEST_SEED={seed}; {pace:?}:\n{self:#?}\n{expected:#?}\n{found:#?}"
        );
        Err(Broken::new(invariant, detail))
    }

    async fn live(&self, pace: Pace, fault: Option<Fault>) -> Lived {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let (clock, faults, service) = service_over(&store, self.seed);
        let billing = Billing::new(service, self.policy.clone());
        let billing = match fault {
            Some(fault) => billing.with_rules(BrokenRules::new(&self.policy, fault)),
            None => billing,
        };
        let mut plans = Vec::new();
        for (nth, (cycle, price)) in self.plans.iter().enumerate() {
            let slug = of(&format!("pro-{nth}"));
            let plan = NewPlan::new(of("Pro"), slug, cents(*price), of(cycle));
            let plan = NewPlan { currency: Some(of("USD")), ..plan };
            plans.push(billing.service().create_plan(plan).await.expect("a plan").id);
        }
        let mut new = self.new.clone();
        new.subscription_plan_id = plans[0];
        new.quantity = Some(Quantity::new(self.quantity).expect("a quantity"));
        let id = billing.service().create_subscription(new).await.expect("a subscription").id;
        faults.draw_from(Rng::new(self.seed));
        let mut life = Life { id, clock, store, billing, plans, pace };
        for (at, act) in &self.acts {
            life.pass_time(*at).await;
            life.act(act).await;
            life.advance().await;
        }
        life.lived().await
    }
}

impl Act {
    fn random(rng: &Rng, now: Timestamp) -> Self {
        let mut changes = SubscriptionChanges::default();
        let resumes_at = rng.maybe(60, |rng| later(rng, now, 60));
        let effective =
            rng.pick([None, Some(Effective::Now), Some(Effective::PeriodEnd)]).flatten();
        match rng.below(22) {
            20 => return Self::Verb(Action::GiveDiscount(random_discount(rng))),
            21 => return Self::Verb(Action::RemoveDiscount),
            16.. => {
                let change = PlanChange::default();
                let change = if rng.percent(30) { change.at_period_end() } else { change };
                let change = if rng.percent(20) { change.unprorated() } else { change };
                return Self::Change { plan: rng.below(PLANS + 1), change };
            }
            0 => return Self::Verb(Action::Cancel(effective)),
            1..3 => return Self::Verb(Action::Resume),
            3..5 => return Self::Verb(Action::Pause { effective, resumes_at }),
            5 => changes.price = cents(rng.below(10_000)).into(),
            6 => changes.quantity = Quantity::new(1 + rng.below(5_u64)).ok(),
            7 => changes.credit = Some(cents(rng.below(20_000))),
            8 => changes.trial_ends_at = later(rng, now, 40).into(),
            nth => {
                let status =
                    if nth < 12 { PaymentStatus::Failed } else { PaymentStatus::Succeeded };
                return Self::Report { nth: rng.below(3), status };
            }
        }
        Self::Update(Box::new(changes))
    }
}

/// A life in progress.
#[derive(Debug)]
struct Life {
    id: SubscriptionId,
    clock: ManualClock,
    /// The store behind the faults.
    store: Arc<dyn Store>,
    billing: Billing,
    plans: Vec<PlanId>,
    pace: Pace,
}

impl Life {
    async fn pass_time(&mut self, until: Timestamp) {
        loop {
            let next_at = self.advance().await;
            let now = self.clock.now();
            let next = match self.pace {
                Pace::WheneverDue => next_at.map(|at| at.max(now)),
                Pace::EveryDays(days) => Some(now.saturating_add(Duration::from_hours(24 * days))),
                Pace::AtOnce => None,
            };
            match next.filter(|next| *next < until) {
                Some(next) => self.clock.set(next),
                None => break,
            }
        }
        self.clock.set(until);
        self.advance().await;
    }

    /// Executes everything that is due, and retries as often as the store fails. Returns the moment at which the next
    /// step is due.
    async fn advance(&self) -> Option<Timestamp> {
        loop {
            let advanced = self.billing.advance(50).await;
            if let Some(done) =
                advanced.ok().filter(|done| !done.more && done.refused == 0 && done.failed == 0)
            {
                return done.next_at;
            }
        }
    }

    /// Repeats an act until the store does not fail. A refused act changes nothing.
    async fn act(&self, act: &Act) {
        let service = self.billing.service();
        loop {
            let acted = match act {
                Act::Verb(action) => service.act(self.id, *action).await.map(drop),
                Act::Update(changes) => {
                    service.update_subscription(self.id, (**changes).clone()).await.map(drop)
                }
                Act::Change { plan, change } => self.change(*plan, change.clone()).await,
                Act::Report { nth, status } => {
                    let payments = self.payments().await;
                    let Some(payment) = payments.iter().rev().nth(*nth) else { return };
                    let report = PaymentChanges::status(*status);
                    service.update_payment(payment.id, report).await.map(drop)
                }
            };
            if !acted.is_err_and(|error| is_disturbed(&error)) {
                return;
            }
        }
    }

    /// Pays everything that is owed, and changes the plan.
    async fn change(&self, plan: usize, mut change: PlanChange) -> Result<(), Error> {
        // After a payment, the subscription may request payments for the periods that it has missed.
        loop {
            self.advance().await;
            let payments = self.payments().await;
            let Some(owed) = payments.iter().find(|payment| payment.is_unpaid()) else { break };
            let paid = PaymentChanges::status(PaymentStatus::Succeeded);
            self.billing.service().update_payment(owed.id, paid).await?;
        }
        change.subscription_plan_id = self.plans.get(plan).copied();
        self.billing.change_plan(self.id, &change).await.map(drop)
    }

    /// All payments, ordered by their periods.
    async fn payments(&self) -> Vec<Arc<Payment>> {
        let mut query = PaymentQuery::of(self.id);
        let mut payments = Vec::new();
        loop {
            let page = self.store.list_as::<Payment>(query.clone()).await.expect("a sound store");
            payments.extend(page.items);
            query.after = page.next;
            if query.after.is_none() {
                payments
                    .sort_by_key(|payment| payment.asked.as_ref().map(|asked| asked.period_start));
                return payments;
            }
        }
    }

    async fn lived(&self) -> Lived {
        let asked = self.payments().await;
        let asked = asked.iter().filter_map(|payment| {
            let asked = payment.asked.as_ref()?;
            Some(Asked {
                start: asked.period_start,
                end: asked.period_end,
                amount: payment.amount,
                value: asked.value,
            })
        });
        let mut asked: Vec<_> = asked.collect();
        asked.sort_by_key(|asked| (asked.start, asked.amount.value()));
        let found = self.store.get_as::<Subscription>(&self.id).await;
        let found = found.expect("a sound store").expect("a subscription");
        let Subscription { status, renews_at, ends_at, .. } = *found;
        let discount = found.discount();
        Lived { asked, status, renews_at, ends_at, credit: found.credit(), discount }
    }
}

fn is_disturbed(error: &Error) -> bool {
    matches!(error.code(), "store_unavailable" | "overloaded")
}

fn cents(cents: u64) -> Amount {
    of(&format!("{}.{:02}", cents / 100, cents % 100))
}
