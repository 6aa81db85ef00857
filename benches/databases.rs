//! The throughput of the stores on disk, against the limit of the database below them.
//!
//! The limit of PostgreSQL is pgbench with the same rows and the same durability; that of SQLite is one flush of the
//! disk for each commit. The store and its limit are measured in slices that take turns, so that other load on the
//! machine affects both. The bench prints medians, and the ratio of each pair of slices with its spread. If no
//! PostgreSQL server can be started, it says so and leaves that half out.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that fails panics, and it tells"
)]
#![expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "ratios, not money")]

use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use subscription_core::store::StoreExt as _;

use subscription_core::Clock as _;
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{ChangeSet, PostgresOptions, Record, SqliteOptions};
use subscription_core::{
    BillingCycle, EventId, NewPayment, NewSubscription, Payment, PaymentId, PlanId, Store,
    Subscription, SubscriptionId, SystemClock, SystemRandomness, UserId, Version,
};
use test_support::cluster::Cluster;

const CALLERS: usize = 32;
/// The subscriptions that are renewed in turn.
const SUBSCRIPTIONS: usize = 20_000;
const SLICE: Duration = Duration::from_secs(2);

fn main() {
    // `cargo test --benches` and `cargo bench --no-run` only check that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    // `cargo bench --bench databases -- renewals` measures those alone.
    let all = !std::env::args().any(|argument| argument == "renewals");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if all {
        runtime.block_on(sqlite());
    }
    match Cluster::start(true) {
        Ok(cluster) => runtime.block_on(async {
            psql(&cluster, "CREATE SEQUENCE bench");
            if all {
                postgres(&cluster).await;
            }
            renewals(&cluster).await;
        }),
        Err(missing) => println!("PostgreSQL was not measured: {missing}"),
    }
}

/// A new subscription and its event.
fn one() -> ChangeSet {
    let now = SystemClock.now();
    let user = UserId::new(now, &SystemRandomness).unwrap();
    let new = NewSubscription::new(user, PlanId::new(now, &SystemRandomness).unwrap());
    let id = SubscriptionId::new(now, &SystemRandomness).unwrap();
    let made = Subscription::create(new, BillingCycle::MONTHLY, id, now).unwrap();
    let event = Event {
        id: EventId::new(now, &SystemRandomness).unwrap(),
        at: now,
        subject: Subject::Subscription(id),
        version: Version::FIRST,
        change: Change::Created,
        actor: Actor::Library,
    };
    ChangeSet { writes: vec![Record::from(made)], events: vec![event], ..ChangeSet::default() }
}

/// How often `work` is done per second if `callers` tasks do it at the same time, measured over one slice.
async fn per_second<F: Future<Output = ()> + Send>(
    callers: usize,
    work: impl Fn() -> F + Send + Sync + 'static,
) -> f64 {
    let work = Arc::new(work);
    let begun = Instant::now();
    let until = begun + SLICE;
    let done = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (work, done) = (Arc::clone(&work), Arc::clone(&done));
            tokio::spawn(async move {
                while Instant::now() < until {
                    work().await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

/// Prints the medians of `ours` and of `limit`, and the ratio of each pair of slices.
fn tell(what: &str, ours: &[f64], limit: &[f64]) {
    let mut ratios: Vec<_> = ours.iter().zip(limit).map(|(ours, limit)| ours / limit).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios.first().unwrap(), ratios.last().unwrap());
    println!(
        "{what}: {:.0}/s against {:.0}/s, ratio {:.2} ({least:.2} to {most:.2})",
        median(ours.to_vec()),
        median(limit.to_vec()),
        median(ratios.clone()),
    );
}

async fn sqlite() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-sqlite");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();
    let store = Arc::new(SqliteOptions::file(folder.join("store.db")).open().await.unwrap());
    let (mut grouped, mut one_by_one) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        for (callers, slices) in [(1, &mut one_by_one), (128, &mut grouped)] {
            let store = Arc::clone(&store);
            let commit = move || {
                let store = Arc::clone(&store);
                async move { store.commit(one()).await.unwrap() }
            };
            slices.push(per_second(callers, commit).await);
        }
    }
    tell("SQLite, 128 callers against one by one", &grouped, &one_by_one);
    store.close().await;
}

const COLUMNS: &str = "id, user_id, subscription_plan_id, external_subscription_id, billing_cycle, \
    status, is_active, renews_at, starts_at, ends_at, created_at, updated_at, version, blocked, anchor_at, \
    managed_by, quantity, access_phase";

/// The same rows as [`one`] writes, with ids that rise as ours do.
fn insert_script() -> String {
    let id = "lpad(to_hex(nextval('bench')), 32, '0')::uuid";
    let columns = COLUMNS;
    format!(
        "WITH made AS (INSERT INTO subscriptions ({columns}) VALUES ({id}, gen_random_uuid(), \
         gen_random_uuid(), NULL, 'monthly', 'active', true, now() + interval '1 month', now(), NULL, \
         now(), now(), 1, false, NULL, 'caller', 1, 3) RETURNING id), \
         told AS (INSERT INTO events (id, at, subject, version, change, actor) SELECT id, now(), \
         '{{\"kind\":\"subscription\",\"id\":\"01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77\"}}'::jsonb, 1, \
         '{{\"change\":\"created\"}}'::jsonb, 'library' FROM made) SELECT 1;\n"
    )
}

fn read_script() -> String {
    let columns = COLUMNS;
    format!(
        "\\set n random(1, 1000)\n\
         SELECT {columns} FROM subscriptions WHERE id = lpad(to_hex(:n::bigint), 32, '0')::uuid;\n"
    )
}

/// The throughput of pgbench.
fn pgbench(cluster: &Cluster, script: &str, callers: usize) -> f64 {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pgbench.sql");
    std::fs::write(&file, script).unwrap();
    let callers = callers.to_string();
    let seconds = SLICE.as_secs().to_string();
    let output = Command::new("pgbench")
        .args(["-n", "-M", "prepared", "-j", "2", "-c", &callers, "-T", &seconds, "-f"])
        .arg(&file)
        .arg(cluster.url())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let line = told.lines().find(|line| line.starts_with("tps = "));
    let number = line.and_then(|line| line.split(' ').nth(2)?.parse().ok());
    number.unwrap_or_else(|| panic!("{told} {}", String::from_utf8_lossy(&output.stderr)))
}

/// The rows of a renewal: a subscription is updated, and a payment and two events are written.
fn renewal_script() -> String {
    let (id, event) = ("lpad(to_hex(nextval('bench')), 32, '0')::uuid", "gen_random_uuid()");
    format!(
        "\\set n random(1, {SUBSCRIPTIONS})\n\
         WITH renewed AS (UPDATE subscriptions SET renews_at = renews_at + interval '1 month', \
         updated_at = now(), version = version + 1, access_phase = 3 \
         WHERE id = lpad(to_hex(:n::bigint), 32, '0')::uuid RETURNING id, version), \
         paid AS (INSERT INTO payments (id, subscription_id, amount, currency, status, created_at, \
         updated_at, version, settled) \
         SELECT {id}, id, 19.90, 'EUR', 'pending', now(), now(), 1, false FROM renewed), \
         told AS (INSERT INTO events (id, at, subject, version, change, actor) SELECT {event}, now(), \
         '{{\"kind\":\"subscription\",\"id\":\"01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77\"}}'::jsonb, version, \
         '{{\"change\":\"created\"}}'::jsonb, 'clock' FROM renewed, generate_series(1, 2)) SELECT 1;\n"
    )
}

/// Renews a subscription: its next version, a payment, and an event of each.
fn renew(subscription: &mut Subscription) -> ChangeSet {
    let now = SystemClock.now();
    subscription.version = subscription.version.next();
    subscription.updated_at = now;
    subscription.renews_at = Some(now);
    let (amount, currency) = ("19.90".parse().unwrap(), "EUR".parse().unwrap());
    let new = NewPayment::new(subscription.id, amount, currency);
    let id = PaymentId::new(now, &SystemRandomness).unwrap();
    let paid = Payment::create(new, BillingCycle::MONTHLY, id, now).unwrap();
    let subjects = [Subject::Subscription(subscription.id), Subject::Payment(id)];
    let events = subjects.map(|subject| Event {
        id: EventId::new(now, &SystemRandomness).unwrap(),
        at: now,
        subject,
        version: subscription.version,
        change: Change::Created,
        actor: Actor::Clock,
    });
    let writes = vec![Record::from(subscription.clone()), Record::from(paid)];
    ChangeSet { writes, events: events.into(), ..ChangeSet::default() }
}

/// Renewals, one by one and by [`Store::commit_each`], against pgbench with one caller and with many.
async fn renewals(cluster: &Cluster) {
    let options = PostgresOptions::url(&cluster.url()).unwrap().connections(CALLERS);
    let store = Arc::new(options.open().await.unwrap());
    psql(
        cluster,
        &format!(
            "INSERT INTO subscriptions ({COLUMNS}) SELECT lpad(to_hex(n), 32, '0')::uuid, \
             gen_random_uuid(), gen_random_uuid(), NULL, 'monthly', 'active', true, now(), now(), NULL, \
             now(), now(), 1, false, NULL, 'caller', 1, 3 FROM generate_series(1, {SUBSCRIPTIONS}) AS n \
             ON CONFLICT DO NOTHING"
        ),
    );
    let mut subscriptions = Vec::new();
    while subscriptions.len() < SUBSCRIPTIONS {
        let writes: Vec<_> = (0..1_000).flat_map(|_| one().writes).collect();
        for write in &writes {
            if let Record::Subscription(made) = write {
                subscriptions.push(Subscription::clone(made));
            }
        }
        store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    }
    psql(cluster, "VACUUM ANALYZE");
    let due = Arc::new(Mutex::new(VecDeque::from(subscriptions)));
    let next = move |count: usize| {
        let mut due = due.lock().unwrap();
        let sets = (0..count).map(|_| {
            let mut subscription = due.pop_front().unwrap();
            let changes = renew(&mut subscription);
            due.push_back(subscription);
            changes
        });
        sets.collect::<Vec<_>>()
    };
    let [mut one_by_one, mut many, mut grouped, mut one_client, mut clients] =
        [const { Vec::new() }; 5];
    for _ in 0..5 {
        let slices = [(1, 1, &mut one_by_one), (CALLERS, 1, &mut many), (1, 200, &mut grouped)];
        for (callers, count, slice) in slices {
            let (store, next) = (Arc::clone(&store), next.clone());
            let commit = move || {
                let (store, sets) = (Arc::clone(&store), next(count));
                async move {
                    let outcomes = store.commit_each(sets).await;
                    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
                }
            };
            slice.push(per_second(callers, commit).await * count as f64);
        }
        one_client.push(pgbench(cluster, &renewal_script(), 1));
        clients.push(pgbench(cluster, &renewal_script(), CALLERS));
    }
    tell("PostgreSQL, renewals one by one, against pgbench", &one_by_one, &one_client);
    tell("PostgreSQL, renewals by 32 callers, against pgbench with 32", &many, &clients);
    tell("PostgreSQL, renewals by commit_each of 200, against pgbench", &grouped, &one_client);
    tell("PostgreSQL, renewals by commit_each of 200, against pgbench with 32", &grouped, &clients);
    store.close().await;
}

async fn postgres(cluster: &Cluster) {
    let store =
        PostgresOptions::url(&cluster.url()).unwrap().connections(CALLERS).open().await.unwrap();
    let store = Arc::new(store);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let writing = Arc::clone(&store);
        let commit = move || {
            let store = Arc::clone(&writing);
            async move { store.commit(one()).await.unwrap() }
        };
        ours.push(per_second(CALLERS, commit).await);
        theirs.push(pgbench(cluster, &insert_script(), CALLERS));
    }
    tell("PostgreSQL, a record and its event, 32 callers, against pgbench", &ours, &theirs);

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let (reading, next) = (Arc::clone(&store), Arc::new(AtomicU64::new(0)));
        let read = move || {
            let (store, next) = (Arc::clone(&reading), Arc::clone(&next));
            async move {
                let number = u128::from(next.fetch_add(7, Ordering::Relaxed) % 1_000 + 1);
                let id = SubscriptionId::from(uuid::Uuid::from_u128(number));
                assert!(store.get_as::<Subscription>(&id).await.unwrap().is_some());
            }
        };
        ours.push(per_second(CALLERS, read).await);
        theirs.push(pgbench(cluster, &read_script(), CALLERS));
    }
    tell("PostgreSQL, a record by its id, 32 callers, against pgbench", &ours, &theirs);
    store.close().await;
}

fn psql(cluster: &Cluster, text: &str) {
    let done = Command::new("psql").args([&cluster.url(), "-qc", text]).status().unwrap();
    assert!(done.success());
}
