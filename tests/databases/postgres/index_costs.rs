//! The index budget: bytes that a create writes to PostgreSQL's log, by table and index.
//!
//! The table of `benches/README.md` comes from this test:
//! `cargo test --test databases -- index_costs --nocapture`.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use subscription_core::auth::{IdentityKey, User};
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{ChangeSet, Guard, Key, PostgresOptions, PostgresStore};
use subscription_core::{
    Clock as _, EventId, NewSubscription, Plan, Store as _, Subscription, SubscriptionId,
    SystemClock, SystemRandomness, UserId, Version,
};
use test_support::cluster::Cluster;
use test_support::trials;
use test_support::trials::Trial;
use uuid::Uuid;

use crate::records::plan;

/// No checkpoint and no vacuum in between: neither is part of a create.
const QUIET: &str = "-c autovacuum=off -c max_wal_size=4GB -c checkpoint_timeout=1h";
/// Creates between the checkpoint and the measurement: by then the log has each page as a whole.
const WARM_UP: usize = 3_000;
const CREATES: usize = 2_500;
const PLANS: usize = 20;
const USERS: usize = 500;
/// A create wrote 1,340 bytes when this was set. An index more costs 75 to 160.
const BYTES_MAX: f64 = 1_400.0;

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_create_stays_within_the_index_budget]
}

/// A user whose id is in no order.
fn user() -> User {
    let now = SystemClock.now();
    let ordered = UserId::new(now, &SystemRandomness).unwrap().uuid();
    let id = Uuid::from_u128(ordered.as_u128().reverse_bits());
    let identity =
        IdentityKey { issuer: "issuer".parse().unwrap(), subject: id.to_string().parse().unwrap() };
    let email = format!("{id}@example.com").parse().unwrap();
    let (id, version) = (id.into(), Version::FIRST);
    User { id, identity, email, closing: false, created_at: now, updated_at: now, version }
}

/// Commits a new subscription with its event, as the service does.
async fn create(store: &PostgresStore, plan: &Plan, user: &User, is_user_guarded: bool) {
    let now = SystemClock.now();
    let new = NewSubscription::new(user.id, plan.id);
    let id = SubscriptionId::new(now, &SystemRandomness).unwrap();
    let new = Subscription::create(new, plan.billing_cycle, id, now).unwrap();
    let event = Event {
        id: EventId::new(now, &SystemRandomness).unwrap(),
        at: now,
        subject: Subject::Subscription(id),
        version: Version::FIRST,
        change: Change::Created,
        actor: Actor::Library,
    };
    let mut guards = vec![Guard::Unchanged { key: Key::Plan(plan.id), version: plan.version }];
    if is_user_guarded {
        guards.push(Guard::Unchanged { key: Key::User(user.id), version: user.version });
    }
    let (writes, events) = (vec![new.into()], vec![event]);
    store.commit(ChangeSet { guards, writes, events, ..ChangeSet::default() }).await.unwrap();
}

async fn a_create_stays_within_the_index_budget() {
    let cluster = Cluster::start_with(false, QUIET).unwrap();
    let store = PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap();
    let mut log = PgConnection::connect(&cluster.url()).await.unwrap();
    let plans: Vec<_> = (0..PLANS).map(|n| plan(&format!("plan-{n}"))).collect();
    let users: Vec<_> = (0..USERS).map(|_| user()).collect();
    let (all_plans, all_users) = (plans.iter().cloned(), users.iter().cloned());
    let writes = all_plans.map(Into::into).chain(all_users.map(Into::into)).collect();
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    let creates = async |count: usize, is_user_guarded: bool| {
        for n in 0..count {
            // Of no plan are two in a row, and of no user.
            let plan = plans.get(n * 7 % PLANS).unwrap();
            let user = users.get(n * 61 % USERS).unwrap();
            create(&store, plan, user, is_user_guarded).await;
        }
    };
    sqlx::raw_sql("CHECKPOINT").execute(&mut log).await.unwrap();
    creates(WARM_UP, true).await;

    let begin = position(&mut log).await;
    creates(CREATES, false).await;
    let middle = position(&mut log).await;
    creates(CREATES, true).await;
    let end = position(&mut log).await;

    let bytes = between(&mut log, &begin, &middle).await;
    let guarded = between(&mut log, &middle, &end).await;
    println!("a create writes {bytes:.0} bytes of log, {guarded:.0} with a guard of its user");
    for (name, bytes) in by_relation(&mut log, &begin, &middle).await {
        println!("| {name} | {bytes:.0} |");
    }
    assert!(bytes < BYTES_MAX, "a create writes {bytes:.0} bytes of log");
}

async fn position(log: &mut PgConnection) -> String {
    let row = sqlx::query("SELECT pg_current_wal_lsn()::text").fetch_one(log).await.unwrap();
    row.get(0)
}

/// Bytes a create between two positions of the log.
async fn between(log: &mut PgConnection, begin: &str, end: &str) -> f64 {
    let text = format!("SELECT ('{end}'::pg_lsn - '{begin}'::pg_lsn)::float8 / {CREATES}");
    sqlx::query(AssertSqlSafe(text)).fetch_one(log).await.unwrap().get(0)
}

/// The same for each table and index, and for other records by their resource manager.
async fn by_relation(log: &mut PgConnection, begin: &str, end: &str) -> Vec<(String, f64)> {
    // A server without its extensions tells the sum alone.
    let extension = "CREATE EXTENSION pg_walinspect";
    if sqlx::raw_sql(extension).execute(&mut *log).await.is_err() {
        return Vec::new();
    }
    let text = format!(
        "SELECT COALESCE(relname::text, resource_manager), sum(record_length)::float8 / {CREATES} \
         FROM (SELECT resource_manager, record_length, \
               (regexp_match(block_ref, 'rel [0-9]+/[0-9]+/([0-9]+)'))[1]::oid AS node \
               FROM pg_get_wal_records_info('{begin}', '{end}')) AS records \
         LEFT JOIN pg_class ON pg_relation_filenode(pg_class.oid) = node \
         GROUP BY 1 HAVING sum(record_length) > {CREATES} ORDER BY 2 DESC"
    );
    let rows = sqlx::query(AssertSqlSafe(text)).fetch_all(log).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}
