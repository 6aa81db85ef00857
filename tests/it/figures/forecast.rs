//! The forecast: the worked table, and the payments that the clock then creates.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use subscription_core::billing::{Billing, Policy};
use subscription_core::figures::{Figures, Forecast, ForecastSum};
use subscription_core::plans::Reduction;
use subscription_core::store::{ChangeSet, DuePayments, PaymentQuery, SubscriptionQuery};
use subscription_core::{
    Action, Effective, Field, ManagedBy, ManualClock, MemoryStore, NewDiscount, NewPlan,
    NewSubscription, PaymentChanges, PaymentId, PaymentStatus, PlanChange, Quantity,
    SeededRandomness, Subscription, SubscriptionChanges, SubscriptionId, SubscriptionService,
    SubscriptionStatus, Timestamp, UserId, Version,
};
use test_support::rng::Rng;
use test_support::seed::seeds;
use test_support::service_world::{at, of};
use uuid::Uuid;

/// A business that the clock bills.
struct Business {
    clock: ManualClock,
    billing: Billing,
    numbers: AtomicU64,
}

impl Business {
    fn new(start: &str, seed: u64) -> Self {
        let clock = ManualClock::at(at(start));
        let service = SubscriptionService::builder(MemoryStore::default())
            .clock(clock.clone())
            .randomness(SeededRandomness::new(seed))
            .build();
        let billing = Billing::new(service, Policy::default());
        Self { clock, billing, numbers: AtomicU64::new(1) }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    fn user(&self) -> UserId {
        UserId::from(Uuid::from_u128(self.number().into()))
    }

    fn service(&self) -> &SubscriptionService {
        self.billing.service()
    }

    fn now(&self) -> Timestamp {
        self.service().now()
    }

    async fn plan(&self, price: &str, currency: &str, cycle: &str) -> NewSubscription {
        self.plan_with(price, currency, cycle, None).await
    }

    /// The input for a subscription to a new plan.
    async fn plan_with(
        &self,
        price: &str,
        currency: &str,
        cycle: &str,
        trial: Option<&str>,
    ) -> NewSubscription {
        let slug = of(&format!("plan-{}", self.number()));
        let plan = NewPlan::new(of("Plan"), slug, of(price), of(cycle));
        let trial_period = trial.map(of);
        let plan = NewPlan { currency: Some(of(currency)), trial_period, ..plan };
        let plan = self.service().create_plan(plan).await.unwrap();
        NewSubscription::new(self.user(), plan.id)
    }

    async fn subscribe(&self, new: NewSubscription) -> SubscriptionId {
        let made = self.service().create_subscription(new).await.unwrap();
        self.pay().await;
        made.id
    }

    async fn update(&self, id: SubscriptionId, changes: SubscriptionChanges) {
        self.service().update_subscription(id, changes).await.unwrap();
    }

    /// Reports all payments that must be collected.
    async fn report(&self, status: PaymentStatus) {
        let due = DuePayments::until(PaymentStatus::Pending, Timestamp::MAX);
        loop {
            let page = self.billing.due_payments(due.clone()).await.unwrap();
            for payment in &page.items {
                let report = PaymentChanges::status(status);
                self.service().update_payment(payment.id, report).await.unwrap();
            }
            if page.items.is_empty() {
                return;
            }
        }
    }

    async fn pay(&self) {
        self.report(PaymentStatus::Succeeded).await;
    }

    /// Lets time pass as a punctual clock does: all payments are made at once.
    async fn until(&self, day: Timestamp) {
        loop {
            while self.billing.advance(1_000).await.unwrap().steps > 0 {
                self.pay().await;
            }
            self.pay().await;
            let next = self.billing.advance(1).await.unwrap().next_at;
            match next.filter(|next| *next <= day) {
                Some(next) => self.clock.set(next.max(self.now())),
                None => return self.clock.set(day),
            }
        }
    }

    /// Reports all failed payments as made.
    async fn settle(&self) {
        for id in all_payments(self).await {
            let id = PaymentId::from(id);
            if self.service().payment(id).await.unwrap().status == PaymentStatus::Failed {
                let paid = PaymentChanges::status(PaymentStatus::Succeeded);
                self.service().update_payment(id, paid).await.unwrap();
            }
        }
    }

    async fn forecast(&self) -> Forecast {
        let figures = Figures::new(self.service().clone());
        Forecast::clone(&*figures.forecast().await.unwrap())
    }
}

/// Contracted, at risk and on trial; each as its sum and its count.
fn row(forecast: &Forecast, nth: usize) -> String {
    let month = forecast.data.get(nth).unwrap();
    let money = month.money.iter().map(|money| {
        let shown = |sum: ForecastSum| match sum.count {
            0 => "0".to_owned(),
            count => format!("{} ({count})", sum.amount),
        };
        let parts = [money.contracted, money.at_risk, money.trial].map(shown);
        format!("{} {}", money.currency, parts.join(" · "))
    });
    format!("{}: {}", month.month, money.collect::<Vec<_>>().join(", "))
}

fn half(periods: u32) -> Action {
    let off = Reduction::Percent(of("50"));
    Action::GiveDiscount(NewDiscount { off, periods: Some(periods) })
}

#[tokio::test]
async fn the_worked_table() {
    let shop = Business::new("2026-01-10T00:00:00Z", 1);
    // B: each year on 10 January.
    shop.subscribe(shop.plan("100.00", "EUR", "yearly").await).await;
    shop.until(at("2026-01-31T00:00:00Z")).await;
    // A: on the last days of the months.
    shop.subscribe(shop.plan("19.90", "EUR", "monthly").await).await;
    shop.until(at("2026-10-02T00:00:00Z")).await;
    // J: half the price for the next two periods.
    let halved = shop.subscribe(shop.plan("20.00", "EUR", "monthly").await).await;
    shop.until(at("2026-10-05T00:00:00Z")).await;
    // D: is cancelled, and ends on 5 December.
    let leaving = shop.subscribe(shop.plan("19.90", "EUR", "monthly").await).await;
    shop.until(at("2026-10-08T00:00:00Z")).await;
    // E: its payment of November failed.
    let failing = shop.subscribe(shop.plan("19.90", "EUR", "monthly").await).await;
    shop.until(at("2026-10-10T00:00:00Z")).await;
    // I: each 10th.
    shop.subscribe(shop.plan("19.90", "EUR", "monthly").await).await;
    shop.until(at("2026-10-15T00:00:00Z")).await;
    // G: three seats, and a pause from 15 December to 10 February.
    let mut new = shop.plan("10.00", "EUR", "monthly").await;
    new.quantity = Some(Quantity::new(3).unwrap());
    let pausing = shop.subscribe(new).await;
    shop.until(at("2026-10-20T00:00:00Z")).await;
    // H: is paid until 20 December, and ends on 20 January.
    let mut new = shop.plan("12.00", "EUR", "monthly").await;
    new.status = Some(SubscriptionStatus::Active);
    new.renews_at = Field::Value(at("2026-12-20T00:00:00Z"));
    new.ends_at = Some(at("2027-01-20T00:00:00Z"));
    shop.subscribe(new).await;
    shop.until(at("2026-11-01T00:00:00Z")).await;
    // F: a credit for two periods and a half.
    let credited = shop.subscribe(shop.plan("10.00", "EUR", "monthly").await).await;
    let credit = Some(of("25.00"));
    shop.update(credited, SubscriptionChanges { credit, ..Default::default() }).await;
    shop.until(at("2026-11-07T23:59:59Z")).await;
    shop.clock.set(at("2026-11-08T00:00:00Z"));
    shop.billing.advance(1_000).await.unwrap();
    shop.report(PaymentStatus::Failed).await;
    shop.until(at("2026-11-08T12:00:00Z")).await;
    assert_eq!(
        shop.service().subscription(failing).await.unwrap().status,
        SubscriptionStatus::PastDue
    );
    shop.clock.set(at("2026-11-11T00:00:00Z"));
    shop.billing.advance(1_000).await.unwrap();
    for payment in shop.service().payments(PaymentQuery::all()).await.unwrap().items {
        if payment.status == PaymentStatus::Pending && payment.subscription_id != failing {
            let paid = PaymentChanges::status(PaymentStatus::Succeeded);
            shop.service().update_payment(payment.id, paid).await.unwrap();
        }
    }
    // C: a trial until 25 November.
    let trial = shop.plan_with("19.90", "EUR", "monthly", Some("P14D")).await;
    shop.service().create_subscription(trial).await.unwrap();
    shop.service().act(leaving, Action::Cancel(Some(Effective::PeriodEnd))).await.unwrap();
    shop.service().act(halved, half(2)).await.unwrap();
    let resumes_at = Some(at("2027-02-10T00:00:00Z"));
    shop.clock.set(at("2026-11-16T00:00:00Z"));
    shop.billing.advance(1_000).await.unwrap();
    let pause = Action::Pause { effective: Some(Effective::PeriodEnd), resumes_at };
    shop.service().act(pausing, pause).await.unwrap();
    // Neither of a caller nor of a provider.
    let mut of_caller = shop.plan("5.00", "EUR", "monthly").await;
    of_caller.managed_by = Some(ManagedBy::Caller);
    shop.service().create_subscription(of_caller).await.unwrap();
    shop.clock.set(at("2026-11-18T00:00:00Z"));

    let forecast = shop.forecast().await;

    let rows: Vec<_> = (0..4).map(|nth| row(&forecast, nth)).collect();
    assert_eq!(
        rows,
        [
            "2026-11: EUR 19.90 (1) · 0 · 19.90 (1)",
            "2026-12: EUR 61.80 (4) · 19.90 (1) · 19.90 (1)",
            "2027-01: EUR 149.80 (4) · 19.90 (1) · 19.90 (1)",
            "2027-02: EUR 94.80 (5) · 19.90 (1) · 19.90 (1)",
        ]
    );
    assert_eq!(forecast.until.to_string(), "2027-10-31T23:59:59.999999Z");
    assert_eq!(forecast.not_included[&ManagedBy::Caller], 1);
    assert_eq!(forecast.data.iter().filter(|month| !month.complete).count(), 1);
}

/// Subscriptions with trials, seats, credit, discounts, pauses, ends and scheduled changes.
async fn random_business(rng: &Rng, seed: u64) -> Business {
    let shop = Business::new("2024-01-31T08:00:00Z", seed);
    let mut plans = Vec::new();
    for (price, currency, cycle, trial) in [
        ("9.99", "USD", "monthly", None),
        ("29.99", "USD", "monthly", Some("P14D")),
        ("299.00", "USD", "yearly", None),
        ("3.50", "USD", "weekly", None),
        ("5000", "JPY", "quarterly", None),
        ("1.000", "BHD", "P10D", None),
    ] {
        plans.push(shop.plan_with(price, currency, cycle, trial).await);
    }
    let mut held = Vec::new();
    for _ in 0..30 {
        let by = Duration::from_secs(3_600 * (1 + rng.below(24 * 12)));
        shop.until(shop.now().saturating_add(by)).await;
        let Some(id) = rng.pick(held.iter().copied()).filter(|_| rng.percent(55)) else {
            let mut new = rng.pick(&plans).unwrap().clone();
            new.user_id = shop.user();
            new.quantity = Some(Quantity::new(rng.below(3) + 1).unwrap());
            let off = Reduction::Percent(of("33.33"));
            new.discount =
                rng.maybe(30, |rng| NewDiscount { off, periods: Some(rng.below(5) + 1) });
            held.push(shop.subscribe(new).await);
            continue;
        };
        let pause = Action::Pause {
            effective: rng.pick([Effective::PeriodEnd, Effective::Now]),
            resumes_at: rng.maybe(80, |_| shop.now().saturating_add(Duration::from_hours(24 * 99))),
        };
        let cancel = Action::Cancel(Some(Effective::PeriodEnd));
        match rng.below(6) {
            0 => drop(shop.service().act(id, rng.pick([pause, cancel]).unwrap()).await),
            1 => drop(shop.service().act(id, half(rng.below(3) + 1)).await),
            2 => drop(shop.service().act(id, Action::Resume).await),
            3 => {
                let credit = Some(of("12"));
                let changes = SubscriptionChanges { credit, ..Default::default() };
                drop(shop.service().update_subscription(id, changes).await);
            }
            _ => {
                let mut change =
                    PlanChange::to_plan(rng.pick(&plans).unwrap().subscription_plan_id);
                change.effective = rng.pick([Effective::PeriodEnd, Effective::Now]).unwrap();
                drop(shop.billing.change_plan(id, &change).await);
            }
        }
        shop.pay().await;
    }
    shop
}

type Sums = BTreeMap<(String, String), (u64, String)>;

fn forecast_sums(forecast: &Forecast) -> Sums {
    let mut sums = Sums::new();
    for month in &forecast.data {
        for money in &month.money {
            let parts = [money.contracted, money.at_risk, money.trial];
            let count = parts.iter().map(|part| part.count).sum();
            let millionths: i128 = parts.iter().map(|part| part.amount.millionths()).sum();
            let key = (month.month.clone(), money.currency.to_string());
            sums.insert(key, (count, millionths.to_string()));
        }
    }
    sums
}

/// The payments that were created after a number of payments, by month and currency.
async fn created(shop: &Business, before: &[Uuid], running: &str) -> Sums {
    let mut sums = BTreeMap::<_, (u64, i128)>::new();
    let mut query = PaymentQuery::all();
    loop {
        let page = shop.service().payments(query.clone()).await.unwrap();
        for payment in page.items.iter().filter(|it| !before.contains(&it.id.uuid())) {
            let start = payment.period_start().unwrap().to_string();
            let month = start[..7].to_owned().max(running.to_owned());
            let sum = sums.entry((month, payment.currency.to_string())).or_default();
            sum.0 += 1;
            let value = payment.amount.value();
            sum.1 += value.mantissa() * 10_i128.pow(6 - value.scale());
        }
        match page.next {
            None => break,
            next => query = query.with_after(next),
        }
    }
    sums.into_iter().map(|(key, (count, sum))| (key, (count, sum.to_string()))).collect()
}

async fn all_payments(shop: &Business) -> Vec<Uuid> {
    let (mut ids, mut query) = (Vec::new(), PaymentQuery::all());
    loop {
        let page = shop.service().payments(query.clone()).await.unwrap();
        ids.extend(page.items.iter().map(|payment| payment.id.uuid()));
        match page.next {
            None => return ids,
            next => query = query.with_after(next),
        }
    }
}

fn at_risk_of(forecast: &Forecast) -> u64 {
    forecast.data.iter().flat_map(|month| &month.money).map(|money| money.at_risk.count).sum()
}

/// The forecast equals what the clock then creates if every payment succeeds at once. A late clock takes the steps that
/// are due already when it comes: it skips the periods that were missed, as the forecast says.
#[tokio::test]
async fn forecast_is_life() {
    let mut payments = 0;
    let mut at_risk = 0;
    for seed in seeds(12) {
        let rng = Rng::new(seed);
        let shop = random_business(&rng, seed).await;
        if rng.percent(50) {
            let late = Duration::from_hours(24 * rng.below(200));
            shop.clock.set(shop.now().saturating_add(late));
        } else {
            // The last renewals are past due.
            shop.clock.set(shop.now().saturating_add(Duration::from_hours(24 * 12)));
            shop.billing.advance(1_000).await.unwrap();
            shop.report(PaymentStatus::Failed).await;
        }
        let before = all_payments(&shop).await;

        let forecast = shop.forecast().await;

        at_risk += at_risk_of(&forecast);
        shop.settle().await;
        shop.until(forecast.until).await;
        let running = &forecast.data[0].month;
        let life = created(&shop, &before, running).await;
        assert_eq!(forecast_sums(&forecast), life, "seed {seed}");
        payments += life.values().map(|(count, _)| count).sum::<u64>();
    }
    assert!(payments > 500 && at_risk > 10, "{payments} payments, {at_risk} at risk");
}

/// The forecast of several subscriptions is the sum of the forecasts of each.
#[tokio::test]
async fn each_subscription_counts_for_itself() {
    let rng = Rng::new(7);
    let shop = random_business(&rng, 7).await;
    let whole = forecast_sums(&shop.forecast().await);
    let query = SubscriptionQuery::default();
    let held = shop.service().subscriptions(query).await.unwrap().items;
    let mut sums = BTreeMap::<_, (u64, i128)>::new();
    for one in held {
        let alone = alone(&shop, Subscription::clone(&one)).await;
        for (key, (count, sum)) in forecast_sums(&alone) {
            let total = sums.entry(key).or_default();
            total.0 += count;
            total.1 += sum.parse::<i128>().unwrap();
        }
    }
    let sums: Sums =
        sums.into_iter().map(|(key, (count, sum))| (key, (count, sum.to_string()))).collect();
    assert_eq!(whole, sums);
}

/// The forecast of a business that has only this subscription.
async fn alone(shop: &Business, one: Subscription) -> Forecast {
    let store = MemoryStore::default();
    let writes = vec![Subscription { version: Version::FIRST, ..one }.into()];
    let set = ChangeSet { writes, ..Default::default() };
    subscription_core::Store::commit(&store, set).await.unwrap();
    let service = SubscriptionService::builder(store).clock(shop.clock.clone()).build();
    let billing = Billing::new(service, Policy::default());
    let figures = Figures::new(billing.service().clone());
    Forecast::clone(&*figures.forecast().await.unwrap())
}

#[tokio::test]
async fn without_billing_nothing_is_forecast() {
    let shop = Business::new("2026-01-10T00:00:00Z", 1);
    shop.subscribe(shop.plan("10.00", "EUR", "monthly").await).await;
    let without = shop.service().with_rules(subscription_core::CallerRules);
    let forecast = Figures::new(without).forecast().await.unwrap();
    assert!(forecast.data.iter().all(|month| month.money.is_empty()));
}
