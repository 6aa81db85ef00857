//! Subscriptions that are computed from their number, so they are the same in every store and in every run.

use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{ChangeSet, Delete, Key, Record, SqliteOptions, SqliteStore};
use subscription_core::subscriptions::{ManagedBy, Quantity};
use subscription_core::{
    BillingCycle, EventId, PlanId, Store, Subscription, SubscriptionId, SubscriptionStatus,
    Timestamp, UserId, Version,
};

use crate::million::{self, COLUMNS};
pub use crate::service_world::at;

pub fn id(nth: u64) -> SubscriptionId {
    SubscriptionId::from(million::id(nth))
}

/// The user of a subscription. Each user has two subscriptions.
pub fn user(nth: u64) -> UserId {
    UserId::from(million::other_id(nth / 2))
}

/// The plan of a subscription. Half of all subscriptions have the same plan.
pub fn plan(nth: u64) -> PlanId {
    let plan = if nth.is_multiple_of(2) { 1 } else { 2 + nth / 2 % 49 };
    PlanId::from(million::other_id(plan))
}

/// The record that [`million::row`] writes in SQL.
pub fn subscription(nth: u64) -> Subscription {
    use SubscriptionStatus::{
        Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid,
    };
    let time =
        |seconds: u64| Timestamp::from_micros(i64::try_from(seconds * 1_000_000).unwrap()).unwrap();
    let lot = nth * 7_919 % 64;
    let status = match lot {
        0..10 => Cancelled,
        10..42 => Active,
        42..48 => OnTrial,
        48..52 => PastDue,
        52..54 => Pending,
        54..56 => Unpaid,
        56..59 => Paused,
        _ => Expired,
    };
    let ends_at = match lot {
        0..8 => Some(time(1_735_776_000 + nth * 30)),
        8..10 => Some(time(1_798_761_600)),
        _ => None,
    };
    let created_at = time(1_735_689_600 + nth * 30);
    let renews_at = time(1_780_272_000 + nth * 104_729 % 31_536_000);
    Subscription {
        id: id(nth),
        user_id: user(nth),
        subscription_plan_id: plan(nth),
        external_subscription_id: Some(format!("sub-{nth}").parse().unwrap()),
        billing_cycle: BillingCycle::MONTHLY,
        status,
        is_active: (8..52).contains(&lot),
        renews_at: (10..52).contains(&lot).then_some(renews_at),
        starts_at: created_at,
        ends_at,
        metadata: None,
        created_at,
        updated_at: created_at,
        version: Version::FIRST,
        blocked: nth.is_multiple_of(97),
        anchor_at: None,
        managed_by: ManagedBy::Caller,
        quantity: Quantity::ONE,
        billing: None,
        live_key: None,
    }
}

/// Writes the subscriptions of these numbers. Each commit has as many as its limit allows.
pub async fn fill(store: &impl Store, numbers: std::ops::Range<u64>) {
    let mut writes = numbers.map(|nth| Record::from(subscription(nth))).peekable();
    while writes.peek().is_some() {
        let writes = writes.by_ref().take(ChangeSet::RECORDS_MAX).collect();
        store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    }
}

/// Creates a new database file with `count` subscriptions. SQLite computes the rows itself, and creates the indexes
/// after all rows are written.
pub async fn sqlite(file: &Path, count: u64) -> SqliteStore {
    let folder = file.parent().unwrap();
    std::fs::create_dir_all(folder).unwrap();
    for ending in ["", "-wal", "-shm", ".lock"] {
        let mut name = file.as_os_str().to_owned();
        name.push(ending);
        std::fs::remove_file(name).ok();
    }
    SqliteOptions::file(file).open().await.unwrap().close().await;
    let mut connection = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
    let indexes = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' \
                   AND tbl_name = 'subscriptions' AND sql IS NOT NULL";
    let indexes = sqlx::query(indexes).fetch_all(&mut connection).await.unwrap();
    let mut steps = vec!["PRAGMA synchronous = off; PRAGMA cache_size = -262144".to_owned()];
    steps.extend(indexes.iter().map(|index| format!("DROP INDEX {}", index.get::<String, _>(0))));
    let id = |first: &str, last: &str| {
        format!("unhex(printf('%012x', {first}) || '70008000' || printf('%012x', {last}))")
    };
    let row = million::row(
        &id("1735689600000 + n * 30000", "n"),
        &id("1", "n / 2"),
        &id("1", "CASE WHEN n % 2 = 0 THEN 1 ELSE 2 + n / 2 % 49 END"),
        |seconds| format!("({seconds}) * 1000000"),
    );
    steps.push(format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers LIMIT {count}) \
         INSERT INTO subscriptions ({COLUMNS}) SELECT {row} FROM numbers"
    ));
    steps.extend(indexes.iter().map(|index| index.get::<String, _>(1)));
    steps.push("ANALYZE".to_owned());
    for step in steps {
        sqlx::raw_sql(AssertSqlSafe(step)).execute(&mut connection).await.unwrap();
    }
    sqlx::Connection::close(connection).await.unwrap();
    // The file is flushed now, because otherwise the first commits would wait for that.
    std::fs::File::open(file).unwrap().sync_all().unwrap();
    SqliteOptions::file(file).open().await.unwrap()
}

/// How long it takes to commit the new subscriptions of these numbers, each with its event, one after the other.
/// Afterwards they are deleted, so that the store has as many as before.
pub async fn commits(store: &impl Store, numbers: std::ops::Range<u64>) -> Duration {
    let sets: Vec<_> = numbers.clone().map(new).collect();
    let begun = Instant::now();
    for set in sets {
        store.commit(set).await.unwrap();
    }
    let taken = begun.elapsed();
    let delete = |nth| Delete { key: Key::Subscription(id(nth)), version: Version::FIRST };
    let deletes = numbers.map(delete).collect();
    store.commit(ChangeSet { deletes, ..ChangeSet::default() }).await.unwrap();
    taken
}

fn new(nth: u64) -> ChangeSet {
    let made = subscription(nth);
    let event = Event {
        id: EventId::from(made.id.uuid()),
        at: made.created_at,
        subject: Subject::Subscription(made.id),
        version: Version::FIRST,
        change: Change::Created,
        actor: Actor::Library,
    };
    let (writes, events) = (vec![Record::from(made)], vec![event]);
    ChangeSet { writes, events, ..ChangeSet::default() }
}
