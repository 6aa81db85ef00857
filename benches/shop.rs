//! The writes of a shop, compared with plain creates: a create with its first payment, the report of a payment, a
//! change of plan, a cancellation.
//!
//! `cargo bench --bench shop` opens a file of SQLite and a durable PostgreSQL, each with the service and its billing.
//! 32 callers do one operation for a second, then the next operation, in three rounds (`ROUNDS=…` sets another number).
//! It prints the median rate of each operation, and its ratio to the plain creates of the same round. `-- sqlite` or
//! `-- postgres` measures that database alone.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that fails panics, and it prints its result"
)]
#![expect(
    clippy::float_arithmetic,
    clippy::indexing_slicing,
    reason = "rates of a bench, not money"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use subscription_core::billing::{Billing, Policy};
use subscription_core::store::{CachedStore, PaymentQuery, PostgresOptions, SqliteOptions};
use subscription_core::{
    BillingCycle, NewPlan, NewSubscription, PaymentChanges, PaymentStatus, PlanChange, PlanId,
    Quantity, Store, SubscriptionId, SubscriptionService, SystemRandomness, UserId,
};
use test_support::cluster::Cluster;
use tokio::task::JoinSet;

const CALLERS: usize = 32;
const SLICE: Duration = Duration::from_secs(1);

/// The operations that are measured. Each uses the subscriptions that the previous operation has left in its stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Plain,
    Billed,
    Report,
    Change,
    Cancel,
}

const OPERATIONS: [(Operation, &str, &str); 5] = [
    (Operation::Plain, "create, plan without a currency", "1 record"),
    (Operation::Billed, "create with its first payment", "2 records"),
    (Operation::Report, "report of a payment", "1 record, 1 guard"),
    (Operation::Change, "change of plan with a payment", "2 records"),
    (Operation::Cancel, "cancel", "1 record"),
];

struct Shop {
    billing: Billing,
    plain: PlanId,
    billed: PlanId,
    /// Subscriptions whose first payment is to be reported, those that are paid, and those with another quantity.
    stages: [Mutex<VecDeque<SubscriptionId>>; 3],
}

impl Shop {
    async fn open(store: impl Store + 'static) -> Arc<Self> {
        let store = CachedStore::new(store, Duration::from_secs(3));
        let billing = Billing::new(SubscriptionService::new(store), Policy::default());
        let create = async |slug: &str, currency: Option<&str>| {
            let name = "Pro".parse().unwrap();
            let price = "19.90".parse().unwrap();
            let new = NewPlan::new(name, slug.parse().unwrap(), price, BillingCycle::MONTHLY);
            let currency = currency.map(|code| code.parse().unwrap());
            billing.service().create_plan(NewPlan { currency, ..new }).await.unwrap().id
        };
        let plain = create("plain", None).await;
        let billed = create("billed", Some("EUR")).await;
        Arc::new(Self { billing, plain, billed, stages: Default::default() })
    }

    fn next(&self, stage: usize) -> Option<SubscriptionId> {
        self.stages[stage].lock().unwrap().pop_front()
    }

    fn push(&self, stage: usize, id: SubscriptionId) {
        self.stages[stage].lock().unwrap().push_back(id);
    }

    /// Does one operation. Returns false if no subscription is left for it.
    async fn act(&self, operation: Operation) -> bool {
        let service = self.billing.service();
        match operation {
            Operation::Plain | Operation::Billed => {
                let plan = if operation == Operation::Plain { self.plain } else { self.billed };
                let user = UserId::new(service.now(), &SystemRandomness).unwrap();
                let made = service.create_subscription(NewSubscription::new(user, plan)).await;
                if operation == Operation::Billed {
                    self.push(0, made.unwrap().id);
                }
            }
            Operation::Report => {
                let Some(id) = self.next(0) else { return false };
                let payments = service.payments(PaymentQuery::of(id)).await.unwrap().items;
                let paid = PaymentChanges::status(PaymentStatus::Succeeded);
                service.update_payment(payments[0].id, paid).await.unwrap();
                self.push(1, id);
            }
            Operation::Change => {
                let Some(id) = self.next(1) else { return false };
                let change = PlanChange::to_quantity(Quantity::new(2).unwrap());
                self.billing.change_plan(id, &change).await.unwrap();
                self.push(2, id);
            }
            Operation::Cancel => {
                let Some(id) = self.next(2) else { return false };
                service.cancel(id).await.unwrap();
            }
        }
        true
    }

    /// How often an operation was done per second, measured over one slice.
    async fn slice(self: &Arc<Self>, operation: Operation) -> f64 {
        let begun = Instant::now();
        let done = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let shop = Arc::clone(self);
            let done = Arc::clone(&done);
            callers.spawn(async move {
                while begun.elapsed() < SLICE && shop.act(operation).await {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        callers.join_all().await;
        f64::from(u32::try_from(done.load(Ordering::Relaxed)).unwrap())
            / begun.elapsed().as_secs_f64()
    }
}

fn middle(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

async fn measure(name: &str, shop: Arc<Shop>) {
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let mut rates = vec![Vec::new(); OPERATIONS.len()];
    let mut ratios = vec![Vec::new(); OPERATIONS.len()];
    // The first slices fill caches and grow files.
    for operation in [Operation::Plain, Operation::Billed] {
        shop.slice(operation).await;
    }
    for _ in 0..rounds {
        let mut plain = 1.0;
        for (nth, (operation, ..)) in OPERATIONS.into_iter().enumerate() {
            let rate = shop.slice(operation).await;
            if operation == Operation::Plain {
                plain = rate;
            }
            rates[nth].push(rate);
            ratios[nth].push(rate / plain);
        }
    }
    println!("\n| {name}, {CALLERS} callers | writes | a second | of plain creates |");
    println!("| --- | --- | ---: | ---: |");
    for (nth, (_, operation, writes)) in OPERATIONS.into_iter().enumerate() {
        let (rate, ratio) = (middle(rates[nth].clone()), middle(ratios[nth].clone()));
        println!("| {operation} | {writes} | {rate:.0} | {ratio:.2} |");
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    // `cargo test --benches` only checks that it builds.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let words: Vec<_> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let takes = |name: &str| words.is_empty() || words.iter().any(|word| *word == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if takes("sqlite") {
            let file = std::env::temp_dir().join(format!("bench-shop-{}.db", std::process::id()));
            let store = Arc::new(SqliteOptions::file(&file).open().await.unwrap());
            measure("SQLite", Shop::open(Arc::clone(&store)).await).await;
            store.close().await;
            for end in ["db", "db-wal", "db-shm"] {
                std::fs::remove_file(file.with_extension(end)).ok();
            }
        }
        if takes("postgres") {
            match Cluster::start(true) {
                Ok(cluster) => {
                    let store = PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap();
                    measure("PostgreSQL", Shop::open(store).await).await;
                }
                Err(missing) => println!("PostgreSQL is not measured: {missing}"),
            }
        }
    });
}
