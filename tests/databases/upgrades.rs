//! Databases of every set of tables there ever was open with today's.
//!
//! `fixtures/0001.*` are a database made by the first migration, as each database dumps it, and all that is
//! in it as JSON lines. With each release that has migrations a set joins, named by the last of them.
//! `fixtures/make 0006` made that set from `fixtures/lines.jsonl`, an export of the first release, and
//! `fixtures/0006.fill.sql`, the values of newer columns; the later sets are made from lines of
//! their own, `fixtures/0007.jsonl` and so on, which have them. An older set is never made anew.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection};
use subscription_core::Timestamp;
use subscription_core::store::{PostgresOptions, SqliteOptions};
use test_support::cluster::fresh_schema;
use test_support::trials;
use test_support::trials::Trial;

use crate::folder::folder;
use crate::postgres::shared;

/// Every set that was ever released, and those since.
const SETS: [&str; 8] = ["0001", "0004", "0005", "0006", "0007", "0008", "0009", "0010"];

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_file_of_every_earlier_set_opens_with_all_that_was_in_it,
        an_export_of_the_first_release_is_imported,
        a_file_of_a_later_release_opens_if_it_serves_this_one,
    ]
}

pub(crate) fn trials_with_a_server() -> Vec<Trial> {
    trials![
        a_database_of_every_earlier_set_opens_with_all_that_was_in_it,
        a_database_of_a_later_release_opens_if_it_serves_this_one,
    ]
}

/// Migrations of later releases, and whether this release can use their tables.
const LATER: [(&[&str], bool); 5] = [
    (&["receipts, serves 10"], true),
    (&["receipts, serves 9", "cards, serves 10"], true),
    (&["receipts, serves 11"], false),
    (&["receipts, serves 10", "cards, serves 11"], false),
    (&["receipts"], false),
];

/// SQL that notes migrations of later releases as done.
fn note(later: &[&str]) -> String {
    let row = |(version, name): (usize, &&str)| format!("({version}, '{name}', true, '', 0)");
    let rows: Vec<_> = (11..).zip(later).map(row).collect();
    format!(
        "DELETE FROM _sqlx_migrations WHERE version > 10; INSERT INTO _sqlx_migrations \
         (version, description, success, checksum, execution_time) VALUES {}",
        rows.join(", ")
    )
}

pub(crate) fn fixture(name: &str) -> String {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/databases/fixtures");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Every record of the export is as it was: all its fields are there with their values, and times are the
/// same moments. The last line, which has a hash of all others, is left out.
fn assert_same(set: &str, found: &[u8]) {
    let found = String::from_utf8(found.to_vec()).unwrap();
    let expected = fixture(&format!("{set}.jsonl"));
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let pairs = found.lines().zip(expected.lines()).take(expected.lines().count() - 1);
    for (nth, (found, expected)) in pairs.enumerate() {
        let (found, expected) = (moments(read(found)), moments(read(expected)));
        assert!(holds(&found, &expected), "set {set}, line {nth}: {found} for {expected}");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "set {set}");
}

/// The value with all times in today's form, with columns of JSON as objects, and without the scope that is no more.
fn moments(value: Value) -> Value {
    match value {
        Value::String(text) if text.starts_with('{') => {
            moments(serde_json::from_str(&text).unwrap())
        }
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(moment) => Value::String(moment.to_string()),
            Err(_) => Value::String(text),
        },
        Value::Array(items) => {
            items.into_iter().filter(|item| item != "admin").map(moments).collect()
        }
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, moments(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// True if `found` has all that `expected` has, and no more than new fields besides. A field without a value may be left
/// out.
fn holds(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => expected
            .iter()
            .all(|(name, value)| holds(found.get(name).unwrap_or(&Value::Null), value)),
        _ => found == expected,
    }
}

async fn a_file_of_every_earlier_set_opens_with_all_that_was_in_it() {
    for set in SETS {
        let file = folder().join("store.db");
        let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
        let mut connection: SqliteConnection = options.connect().await.unwrap();
        let text = fixture(&format!("{set}.sqlite.sql"));
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();

        let store = SqliteOptions::file(&file).open().await.unwrap();

        let mut found = Vec::new();
        store.export(&mut found, |_| {}).await.unwrap();
        assert_same(set, &found);
    }
}

async fn an_export_of_the_first_release_is_imported() {
    let file = fixture("lines.jsonl");
    let store = SqliteOptions::file(folder().join("store.db")).open().await.unwrap();

    let counts = store.import(file.as_bytes(), |_| {}).await.unwrap();

    assert_eq!(counts.total() + 2, file.lines().count() as u64);
}

async fn a_database_of_every_earlier_set_opens_with_all_that_was_in_it() {
    for set in SETS {
        let schema = fresh_schema(shared()).await;
        let mut connection = PgConnection::connect(shared()).await.unwrap();
        // The dump names the schema that it was made in.
        let text =
            fixture(&format!("{set}.postgres.sql")).replace("public.", &format!("{schema}."));
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();

        let store = PostgresOptions::url(shared()).unwrap().schema(&schema).open().await.unwrap();

        let mut found = Vec::new();
        store.export(&mut found, |_| {}).await.unwrap();
        assert_same(set, &found);
    }
}

async fn a_file_of_a_later_release_opens_if_it_serves_this_one() {
    let file = folder().join("store.db");
    SqliteOptions::file(&file).open().await.unwrap().close().await;
    for (later, serves) in LATER {
        let options = SqliteConnectOptions::new().filename(&file);
        let mut connection: SqliteConnection = options.connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(note(later))).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();

        let opened = SqliteOptions::file(&file).open().await;

        assert_eq!(opened.is_ok(), serves, "{later:?}: {opened:?}");
        if let Ok(store) = opened {
            let last = 10 + i64::try_from(later.len()).unwrap();
            assert_eq!(store.migrated(), Some(&(last..=last)));
            store.close().await;
        }
    }
}

async fn a_database_of_a_later_release_opens_if_it_serves_this_one() {
    let schema = fresh_schema(shared()).await;
    let options = || PostgresOptions::url(shared()).unwrap().schema(&schema);
    let first = options().open().await.unwrap();
    assert_eq!(first.migrated(), Some(&(0..=10)));
    first.close().await;
    let mut connection = PgConnection::connect(shared()).await.unwrap();
    let path = format!("SET search_path TO {schema}");
    sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut connection).await.unwrap();
    for (later, serves) in LATER {
        sqlx::raw_sql(AssertSqlSafe(note(later))).execute(&mut connection).await.unwrap();

        let opened = options().open().await;

        assert_eq!(opened.is_ok(), serves, "{later:?}: {opened:?}");
    }
}
