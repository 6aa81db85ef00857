//! The cost of a commit, of a record by its id and of a page of 50, by the number of subscriptions.
//!
//! Run with `cargo bench --bench stores`; under three minutes. The promise: a page costs the same at 1,000 and at
//! 1,000,000 records, on the first page, in the middle and on the last. In memory every kind of list is measured; in
//! SQLite the tests in `tests/databases` check the lists, and each commit is flushed to the disk.

#![expect(clippy::unwrap_used, reason = "a bench that fails panics")]

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;
use subscription_core::store::StoreExt as _;
use subscription_core::subscriptions::Subscription;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode};
use subscription_core::store::{
    ChangeSet, Direction, PlanFilter, PlanOrder, PlanQuery, Record, SubscriptionFilter,
    SubscriptionOrder, SubscriptionQuery,
};
use subscription_core::{
    BillingCycle, MemoryStore, NewPlan, Plan, PlanId, Store, SubscriptionStatus, Timestamp,
};
use test_support::{million, million_records as records};
use tokio::runtime::{Builder, Runtime};

use records::subscription;

const SIZES: [u64; 3] = [1_000, 100_000, 1_000_000];
/// The number of commits after which their records are deleted again.
const COMMITS: u64 = 64;

fn newest() -> SubscriptionQuery {
    SubscriptionQuery::default().with_now(million::now())
}

/// The first page of the newest subscriptions, a page from the middle of the list, and the last page.
fn pages(size: u64) -> [(&'static str, SubscriptionQuery); 3] {
    let after = |nth| Some(SubscriptionOrder::CreatedAt.position(&subscription(nth)));
    [
        ("first page of 50", newest()),
        ("middle page of 50", newest().with_after(after(size / 2))),
        ("last page of 50", newest().with_after(after(50))),
    ]
}

/// Measures a commit, and the queries that are the same for every store.
fn each(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    store: &impl Store,
    size: u64,
) {
    group.bench_function(BenchmarkId::new("commit", size), |b| {
        b.iter_custom(|times| {
            let mut taken = Duration::ZERO;
            for done in (0..times).step_by(usize::try_from(COMMITS).unwrap()) {
                let numbers = size..size + COMMITS.min(times - done);
                taken += runtime.block_on(records::commits(store, numbers));
            }
            taken
        });
    });
    let mut nth = 0;
    group.bench_function(BenchmarkId::new("by id", size), |b| {
        b.iter(|| {
            nth = (nth + 15_485_863) % size;
            let found = runtime.block_on(store.get_as::<Subscription>(&records::id(nth)));
            black_box(found.unwrap().unwrap())
        });
    });
    for (name, query) in pages(size) {
        page(group, runtime, store, name, size, &query);
    }
}

fn page(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    store: &impl Store,
    name: &str,
    size: u64,
    query: &SubscriptionQuery,
) {
    let full = runtime.block_on(store.list_as::<Subscription>(query.clone())).unwrap().items.len();
    assert_eq!(full, 50, "{name} at {size}");
    group.bench_function(BenchmarkId::new(name, size), |b| {
        b.iter(|| {
            runtime.block_on(store.list_as::<Subscription>(black_box(query).clone())).unwrap()
        });
    });
}

/// Every kind of list.
fn lists() -> Vec<(&'static str, SubscriptionQuery)> {
    let filter = |filter: SubscriptionFilter| newest().with_filter(filter);
    let of_plan = SubscriptionFilter::default().with_subscription_plan_id(records::plan(0));
    let active = SubscriptionFilter::default().with_is_active(true);
    let (order, direction) = (SubscriptionOrder::RenewsAt, Direction::Ascending);
    vec![
        ("by renewal", newest().with_order(order).with_direction(direction)),
        ("of a plan", filter(of_plan.clone())),
        ("of a plan and active", filter(of_plan.with_is_active(true))),
        ("active once a sixth has ended", filter(active).with_now(Timestamp::MAX)),
        (
            "renewing in a quarter",
            filter(
                SubscriptionFilter::default()
                    .with_renews_before(records::at("2026-09-01T00:00:00Z")),
            ),
        ),
        (
            "in two states",
            filter(
                SubscriptionFilter::default()
                    .with_statuses(vec![SubscriptionStatus::PastDue, SubscriptionStatus::Unpaid]),
            ),
        ),
    ]
}

fn memory(c: &mut Criterion, runtime: &Runtime) {
    let mut group = c.benchmark_group("memory");
    for size in SIZES {
        let store = MemoryStore::default();
        runtime.block_on(records::fill(&store, 0..size));
        each(&mut group, runtime, &store, size);
        for (name, query) in lists() {
            page(&mut group, runtime, &store, name, size, &query);
        }
    }
    group.finish();
}

fn plan(nth: u64) -> Record {
    let at = subscription(nth).created_at;
    let cycle = if nth.is_multiple_of(4) { BillingCycle::YEARLY } else { BillingCycle::MONTHLY };
    let (name, slug) = (format!("Plan {nth}"), format!("plan-{nth}"));
    let price = "19.99".parse().unwrap();
    let mut new = NewPlan::new(name.parse().unwrap(), slug.parse().unwrap(), price, cycle);
    new.tier = (nth % 100).try_into().unwrap();
    Record::from(Plan::create(new, PlanId::from(million::id(nth)), at).unwrap())
}

fn plans_in_memory(c: &mut Criterion, runtime: &Runtime) {
    let mut group = c.benchmark_group("memory, plans");
    for size in SIZES {
        let store = MemoryStore::default();
        let mut writes = (0..size).map(plan).peekable();
        while writes.peek().is_some() {
            let writes = writes.by_ref().take(ChangeSet::RECORDS_MAX).collect();
            runtime.block_on(store.commit(ChangeSet { writes, ..ChangeSet::default() })).unwrap();
        }
        let yearly = PlanFilter::default().with_billing_cycle(BillingCycle::YEARLY);
        let queries = [
            ("by tier", PlanQuery::default()),
            ("by name", PlanQuery::default().with_order(PlanOrder::Name)),
            (
                "yearly by price",
                PlanQuery::default().with_filter(yearly).with_order(PlanOrder::Price),
            ),
        ];
        for (name, query) in queries {
            group.bench_with_input(BenchmarkId::new(name, size), &query, |b, query| {
                b.iter(|| {
                    runtime.block_on(store.list_as::<Plan>(black_box(query).clone())).unwrap()
                });
            });
        }
    }
    group.finish();
}

fn sqlite(c: &mut Criterion, runtime: &Runtime) {
    let mut group = c.benchmark_group("SQLite");
    group.sampling_mode(SamplingMode::Flat);
    for size in SIZES {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-stores").join("store.db");
        let store = runtime.block_on(records::sqlite(&file, size));
        each(&mut group, runtime, &store, size);
        runtime.block_on(store.close());
        std::fs::remove_file(file).unwrap();
    }
    group.finish();
}

fn main() {
    // `cargo test --benches` and `cargo bench --no-run` only check that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    memory(&mut criterion, &runtime);
    plans_in_memory(&mut criterion, &runtime);
    sqlite(&mut criterion, &runtime);
    criterion.final_summary();
}
