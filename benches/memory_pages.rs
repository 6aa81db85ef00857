//! What a page of 50 costs in memory, by how many records there are and by filter.
//!
//! Run with `cargo bench --bench memory_pages`. The promise: the same at 1,000 and at 1,000,000
//! records, on the first page and in the middle.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench that fails panics")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use subscription_core::store::{
    ChangeSet, Direction, PlanFilter, PlanOrder, PlanQuery, SubscriptionFilter, SubscriptionOrder,
    SubscriptionQuery, Write,
};
use subscription_core::{
    BillingCycle, MemoryStore, NewPlan, NewSubscription, Plan, PlanId, SeededIds, Store,
    Subscription, SubscriptionId, SubscriptionStatus, Timestamp, UserId,
};
use tokio::runtime::Runtime;

const SIZES: [u64; 3] = [1_000, 100_000, 1_000_000];

/// The same moment for all, a little later for each.
fn moment(nth: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + i64::try_from(nth).unwrap() * 1_000_000).unwrap()
}

fn plan(ids: &SeededIds, nth: u64) -> Plan {
    let at = moment(nth);
    let cycle = if nth.is_multiple_of(4) { BillingCycle::YEARLY } else { BillingCycle::MONTHLY };
    let name = format!("Plan {nth}").parse().unwrap();
    let mut new =
        NewPlan::new(name, format!("plan-{nth}").parse().unwrap(), "19.99".parse().unwrap(), cycle);
    new.tier = (nth % 100).try_into().unwrap();
    Plan::create(new, PlanId::new(at, ids).unwrap(), at).unwrap()
}

fn subscription(ids: &SeededIds, plans: &[PlanId], nth: u64) -> Subscription {
    let at = moment(nth);
    let user = UserId::new(moment(nth / 2), ids).unwrap();
    let plan = plans[usize::try_from(nth).unwrap() % plans.len()];
    let mut new = NewSubscription::new(user, plan);
    // One in eight of each status: half of them grant access.
    new.status = SubscriptionStatus::all().nth(usize::try_from(nth % 8).unwrap());
    let id = SubscriptionId::new(at, ids).unwrap();
    Subscription::create(new, BillingCycle::MONTHLY, id, at).unwrap()
}

fn commit_all(store: &MemoryStore, runtime: &Runtime, writes: impl Iterator<Item = Write>) {
    let mut writes = writes.peekable();
    while writes.peek().is_some() {
        let writes = writes.by_ref().take(ChangeSet::RECORDS_MAX).collect();
        runtime.block_on(store.commit(ChangeSet { writes, ..ChangeSet::default() })).unwrap();
    }
}

fn pages_of_subscriptions(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = c.benchmark_group("page of 50 subscriptions, memory");
    group.throughput(Throughput::Elements(50));
    for size in SIZES {
        let (store, ids) = (Arc::new(MemoryStore::default()), SeededIds::new(size));
        let plans: Vec<_> = (0..10).map(|nth| PlanId::new(moment(nth), &ids).unwrap()).collect();
        let records = (0..size).map(|nth| Write::Subscription(subscription(&ids, &plans, nth)));
        commit_all(&store, &runtime, records);
        let newest = SubscriptionQuery { now: moment(0), ..SubscriptionQuery::default() };
        let middle = {
            let found = subscription(&SeededIds::new(size), &plans, size / 2);
            Some(SubscriptionOrder::CreatedAt.position(&found))
        };
        let filter = |filter: SubscriptionFilter| SubscriptionQuery { filter, ..newest.clone() };
        let of_plan =
            SubscriptionFilter { subscription_plan_id: Some(plans[3]), ..Default::default() };
        let queries = [
            ("newest", newest.clone()),
            ("from the middle", SubscriptionQuery { after: middle, ..newest.clone() }),
            (
                "by renewal",
                SubscriptionQuery {
                    order: SubscriptionOrder::RenewsAt,
                    direction: Direction::Ascending,
                    ..newest.clone()
                },
            ),
            ("of a plan", filter(of_plan.clone())),
            (
                "of a plan and active",
                filter(SubscriptionFilter { is_active: Some(true), ..of_plan }),
            ),
            (
                "active once an eighth has ended",
                SubscriptionQuery {
                    now: Timestamp::MAX,
                    ..filter(SubscriptionFilter { is_active: Some(true), ..Default::default() })
                },
            ),
            (
                "renewing soon",
                filter(SubscriptionFilter {
                    renews_before: Subscription::schedule(&subscription(&ids, &plans, 100))
                        .start_of(1),
                    ..Default::default()
                }),
            ),
            (
                "in two states",
                filter(SubscriptionFilter {
                    statuses: vec![SubscriptionStatus::PastDue, SubscriptionStatus::Unpaid],
                    ..Default::default()
                }),
            ),
        ];
        for (name, query) in queries {
            let full = runtime.block_on(store.subscriptions(&query)).unwrap().items.len();
            assert_eq!(full, 50, "{name} at {size}");
            group.bench_with_input(BenchmarkId::new(name, size), &query, |b, query| {
                b.iter(|| runtime.block_on(store.subscriptions(black_box(query))));
            });
        }
    }
    group.finish();
}

fn pages_of_plans(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = c.benchmark_group("page of 50 plans, memory");
    group.throughput(Throughput::Elements(50));
    for size in SIZES {
        let (store, ids) = (MemoryStore::default(), SeededIds::new(size));
        commit_all(&store, &runtime, (0..size).map(|nth| Write::Plan(plan(&ids, nth))));
        let yearly =
            PlanFilter { billing_cycle: Some(BillingCycle::YEARLY), ..PlanFilter::default() };
        let queries = [
            ("by tier", PlanQuery::default()),
            ("by name", PlanQuery { order: PlanOrder::Name, ..PlanQuery::default() }),
            (
                "yearly by price",
                PlanQuery { filter: yearly, order: PlanOrder::Price, ..PlanQuery::default() },
            ),
        ];
        for (name, query) in queries {
            group.bench_with_input(BenchmarkId::new(name, size), &query, |b, query| {
                b.iter(|| runtime.block_on(store.plans(black_box(query))));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, pages_of_subscriptions, pages_of_plans);
criterion_main!(benches);
