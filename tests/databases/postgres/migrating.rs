//! Migrations beside sessions that hold locks, and beside a process that freezes.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use subscription_core::store::PostgresOptions;
use test_support::cluster::Cluster;
use test_support::trials;
use test_support::trials::Trial;
use tokio::sync::oneshot;

use crate::migrations::SERVES;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        requests_go_on_while_a_migration_waits_for_a_backup,
        a_process_that_freezes_while_it_migrates_lets_others_migrate,
    ]
}

const DEADLINE: Duration = Duration::from_mins(1);

/// A server with the tables of this release, the options to open it with the next one, and a session that reads the
/// tables as a backup does.
async fn backed_up() -> (Cluster, PostgresOptions, PgConnection) {
    let cluster = Cluster::start(false).unwrap();
    let options = PostgresOptions::url(&cluster.url()).unwrap();
    options.clone().open().await.unwrap().close().await;
    let mut backup = PgConnection::connect(&cluster.url()).await.unwrap();
    say(&mut backup, "BEGIN; LOCK TABLE plans, subscriptions IN ACCESS SHARE MODE").await;
    (cluster, options.next_migration(SERVES.0, SERVES.1), backup)
}

async fn say(connection: &mut PgConnection, text: &str) {
    sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(connection).await.unwrap();
}

/// Waits until a session waits for the one of the backup.
async fn awaited(backup: &mut PgConnection) {
    let begun = Instant::now();
    let waits = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))";
    while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut *backup).await.unwrap() {
        assert!(begun.elapsed() < DEADLINE, "nobody waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn requests_go_on_while_a_migration_waits_for_a_backup() {
    let (cluster, options, mut backup) = backed_up().await;
    let mut running = PgConnection::connect(&cluster.url()).await.unwrap();

    let opened = tokio::spawn(options.clone().open());
    for _ in 0..3 {
        awaited(&mut backup).await;
        let read = sqlx::query("SELECT count(*) FROM plans").fetch_one(&mut running);
        tokio::time::timeout(DEADLINE, read).await.unwrap().unwrap();
    }
    assert!(!opened.is_finished());
    // A server starts, and is not ready.
    let started = options.open_once_reachable().await.unwrap();
    started.close().await;

    say(&mut backup, "COMMIT").await;
    opened.await.unwrap().unwrap().close().await;
}

/// As one that is paused does, or whose machine is: its connection stays open, and it sends nothing.
async fn a_process_that_freezes_while_it_migrates_lets_others_migrate() {
    let (_cluster, options, mut backup) = backed_up().await;
    let (freeze, must_freeze) = oneshot::channel::<()>();
    let (tell, is_frozen) = oneshot::channel::<()>();
    let (end, ended) = mpsc::channel::<()>();
    let of_process = options.clone();
    std::thread::spawn(move || {
        let process = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        process.block_on(async move {
            tokio::spawn(of_process.open());
            must_freeze.await.ok();
        });
        // Nothing runs any more, and nothing is dropped.
        tell.send(()).ok();
        ended.recv().ok();
    });
    // It has the lock of migrations when it waits for the tables.
    awaited(&mut backup).await;
    freeze.send(()).unwrap();
    is_frozen.await.unwrap();
    say(&mut backup, "COMMIT").await;

    let opened = tokio::time::timeout(DEADLINE, options.open()).await;

    opened.unwrap().unwrap().close().await;
    drop(end);
}
