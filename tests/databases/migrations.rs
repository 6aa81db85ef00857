//! Upgrades, by migrations that the next releases might bring: the tables of this release, with all that is in them, are
//! migrated, and this release still works on the tables of a later one that says so.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};
use subscription_core::store::{
    OpenError, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore,
};
use test_support::cluster::fresh_schema;
use test_support::trials;
use test_support::trials::{Trial, conformance};

use crate::folder::folder;
use crate::postgres;
use crate::transfer::{Movable as _, SampleRecords};

pub(crate) fn trials() -> Vec<Trial> {
    let mut all = trials![
        a_file_is_migrated_with_all_that_is_in_it,
        a_file_of_a_later_release_opens_if_it_serves_this_one,
    ];
    all.extend(conformance("sqlite, tables of the next release", file_of_the_next_release));
    all
}

pub(crate) fn trials_with_a_server() -> Vec<Trial> {
    let mut all = trials![
        a_database_is_migrated_with_all_that_is_in_it,
        a_database_of_a_later_release_opens_if_it_serves_this_one,
    ];
    all.extend(conformance("postgres, tables of the next release", database_of_the_next_release));
    all
}

/// A migration as the next release may have: a column with a default and an index, and this release can use the tables.
pub(crate) const SERVES: (&str, &str) = (
    "synthetic, serves 1",
    "ALTER TABLE plans ADD COLUMN synthetic TEXT NOT NULL DEFAULT 'none';
     ALTER TABLE subscriptions ADD COLUMN synthetic TEXT NOT NULL DEFAULT 'none';
     CREATE INDEX plans_by_synthetic ON plans (synthetic, id);",
);

/// A migration that this release cannot use the tables of.
const BREAKS: (&str, &str) = ("synthetic", "ALTER TABLE plans DROP COLUMN features;");

fn next_file(options: SqliteOptions) -> SqliteOptions {
    options.next_migration(SERVES.0, SERVES.1)
}

fn next_database(options: PostgresOptions) -> PostgresOptions {
    options.next_migration(SERVES.0, SERVES.1)
}

async fn file_of_the_next_release() -> SqliteStore {
    let file = folder().join("store.db");
    next_file(SqliteOptions::file(&file).relaxed()).open().await.unwrap().close().await;
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();
    assert_eq!(store.migrated(), Some(&(2..=2)));
    store
}

async fn database_of_the_next_release() -> PostgresStore {
    let options = schema().await;
    next_database(options.clone()).open().await.unwrap().close().await;
    let store = options.open().await.unwrap();
    assert_eq!(store.migrated(), Some(&(2..=2)));
    store
}

async fn schema() -> PostgresOptions {
    let schema = fresh_schema(postgres::shared()).await;
    PostgresOptions::url(postgres::shared()).unwrap().schema(&schema)
}

async fn a_file_is_migrated_with_all_that_is_in_it() {
    let file = folder().join("store.db");
    let store = SqliteOptions::file(&file).open().await.unwrap();
    assert_eq!(store.migrated(), Some(&(0..=1)));
    SampleRecords::new().fill(&store, 20).await;
    let before = store.moved_out().await;
    store.close().await;

    let store = next_file(SqliteOptions::file(&file)).open().await.unwrap();

    assert_eq!(store.migrated(), Some(&(1..=2)));
    assert!(store.moved_out().await == before, "the records are the same");
    store.close().await;
    let mut other: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let text = "SELECT count(*) FROM plans WHERE synthetic <> 'none'";
    assert_eq!(sqlx::query_scalar::<_, i64>(text).fetch_one(&mut other).await.unwrap(), 0);
}

async fn a_database_is_migrated_with_all_that_is_in_it() {
    let options = schema().await;
    let store = options.clone().open().await.unwrap();
    assert_eq!(store.migrated(), Some(&(0..=1)));
    SampleRecords::new().fill(&store, 20).await;
    let before = store.moved_out().await;
    store.close().await;

    let store = next_database(options).open().await.unwrap();

    assert_eq!(store.migrated(), Some(&(1..=2)));
    assert!(store.moved_out().await == before, "the records are the same");
    store.close().await;
}

async fn a_file_of_a_later_release_opens_if_it_serves_this_one() {
    let file = folder().join("store.db");
    let options = || SqliteOptions::file(&file);
    next_file(options()).open().await.unwrap().close().await;
    options().open().await.unwrap().close().await;

    let later = next_file(options()).next_migration(BREAKS.0, BREAKS.1);
    later.open().await.unwrap().close().await;

    assert_refused(&options().open().await.unwrap_err());
    // A release between them is refused too.
    assert_refused(&next_file(options()).open().await.unwrap_err());
}

async fn a_database_of_a_later_release_opens_if_it_serves_this_one() {
    let options = schema().await;
    next_database(options.clone()).open().await.unwrap().close().await;
    options.clone().open().await.unwrap().close().await;

    let later = next_database(options.clone()).next_migration(BREAKS.0, BREAKS.1);
    later.open().await.unwrap().close().await;

    assert_refused(&options.clone().open().await.unwrap_err());
    assert_refused(&next_database(options.clone()).open().await.unwrap_err());
    assert_refused(&options.open_once_reachable().await.unwrap_err());
}

#[track_caller]
fn assert_refused(error: &OpenError) {
    let OpenError::Migration(cause) = error else { panic!("{error:?}") };
    let cause = cause.to_string();
    assert!(cause.contains("was previously applied but is missing"), "{cause}");
}
