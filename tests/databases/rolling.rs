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
use test_support::cluster::fresh_schema;
use test_support::trials;
use test_support::trials::Trial;
use uuid::Uuid;

use crate::folder::folder;
use crate::postgres::shared;

/// The last migration of the release before.
const BEFORE: &str = "0004";
/// The time of a subscription that never renews, in microseconds.
const NEVER: i64 = 253_402_300_800_000_000;

pub(crate) fn trials() -> Vec<Trial> {
    trials![the_release_before_runs_on_a_migrated_file]
}

pub(crate) fn trials_with_a_server() -> Vec<Trial> {
    trials![the_release_before_runs_on_a_migrated_database]
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
