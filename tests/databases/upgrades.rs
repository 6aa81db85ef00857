//! Databases of every set of tables there ever was open with today's.
//!
//! `fixtures/0001.*` are a database made by the first migration, as each database dumps it, and all that is
//! in it as JSON lines. With each migration a set joins: `fixtures/make 0002` makes it, from the lines of
//! the one before. An older set is never made anew.

use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection};
use subscription_core::store::{Postgres, Sqlite};

use crate::folder::folder;
use crate::postgres::cluster::fresh_schema;
use crate::postgres::shared;
use crate::stories::{Story, stories};

/// Every set that was ever released, and the next one.
const SETS: [&str; 1] = ["0001"];

pub(crate) fn stories() -> Vec<Story> {
    stories![a_file_of_every_earlier_set_opens_with_all_that_was_in_it]
}

pub(crate) fn stories_with_a_server() -> Vec<Story> {
    stories![a_database_of_every_earlier_set_opens_with_all_that_was_in_it]
}

fn fixture(name: &str) -> String {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/databases/fixtures");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Every line of the export is as it was, and as an import of those lines has it: with what has joined the
/// records since.
async fn assert_same(set: &str, found: &[u8]) {
    let found = String::from_utf8(found.to_vec()).unwrap();
    let (lines, imported) = (fixture(&format!("{set}.jsonl")), folder().join("imported.db"));
    let store = Sqlite::file(&imported).open().await.unwrap();
    store.import(lines.as_bytes(), |_| {}).await.unwrap();
    let mut expected = Vec::new();
    store.export(&mut expected, |_| {}).await.unwrap();
    let expected = String::from_utf8(expected).unwrap();
    for (nth, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "set {set}, line {nth}");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "set {set}");
}

async fn a_file_of_every_earlier_set_opens_with_all_that_was_in_it() {
    for set in SETS {
        let file = folder().join("store.db");
        let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
        let mut connection: SqliteConnection = options.connect().await.unwrap();
        let text = fixture(&format!("{set}.sqlite.sql"));
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();

        let store = Sqlite::file(&file).open().await.unwrap();

        let mut found = Vec::new();
        store.export(&mut found, |_| {}).await.unwrap();
        assert_same(set, &found).await;
    }
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

        let store = Postgres::url(shared()).unwrap().schema(&schema).open().await.unwrap();

        let mut found = Vec::new();
        store.export(&mut found, |_| {}).await.unwrap();
        assert_same(set, &found).await;
    }
}
