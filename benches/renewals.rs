//! How fast the clock renews subscriptions, and that it renews each exactly once.
//!
//! `cargo bench --bench renewals` fills a store with subscriptions that are due at the same time, and advances the
//! billing until nothing is due: 1,000,000 in memory, in SQLite and in a durable PostgreSQL
//! (`RENEWALS=100000` for fewer). SQLite is compared with its own grouped commits of one record, PostgreSQL with
//! pgbench committing one row at a time. Then 100,000 subscriptions live through a year in memory, with every
//! payment reported. At the end a server handles requests beside a catch-up, and the 99th percentile of
//! their times is compared with that without a catch-up. `-- memory`, `sqlite`, `postgres`, `discount`, `year` and
//! `beside` measure that part alone.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that fails panics, and it prints its result"
)]
#![expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "rates, not money")]
#![expect(clippy::indexing_slicing, reason = "of bytes that were just read")]

mod renewals_parts;
#[expect(dead_code, reason = "the rest is for the bench of load")]
mod world;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use renewals_parts::Served;
use sqlx::{Connection as _, PgConnection};
use subscription_core::billing::{Billing, Policy};
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{
    ChangeSet, DuePayments, PageLimit, PaymentQuery, PostgresOptions, Record, SqliteOptions,
};
use subscription_core::{
    BillingCycle, Clock, EventId, ManualClock, MemoryStore, NewDiscount, NewPlan, NewSubscription,
    PaymentChanges, PaymentStatus, Plan, PlanId, Store, Subscription, SubscriptionId,
    SubscriptionService, SystemRandomness, Timestamp, UserId,
};
use test_support::cluster::Cluster;

/// The callers that fill a store at the same time, and the sets of one call of `commit_each`.
const FILLED_AT_ONCE: (usize, usize) = (16, 200);
/// The renewals of a slice on SQLite, and the commits with which they are compared.
const SLICE: usize = 5_000;
const GROUPED: usize = 10_240;

#[tokio::main]
async fn main() {
    // `cargo test --benches` only checks that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let parts: Vec<_> = std::env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|named| named == part);
    let due = std::env::var("RENEWALS").map_or(1_000_000, |text| text.parse().unwrap());
    println!("| store | due | renewals/s | compared with | ratio |");
    println!("| --- | ---: | ---: | --- | ---: |");
    if wanted("memory") {
        let rate = renew(MemoryStore::default(), due).await;
        println!("| memory | {due} | {rate:.0} | a goal of 100,000/s | {:.2} |", rate / 100_000.0);
    }
    if wanted("sqlite") {
        on_sqlite(due).await;
    }
    if wanted("postgres") {
        on_postgres(due).await;
    }
    if wanted("discount") {
        let due = due.min(200_000);
        println!("\n| 50 % off | due | renewals/s without | with it | ratio | goal |");
        println!("| --- | ---: | ---: | ---: | ---: | ---: |");
        beside_full_price("memory", MemoryStore::default(), MemoryStore::default(), due).await;
        let folder = folder();
        let open = |name: &str| SqliteOptions::file(folder.join(name)).open();
        let full = open("full.db").await.unwrap();
        let reduced = open("reduced.db").await.unwrap();
        beside_full_price("SQLite", full, reduced, due).await;
    }
    if wanted("year") {
        year().await;
    }
    if wanted("beside") {
        beside(due).await;
    }
}

/// Measures ordinary requests beside a catch-up.
async fn beside(due: usize) {
    println!("\n| p99 | without a catch-up | beside one | ratio | renewals/s meanwhile |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    let store = SqliteOptions::file(folder().join("beside.db")).open().await.unwrap();
    beside_over("SQLite", store, due, async || {}).await;
    match Cluster::start_with(true, "-c min_wal_size=1GB -c max_wal_size=2GB") {
        Ok(cluster) => {
            let store = PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap();
            // A database that has run for a while uses the files of its log again; a new one first makes them.
            let checkpoint = async || {
                let mut to = PgConnection::connect(&cluster.url()).await.unwrap();
                sqlx::raw_sql("CHECKPOINT").execute(&mut to).await.unwrap();
            };
            beside_over("PostgreSQL", store, due, checkpoint).await;
        }
        Err(missing) => println!("| PostgreSQL | not measured: {missing} | | | |"),
    }
}

async fn beside_over(
    name: &str,
    store: impl Store + 'static,
    due: usize,
    when_filled: impl AsyncFnOnce(),
) {
    let store = Arc::new(store);
    let (billing, clock, plan) = billing(Arc::clone(&store)).await;
    let template = fill(&store, &billing, plan.id, None, due).await;
    clock.set.set(template.renews_at.unwrap());
    when_filled().await;
    Served::start(store).await.beside(name, &billing).await;
}

async fn on_sqlite(due: usize) {
    let folder = folder();
    let open = |name: &str| SqliteOptions::file(folder.join(name)).open();
    let commits = GroupedCommits::new(open("commits.db").await.unwrap()).await;
    let mut renewing = Renewing::of(open("due.db").await.unwrap(), due, None).await;
    // In slices, in turn: the speed of a disk changes from minute to minute.
    let (mut committed, mut slices) = (Duration::ZERO, Vec::new());
    loop {
        let (taken, steps) = (renewing.taken, renewing.steps);
        let more = renewing.advance(SLICE).await;
        let commits_took = commits.slice().await;
        committed += commits_took;
        let renewals =
            (renewing.steps - steps) as f64 / renewing.taken.saturating_sub(taken).as_secs_f64();
        slices.push(renewals / (GROUPED as f64 / commits_took.as_secs_f64()));
        if !more {
            break;
        }
    }
    let commits = (slices.len() * GROUPED) as f64 / committed.as_secs_f64();
    let rate = renewing.finish().await;
    let ratio = rate / commits;
    println!("| SQLite | {due} | {rate:.0} | {commits:.0} grouped commits/s | {ratio:.2} |");
    slices.sort_unstable_by(f64::total_cmp);
    let at = |part: usize| slices[(slices.len() - 1) * part / 4];
    println!("SQLite, {} slices: quartiles {:.2} {:.2} {:.2}", slices.len(), at(1), at(2), at(3));
}

async fn on_postgres(due: usize) {
    let cluster = match Cluster::start(true) {
        Ok(cluster) => cluster,
        Err(missing) => return println!("| PostgreSQL | | | not measured: {missing} | |"),
    };
    let store = PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap();
    let rate = renew(store, due).await;
    let commits = single_commits(&cluster);
    let ratio = rate / commits;
    println!("| PostgreSQL | {due} | {rate:.0} | {commits:.0} commits/s of pgbench | {ratio:.2} |");
}

/// Renews subscriptions at their full price and subscriptions with a discount, in slices in turn.
async fn beside_full_price<S: Store + 'static>(name: &str, full: S, reduced: S, due: usize) {
    let discount = NewDiscount::from_json(br#"{"percent":50,"periods":12}"#).unwrap();
    let mut full = Renewing::of(full, due, None).await;
    let mut reduced = Renewing::of(reduced, due, Some(discount)).await;
    while full.advance(SLICE).await | reduced.advance(SLICE).await {}
    let full = full.finish().await;
    let reduced = reduced.finish().await;
    let ratio = reduced / full;
    println!("| {name} | {due} | {full:.0} | {reduced:.0} | {ratio:.2} | 0.85 |");
}

/// An empty folder for the files of one store.
fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("renewals");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A clock that can be set, and runs from then on. If it stood still, the ids of payments would have no order.
#[derive(Debug, Clone)]
struct RunningClock {
    set: ManualClock,
    since: Instant,
}

impl Clock for RunningClock {
    fn now(&self) -> Timestamp {
        self.set.now().saturating_add(self.since.elapsed())
    }
}

/// A billing with one monthly plan.
async fn billing(store: impl Store + 'static) -> (Billing, RunningClock, Arc<Plan>) {
    let set = ManualClock::at("2025-01-31T10:00:00Z".parse().unwrap());
    let clock = RunningClock { set, since: Instant::now() };
    let service = SubscriptionService::builder(store).clock(clock.clone()).build();
    let billing = Billing::new(service, Policy::default());
    let name = "Renewed".parse().unwrap();
    let slug = "renewed".parse().unwrap();
    let plan = NewPlan::new(name, slug, "19.90".parse().unwrap(), BillingCycle::MONTHLY);
    let plan = NewPlan { currency: Some("EUR".parse().unwrap()), ..plan };
    let plan = billing.service().create_plan(plan).await.unwrap();
    (billing, clock, plan)
}

/// Renews `due` subscriptions that are due at the same time, each once. Returns the renewals a second.
async fn renew(store: impl Store + 'static, due: usize) -> f64 {
    let mut renewing = Renewing::of(store, due, None).await;
    while renewing.advance(10_000).await {}
    renewing.finish().await
}

/// Subscriptions that are due at the same time, while they are renewed.
struct Renewing {
    billing: Billing,
    template: Arc<Subscription>,
    due: usize,
    steps: usize,
    taken: Duration,
}

impl Renewing {
    async fn of(store: impl Store + 'static, due: usize, discount: Option<NewDiscount>) -> Self {
        let store = Arc::new(store);
        let (billing, clock, plan) = billing(Arc::clone(&store)).await;
        let template = fill(&store, &billing, plan.id, discount, due).await;
        // Reminders are not measured: at the renewal it is too late for one.
        clock.set.set(template.renews_at.unwrap());
        Self { billing, template, due, steps: 0, taken: Duration::ZERO }
    }

    /// Renews up to `limit` of them; true if more are due.
    async fn advance(&mut self, limit: usize) -> bool {
        let begun = Instant::now();
        let advanced = self.billing.advance(limit).await.unwrap();
        self.taken += begun.elapsed();
        assert_eq!((advanced.refused, advanced.failed), (0, 0), "{advanced:?}");
        self.steps += advanced.steps;
        advanced.more
    }

    /// Checks that each subscription was renewed once, and returns the renewals a second.
    async fn finish(self) -> f64 {
        assert_eq!(self.steps, self.due, "each exactly once");
        assert_eq!(self.billing.advance(10_000).await.unwrap().steps, 0);
        let of = PaymentQuery::of(self.template.id);
        let payments = self.billing.service().payments(of).await.unwrap().items;
        assert_eq!(payments.len(), 2, "the first period and the second");
        self.due as f64 / self.taken.as_secs_f64()
    }
}

/// Creates `due` subscriptions that are due at the same time, and returns one of them.
async fn fill(
    store: &Arc<impl Store + 'static>,
    billing: &Billing,
    plan: PlanId,
    discount: Option<NewDiscount>,
    due: usize,
) -> Arc<Subscription> {
    let service = billing.service();
    let user = UserId::new(service.now(), &SystemRandomness).unwrap();
    let new = NewSubscription { discount, ..NewSubscription::new(user, plan) };
    let template = service.create_subscription(new).await.unwrap();
    let mut made = 1;
    while made < due {
        // On PostgreSQL creations are committed one by one, so several callers make them.
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..FILLED_AT_ONCE.0 {
            let count = FILLED_AT_ONCE.1.min(due - made);
            let sets: Vec<_> = (0..count).map(|_| copy_of(&template, service.now())).collect();
            let store = Arc::clone(store);
            callers.spawn(async move { store.commit_each(sets).await });
            made += count;
        }
        for outcomes in callers.join_all().await {
            for made in outcomes {
                made.unwrap();
            }
        }
    }
    template
}

/// The change set that creates a copy of a subscription.
fn copy_of(template: &Subscription, at: Timestamp) -> ChangeSet {
    let random = &SystemRandomness;
    let id = SubscriptionId::new(at, random).unwrap();
    let user_id = UserId::new(at, random).unwrap();
    let event = Event {
        id: EventId::new(at, random).unwrap(),
        at,
        subject: Subject::Subscription(id),
        version: template.version,
        change: Change::Created,
        actor: Actor::Library,
    };
    let (created_at, updated_at) = (at, at);
    let copy = Subscription { id, user_id, created_at, updated_at, ..template.clone() };
    ChangeSet { writes: vec![Record::from(copy)], events: vec![event], ..ChangeSet::default() }
}

/// Commits of one record that 256 callers make at once.
struct GroupedCommits<S> {
    store: Arc<S>,
    template: Arc<Subscription>,
    clock: RunningClock,
}

impl<S: Store + 'static> GroupedCommits<S> {
    async fn new(store: S) -> Self {
        let store = Arc::new(store);
        let (billing, clock, plan) = billing(Arc::clone(&store)).await;
        let user = UserId::new(clock.now(), &SystemRandomness).unwrap();
        let template = NewSubscription::new(user, plan.id);
        let template = billing.service().create_subscription(template).await.unwrap();
        Self { store, template, clock }
    }

    /// The time that [`GROUPED`] commits take.
    async fn slice(&self) -> Duration {
        const CALLERS: usize = 256;
        let begun = Instant::now();
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (store, template) = (Arc::clone(&self.store), Arc::clone(&self.template));
                let clock = self.clock.clone();
                tokio::spawn(async move {
                    for _ in 0..GROUPED / CALLERS {
                        store.commit(copy_of(&template, clock.now())).await.unwrap();
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        begun.elapsed()
    }
}

/// The commits a second of pgbench, which inserts one row after the other.
fn single_commits(cluster: &Cluster) -> f64 {
    let script = folder().join("insert.sql");
    let table = "CREATE TABLE IF NOT EXISTS single_commits (id UUID PRIMARY KEY, body TEXT)";
    let made =
        Command::new(Cluster::program("psql")).arg(cluster.url()).args(["-qc", table]).status();
    assert!(made.unwrap().success());
    std::fs::write(
        &script,
        "INSERT INTO single_commits VALUES (gen_random_uuid(), repeat('x', 300));\n",
    )
    .unwrap();
    let output = Command::new(Cluster::program("pgbench"))
        .args(["-n", "-M", "prepared", "-c", "1", "-T", "10", "-f"])
        .arg(&script)
        .arg(cluster.url())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("tps = "));
    let number = line.and_then(|line| line.split_whitespace().nth(2));
    number
        .unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
        .parse()
        .unwrap()
}

/// 100,000 subscriptions live through a year in memory, and every payment is reported.
async fn year() {
    const SUBSCRIPTIONS: usize = 100_000;
    let (billing, clock, plan) = billing(MemoryStore::default()).await;
    let service = billing.service();
    let begun = Instant::now();
    for _ in 0..SUBSCRIPTIONS {
        let user = UserId::new(clock.now(), &SystemRandomness).unwrap();
        service.create_subscription(NewSubscription::new(user, plan.id)).await.unwrap();
    }
    let (mut paid, day) = (0, Duration::from_hours(24));
    for _ in 0..365 {
        while billing.advance(10_000).await.unwrap().more {}
        let due = DuePayments::until(PaymentStatus::Pending, clock.now());
        let due = due.with_limit(PageLimit::MAX);
        loop {
            let page = billing.due_payments(due.clone()).await.unwrap().items;
            for payment in &page {
                let report = PaymentChanges::status(PaymentStatus::Succeeded);
                service.update_payment(payment.id, report).await.unwrap();
            }
            paid += page.len();
            if page.is_empty() {
                break;
            }
        }
        clock.set.advance(day);
    }
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(paid, SUBSCRIPTIONS * 12, "twelve periods each");
    println!(
        "\n{SUBSCRIPTIONS} subscriptions, a year, {paid} payments: {seconds:.1} s (goal: 30 s)"
    );
}
