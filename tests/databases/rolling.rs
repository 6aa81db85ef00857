//! Rolling upgrades: a database that this release has migrated still serves the release before it.
//!
//! `fixtures/0004.statements.*` are statements of the release of migration 4 with their values, in the order
//! in which it sent them: writes of every kind by every way of committing, guards, reads, lists, deletes and
//! the feed. They are run on the tables of that release and on today's, and must return and change as many
//! rows on both. So a migration adds columns with defaults, and neither changes nor drops a column that
//! these statements use or an index that they name (`INDEXED BY`). Each release records its own statements
//! once it is made, and they take the place of these.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::Deserialize;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::types::Json;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, Row as _, SqliteConnection,
};
use subscription_core::payments::PaymentKind;
use subscription_core::store::{
    ChangeSet, DuePayments, PostgresOptions, Record, SqliteOptions, StoreExt as _,
    SubscriptionFilter, SubscriptionQuery, UniqueValue,
};
use subscription_core::{
    BillingCycle, NewPayment, Payment, PaymentId, PaymentStatus, Store, Subscription,
    SystemRandomness, Timestamp,
};
use test_support::cluster::fresh_schema;
use test_support::trials;
use test_support::trials::Trial;
use uuid::Uuid;

use crate::folder::folder;
use crate::postgres::shared;
use crate::records::{at, plan, subscription};

/// The last migration of the release before.
const BEFORE: &str = "0004";
/// The time of a subscription that never renews, in microseconds.
const NEVER: i64 = 253_402_300_800_000_000;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        the_release_before_runs_on_a_migrated_file,
        its_updates_leave_no_payment_to_do_in_a_file,
        its_subscriptions_are_listed_by_their_access_in_a_file,
    ]
}

pub(crate) fn trials_with_a_server() -> Vec<Trial> {
    trials![
        the_release_before_runs_on_a_migrated_database,
        its_updates_leave_no_payment_to_do_in_a_database,
    ]
}

#[derive(Deserialize)]
struct Recorded {
    sql: String,
    values: Vec<Value>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Value {
    Id(Uuid),
    Text(Option<String>),
    Int(i64),
    Bool(bool),
    Time(Option<i64>),
    Amount(String),
    Bytes(String),
    Json(String),
    PriceOrder(String),
    TimeOrder(Option<i64>),
}

impl Recorded {
    /// True if its rows are read.
    fn is_read(&self) -> bool {
        self.sql.starts_with("SELECT") || self.sql.starts_with("WITH")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn recorded(database: &str) -> Vec<Recorded> {
    let name = format!("tests/databases/fixtures/{BEFORE}.statements.{database}.jsonl");
    let text = fs::read_to_string(root().join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The migrations of the release before, and those since.
fn migrations(database: &str) -> (String, String) {
    let folder = root().join("subscription-core/migrations").join(database);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let is_before = |file: &&PathBuf| {
        let number = file.file_name().unwrap().to_str().unwrap().split('_').next();
        number <= Some(BEFORE)
    };
    let text = |files: Vec<&PathBuf>| {
        files.into_iter().map(|file| fs::read_to_string(file).unwrap()).collect::<String>()
    };
    let (before, since): (Vec<_>, Vec<_>) = files.iter().partition(is_before);
    assert!(!since.is_empty(), "the statements are those of the last migration");
    (text(before), text(since))
}

/// Compares what the statements returned and changed on the tables of both releases.
fn assert_same(statements: &[Recorded], before: &[u64], now: &[u64]) {
    for ((statement, before), now) in statements.iter().zip(before).zip(now) {
        assert_eq!(before, now, "rows of {}", statement.sql);
    }
    let changed: u64 = before.iter().sum();
    assert!(changed > statements.len() as u64 / 2, "most statements find rows: {changed}");
}

async fn the_release_before_runs_on_a_migrated_file() {
    let statements = recorded("sqlite");
    let (old, since) = migrations("sqlite");
    let mut outcomes = Vec::new();
    for tables in [old.clone(), format!("{old}{since}")] {
        let options = SqliteConnectOptions::new().filename(folder().join("store.db"));
        let mut file = options.create_if_missing(true).connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(tables)).execute(&mut file).await.unwrap();
        let mut rows = Vec::new();
        for statement in &statements {
            rows.push(run_in_sqlite(&mut file, statement).await);
        }
        outcomes.push(rows);
    }
    let [before, now] = outcomes.try_into().unwrap();
    assert_same(&statements, &before, &now);
}

async fn run_in_sqlite(file: &mut SqliteConnection, statement: &Recorded) -> u64 {
    let mut query = sqlx::query(AssertSqlSafe(statement.sql.clone()));
    for value in statement.values.clone() {
        query = match value {
            Value::Id(id) => query.bind(id),
            Value::Text(text) => query.bind(text),
            Value::Int(number) => query.bind(number),
            Value::Bool(yes) => query.bind(yes),
            Value::Time(micros) => query.bind(micros),
            Value::Amount(amount) => query.bind(amount),
            Value::Bytes(bytes) => query.bind(STANDARD.decode(bytes).unwrap()),
            Value::Json(text) => query.bind(text),
            Value::PriceOrder(price) => {
                let (whole, fraction) = price.split_once('.').unwrap_or((&price, ""));
                query.bind(format!("{whole:0>15}.{fraction:0<6}"))
            }
            Value::TimeOrder(micros) => query.bind(micros.unwrap_or(NEVER)),
        };
    }
    let rows = if statement.is_read() {
        query.fetch_all(file).await.map(|rows| rows.len() as u64)
    } else {
        query.execute(file).await.map(|done| done.rows_affected())
    };
    rows.unwrap_or_else(|error| panic!("{error}: {}", statement.sql))
}

async fn the_release_before_runs_on_a_migrated_database() {
    let statements = recorded("postgres");
    let (old, since) = migrations("postgres");
    let mut outcomes = Vec::new();
    for tables in [old.clone(), format!("{old}{since}")] {
        let schema = fresh_schema(shared()).await;
        let mut connection = PgConnection::connect(shared()).await.unwrap();
        let tables = format!("SET search_path = {schema}; {tables}");
        sqlx::raw_sql(AssertSqlSafe(tables)).execute(&mut connection).await.unwrap();
        // Some statements lock a table, which takes a transaction.
        let mut transaction = connection.begin().await.unwrap();
        let mut rows = Vec::new();
        for statement in &statements {
            rows.push(run_in_postgres(&mut transaction, statement).await);
        }
        transaction.commit().await.unwrap();
        outcomes.push(rows);
    }
    let [before, now] = outcomes.try_into().unwrap();
    assert_same(&statements, &before, &now);
}

async fn run_in_postgres(connection: &mut PgConnection, statement: &Recorded) -> u64 {
    let time = |micros: i64| DateTime::<Utc>::from_timestamp_micros(micros).unwrap();
    let mut query = sqlx::query(AssertSqlSafe(statement.sql.clone()));
    for value in statement.values.clone() {
        query = match value {
            Value::Id(id) => query.bind(id),
            Value::Text(text) => query.bind(text),
            Value::Int(number) => query.bind(number),
            Value::Bool(yes) => query.bind(yes),
            Value::Time(micros) => query.bind(micros.map(time)),
            Value::Amount(amount) | Value::PriceOrder(amount) => {
                query.bind(amount.parse::<Decimal>().unwrap())
            }
            Value::Bytes(bytes) => query.bind(STANDARD.decode(bytes).unwrap()),
            Value::Json(text) => {
                query.bind(Json(serde_json::from_str::<serde_json::Value>(&text).unwrap()))
            }
            Value::TimeOrder(micros) => query.bind(time(micros.unwrap_or(NEVER))),
        };
    }
    let rows = if statement.is_read() {
        // A commit in one statement returns a number for each record: 0 where it had another version.
        let found = |rows: Vec<PgRow>| match rows.first() {
            Some(row) if statement.sql.starts_with("WITH") => {
                (0..row.len()).filter(|at| row.try_get::<i64, _>(*at).is_ok_and(|n| n > 0)).count()
            }
            _ => rows.len(),
        };
        query.fetch_all(connection).await.map(|rows| found(rows) as u64)
    } else {
        query.execute(connection).await.map(|done| done.rows_affected())
    };
    rows.unwrap_or_else(|error| panic!("{error}: {}", statement.sql))
}

/// The update of a payment's status as the release before sends it: it knows no column of billing.
const UPDATE: &str = "UPDATE payments SET status = $1, version = 2 WHERE version = 1";

/// A payment for the first period of a subscription.
fn initial(of: Uuid) -> Payment {
    let now = at("2025-01-31T00:00:00Z");
    let new = NewPayment {
        kind: Some(PaymentKind::Initial),
        period_start: Some(now),
        ..NewPayment::new(of.into(), "19.90".parse().unwrap(), "EUR".parse().unwrap())
    };
    let id = PaymentId::new(now, &SystemRandomness).unwrap();
    Payment::create(new, BillingCycle::MONTHLY, id, now).unwrap()
}

async fn write(store: &impl Store, payment: &Payment) {
    let writes = vec![Record::from(payment.clone())];
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
}

/// The statuses in which a payment is due, and whether its period is claimed.
async fn state(store: &impl Store, payment: &Payment) -> (Vec<&'static str>, bool) {
    let mut due = Vec::new();
    for status in PaymentStatus::all() {
        let query = DuePayments::until(status, Timestamp::MAX);
        let page = store.due_payments(query).await.unwrap();
        due.extend(page.items.iter().map(|_| status.as_str()));
    }
    let start = payment.claimed_period().unwrap();
    let period = UniqueValue::PaymentPeriod(payment.subscription_id, start);
    (due, store.find(period).await.unwrap().is_some())
}

/// The state of a payment of the clock after each report by the release before.
async fn assert_nothing_to_do(store: &impl Store, update: impl AsyncFn(&'static str)) {
    let of = subscription(&plan("pro")).id.uuid();
    for (status, due, is_claimed) in [
        ("processing", vec!["processing"], true),
        ("failed", vec![], true),
        ("succeeded", vec![], true),
        ("canceled", vec![], false),
    ] {
        let payment = initial(of);
        write(store, &payment).await;
        assert_eq!(state(store, &payment).await, (vec!["pending"], true), "{status}");

        update(status).await;

        assert_eq!(state(store, &payment).await, (due, is_claimed), "{status}");
        let cancelled =
            Payment { status: PaymentStatus::Canceled, version: 3.into(), ..payment.clone() };
        write(store, &cancelled).await;
        assert_eq!(state(store, &payment).await, (vec![], false), "{status}");
    }
}

async fn its_updates_leave_no_payment_to_do_in_a_file() {
    let file = folder().join("store.db");
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();

    assert_nothing_to_do(&store, async |status| {
        let mut other = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
        sqlx::query(UPDATE).bind(status).execute(&mut other).await.unwrap();
    })
    .await;
}

async fn its_updates_leave_no_payment_to_do_in_a_database() {
    let schema = fresh_schema(shared()).await;
    let store = PostgresOptions::url(shared()).unwrap().schema(&schema).open().await.unwrap();

    assert_nothing_to_do(&store, async |status| {
        let mut other = PgConnection::connect(shared()).await.unwrap();
        let path = format!("SET search_path = {schema}");
        sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut other).await.unwrap();
        sqlx::query(UPDATE).bind(status).execute(&mut other).await.unwrap();
    })
    .await;
}

/// The release before writes a phase of 0 whatever the time, and none with an INSERT.
async fn its_subscriptions_are_listed_by_their_access_in_a_file() {
    let file = folder().join("store.db");
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();
    let [past, now, future] =
        ["2028", "2030", "2032"].map(|year| at(&format!("{year}-01-01T00:00:00Z")));
    let times = [past, now, future];
    let lives = times.iter().flat_map(|start| {
        let ends = times.iter().copied().map(Some).chain([None]);
        ends.map(|ends_at| Subscription {
            starts_at: *start,
            ends_at,
            ..subscription(&plan("pro"))
        })
    });
    let lives: Vec<Subscription> = lives.collect();
    let writes = lives.iter().cloned().map(Record::from).collect();
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();

    let mut other = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let update = "UPDATE subscriptions SET updated_at = $1, access_phase = 0";
    sqlx::query(update).bind(now.micros()).execute(&mut other).await.unwrap();

    for at in [now, future] {
        let filter = SubscriptionFilter::default().with_is_active(true);
        let query = SubscriptionQuery::default().with_filter(filter).with_now(at);
        let listed = store.list_as::<Subscription>(query).await.unwrap().items;
        for life in &lives {
            let is_listed = listed.iter().any(|listed| listed.id == life.id);
            assert_eq!(
                is_listed,
                life.is_active_at(at),
                "{} to {:?}",
                life.starts_at,
                life.ends_at
            );
        }
    }
}
