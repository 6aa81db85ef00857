//! The cost of the rules alone, in the process of an embedder: inputs, transitions, periods, amounts,
//! entitlement.
//!
//! Run with `cargo bench --bench domain`; about a minute. Stores are in memory.

#![expect(clippy::unwrap_used, reason = "a bench that fails panics")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::Criterion;
use subscription_core::billing::quote;
use subscription_core::store::{ChangeSet, Idempotency, Record};
use subscription_core::{
    Amount, BillingCycle, Field, ManualClock, MemoryStore, NewPlan, NewSubscription, Plan,
    PlanChange, PlanId, Schedule, Store as _, Subscription, SubscriptionChanges, SubscriptionId,
    SubscriptionService, SubscriptionStatus, SystemRandomness, UserId,
};
use test_support::billing::Life;
use test_support::billing::life::other_plan;
use test_support::{million, million_records as records};
use tokio::runtime::{Builder, Runtime};

use records::at;

const SUBSCRIPTIONS: u64 = 100_000;

const PLAN: &[u8] =
    br#"{"name":"Pro","slug":"pro","price":19.90,"billing_cycle":"monthly","tier":3,
    "description":"For teams","node_quota":5,"features":"sso,audit","most_popular":true}"#;
/// A body with six faults.
const BAD_PLAN: &[u8] =
    br#"{"name":"","slug":"Not a slug","price":-1,"billing_cycle":"never","tier":"x",
    "colour":"red"}"#;

fn inputs(c: &mut Criterion) {
    let mut group = c.benchmark_group("input");
    let (user, plan) = (records::user(1), records::plan(1));
    let subscription = format!(
        r#"{{"user_id":"{user}","subscription_plan_id":"{plan}","starts_at":"2025-01-31T00:00:00Z",
            "external_subscription_id":"sub_4711","billing_cycle":"monthly"}}"#
    );
    group.bench_function("a new plan", |b| b.iter(|| NewPlan::from_json(black_box(PLAN)).unwrap()));
    group.bench_function("a new subscription", |b| {
        b.iter(|| NewSubscription::from_json(black_box(subscription.as_bytes())).unwrap());
    });
    group.bench_function("a plan with six faults", |b| {
        b.iter(|| NewPlan::from_json(black_box(BAD_PLAN)).unwrap_err());
    });
    group.bench_function("an amount, read and written", |b| {
        b.iter(|| black_box("19.90").parse::<Amount>().unwrap().to_string());
    });
    group.finish();
}

fn rules(c: &mut Criterion) {
    let mut group = c.benchmark_group("rule");
    let now = at("2025-01-31T12:00:00Z");
    let user = UserId::new(now, &SystemRandomness).unwrap();
    let new = NewSubscription::new(user, PlanId::new(now, &SystemRandomness).unwrap());
    let id = SubscriptionId::new(now, &SystemRandomness).unwrap();
    let held = Subscription::create(new.clone(), BillingCycle::MONTHLY, id, now).unwrap();
    group.bench_function("a subscription made", |b| {
        b.iter(|| Subscription::create(black_box(new.clone()), BillingCycle::MONTHLY, id, now));
    });
    let cancelled = SubscriptionChanges::status(SubscriptionStatus::Cancelled);
    group.bench_function("a subscription cancelled", |b| {
        b.iter(|| black_box(&held).change(cancelled.clone(), now).unwrap());
    });
    // Periods from 31 January on: in a shorter month, the day is the month's last.
    let schedule = Schedule::new(now, BillingCycle::MONTHLY);
    let at_month_end = at("2031-02-28T11:59:59Z");
    group.bench_function("the next period after a month's end, in the 73rd month", |b| {
        b.iter(|| schedule.next_after(black_box(at_month_end)).unwrap());
    });
    let life = Life::new("monthly", "2026-04-01T00:00:00Z", |_| {});
    let to = other_plan("29.99", "USD", "monthly");
    let (change, changed_at) = (PlanChange::to_plan(to.id), at("2026-04-11T13:37:42Z"));
    group.bench_function("the quote of a change of plan", |b| {
        let own = (&life.subscription, &life.plan);
        b.iter(|| quote(black_box(own).0, own.1, Some(&to), &change, changed_at).unwrap());
    });
    group.finish();
}

/// A service with fifty plans and [`SUBSCRIPTIONS`] subscriptions to them.
async fn full() -> SubscriptionService {
    let store = Arc::new(MemoryStore::default());
    let now = at("2024-12-31T00:00:00Z");
    let plans = (1..=50).map(|nth| {
        let (name, slug) = (format!("Plan {nth}"), format!("plan-{nth}"));
        let price = "19.90".parse().unwrap();
        let cycle = BillingCycle::MONTHLY;
        let new = NewPlan::new(name.parse().unwrap(), slug.parse().unwrap(), price, cycle);
        Record::from(Plan::create(new, PlanId::from(million::other_id(nth)), now).unwrap())
    });
    store.commit(ChangeSet { writes: plans.collect(), ..ChangeSet::default() }).await.unwrap();
    records::fill(&*store, 0..SUBSCRIPTIONS).await;
    SubscriptionService::new(store)
}

fn entitlement(c: &mut Criterion, runtime: &Runtime) {
    let service = runtime.block_on(full());
    // The first queries move ended subscriptions to another access class.
    for _ in 0..=SUBSCRIPTIONS / 10_000 {
        runtime.block_on(service.entitlement(records::user(0))).unwrap();
    }
    let mut group = c.benchmark_group("entitlement");
    let entitled = |nth| {
        let user = records::user(nth);
        let service = &service;
        async move { service.entitlement(user).await.unwrap().has_access() }
    };
    let one = (0..64).find(|nth| runtime.block_on(entitled(*nth))).unwrap();
    group.bench_function("the same user again", |b| {
        b.iter_custom(|times| runtime.block_on(timed(times, |_| entitled(black_box(one)))));
    });
    group.bench_function("any of 50,000 users", |b| {
        let any = |nth| entitled(nth * 15_485_863 % SUBSCRIPTIONS);
        b.iter_custom(|times| runtime.block_on(timed(times, any)));
    });
    group.finish();
}

/// The time of `times` calls of `once` in one call of the runtime, because entering the runtime takes as long as
/// several.
async fn timed<T, F: Future<Output = T> + Send>(
    times: u64,
    once: impl Fn(u64) -> F + Send,
) -> Duration {
    let begun = Instant::now();
    for nth in 0..times {
        black_box(once(nth).await);
    }
    begun.elapsed()
}

/// A subscription that renews twelve times, by a clock that is turned.
async fn year() {
    let clock = ManualClock::at(at("2025-01-31T00:00:00Z"));
    let store = Arc::new(MemoryStore::default());
    let service = SubscriptionService::builder(store).clock(clock.clone()).build();
    let plan = service.create_plan(NewPlan::from_json(PLAN).unwrap()).await.unwrap();
    let user = UserId::new(service.now(), &SystemRandomness).unwrap();
    let new = NewSubscription::new(user, plan.id);
    let mut held = service.create_subscription(new).await.unwrap();
    for month in 1..=12 {
        clock.set(held.renews_at.unwrap());
        let renews_at = held.schedule().start_of(month + 1).unwrap();
        let changes =
            SubscriptionChanges { renews_at: Field::Value(renews_at), ..Default::default() };
        held = service.update_subscription(held.id, changes).await.unwrap();
        assert!(service.entitlement(user).await.unwrap().has_access());
    }
}

fn service(c: &mut Criterion, runtime: &Runtime) {
    let mut group = c.benchmark_group("service");
    group.bench_function("a year of a subscription", |b| b.iter(|| runtime.block_on(year())));
    let service = SubscriptionService::new(MemoryStore::default());
    let plan = service.create_plan(NewPlan::from_json(PLAN).unwrap());
    let plan = runtime.block_on(plan).unwrap();
    let new = NewSubscription::new(records::user(1), plan.id);
    let once = Idempotency { client: "shop".to_owned(), key: "order-4711".parse().unwrap() };
    group.bench_function("a request repeated under its key", |b| {
        let again = |_| service.create_subscription_once(new.clone(), once.clone());
        b.iter_custom(|times| runtime.block_on(timed(times, again)));
    });
    group.finish();
}

fn main() {
    // `cargo test --benches` and `cargo bench --no-run` only check that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = Builder::new_current_thread().build().unwrap();
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    inputs(&mut criterion);
    rules(&mut criterion);
    entitlement(&mut criterion, &runtime);
    service(&mut criterion, &runtime);
    criterion.final_summary();
}
