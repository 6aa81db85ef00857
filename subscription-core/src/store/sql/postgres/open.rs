//! Opens a PostgreSQL database, also one that cannot be reached yet.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::MigrateError;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::{Notify, watch};

use super::super::error::{is_transient, unavailable};
use super::super::migrations;
use super::super::pool::{Pool, is_lost};
use super::clock_skew::ClockSkew;
use super::commits::Commits;
use super::groups::Groups;
use super::shared_reads::SharedReads;
use super::{Postgres, PostgresStore, SqlStore};
use crate::store::{OpenError, StoreError};
use crate::values::SystemClock;
use crate::values::clock::Clock as _;

/// The longest pause between two attempts to reach a database.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Sets the time-outs of a migration, in milliseconds: how long it waits for a lock, and how long its session stays open,
/// with its locks, if this process freezes. A setting that an older server lacks is left out. Returns the time of the
/// database in microseconds, in each row.
const SET_TIMEOUTS: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
     set_config(name, value, false) FROM pg_settings JOIN (VALUES \
     ('lock_timeout', '1000'), ('idle_session_timeout', '10000'), \
     ('idle_in_transaction_session_timeout', '10000')) AS timeouts (name, value) USING (name)";

/// PostgreSQL's own bound of `max_connections`.
const CONNECTIONS_MAX: usize = 262_143;

/// PostgreSQL's own bound of its time-outs: 24 days.
const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// How to open a [`PostgresStore`].
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    options: PgConnectOptions,
    connections: usize,
    patience: Duration,
    statement_timeout: Duration,
}

impl PostgresOptions {
    /// A database by its address: `postgres://user:password@host/database?sslmode=verify-full`.
    pub fn url(url: &str) -> Result<Self, OpenError> {
        let options = PgConnectOptions::from_str(url);
        Ok(Self {
            options: options.map_err(|error| OpenError::Database(error.into()))?,
            connections: 16,
            patience: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
        })
    }

    /// The largest number of open connections, from 1 to 262,143; by default 16.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(1, CONNECTIONS_MAX);
        self
    }

    /// How long a caller waits for a connection, a free one or a new one; by default 5 seconds. Where the
    /// database refuses one because it has too many, the caller waits for one of those that are open. A
    /// caller who shares the statement of others waits a fifth of this for them, and then sends its own.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How long a statement may take, or a transaction wait for its next; 24 days at most, by default 10 seconds.
    #[must_use]
    pub const fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// Works in this schema, which must exist, instead of the user's own.
    #[must_use]
    pub fn schema(mut self, schema: &str) -> Self {
        self.options = self.options.options([("search_path", schema)]);
        self
    }

    /// Opens the database and migrates its tables.
    ///
    /// Waits for locks of others without an end, such as those of a backup or of a process that migrates.
    pub async fn open(self) -> Result<PostgresStore, OpenError> {
        let skew = Arc::default();
        loop {
            match migrate(&self.options, self.patience, &skew).await {
                Err(OpenError::Database(error))
                    if error.downcast_ref().and_then(cause).is_some_and(is_transient) =>
                {
                    tracing::warn!("the migration waits: a backup or another process has a lock");
                    tokio::time::sleep(RETRY_MAX).await;
                }
                migrated => {
                    migrated?;
                    return Ok(self.store(Readiness::ready(), Arc::default(), skew));
                }
            }
        }
    }

    /// Opens the database, or if it cannot be reached a store that is unavailable until it can be.
    pub async fn open_once_reachable(self) -> Result<PostgresStore, OpenError> {
        let skew = Arc::default();
        match migrate(&self.options, self.patience, &skew).await {
            Ok(()) => Ok(self.store(Readiness::ready(), Arc::default(), skew)),
            Err(error @ OpenError::Database(_)) => {
                let told = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(error = told, "the database cannot be used yet");
                let stop = Arc::default();
                let readiness = Readiness::awaited(
                    self.options.clone(),
                    self.patience,
                    Arc::clone(&stop),
                    Arc::clone(&skew),
                );
                Ok(self.store(readiness, stop, skew))
            }
            Err(error) => Err(error),
        }
    }

    fn store(self, readiness: Readiness, stop: Arc<Notify>, skew: Arc<ClockSkew>) -> PostgresStore {
        let millis = self.statement_timeout.min(TIMEOUT_MAX).as_millis().to_string();
        // The last one ends the session, and so the locks, of a process that freezes in a transaction.
        let timeouts = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
        let options = self
            .options
            .application_name("subscription")
            .statement_cache_capacity(256)
            .options(timeouts.map(|name| (name, millis.as_str())))
            // A rollback without a transaction, which abandoned connections get, is a warning.
            .options([("client_min_messages", "error")])
            .disable_statement_logging();
        let pool = Pool::new(
            options.clone(),
            self.connections,
            self.patience,
            self.statement_timeout.saturating_add(self.patience),
        );
        let reads = SharedReads::new(Arc::clone(&pool), self.patience / 5);
        let commits = Groups::new(Commits(Arc::clone(&pool)));
        SqlStore { database: Postgres { pool, reads, commits, options, readiness, skew, stop } }
    }
}

/// Migrates the tables, and compares the clocks. Of several processes one migrates while the others wait.
///
/// A lock that is not free within a second is an error: other sessions wait behind one that waits for a table. So the
/// caller pauses and tries again.
async fn migrate(
    options: &PgConnectOptions,
    patience: Duration,
    skew: &ClockSkew,
) -> Result<(), OpenError> {
    let options = options.clone().disable_statement_logging();
    let database = |error: sqlx::Error| OpenError::Database(error.into());
    // A server that accepts the connection and sends nothing must not be awaited without end.
    let connected = tokio::time::timeout(patience, options.connect()).await;
    let silent = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    let mut connection = connected.map_err(silent).flatten().map_err(database)?;
    let asked_at = SystemClock.now();
    let now =
        sqlx::query_scalar(SET_TIMEOUTS).fetch_all(&mut connection).await.map_err(database)?;
    now.last().inspect(|now| skew.compare(asked_at, **now));
    let migrated = migrations::postgres().run_direct(None, &mut connection, false).await;
    connection.close().await.ok();
    migrated.map_err(|error| {
        let may_pass = cause(&error).is_some_and(|it| is_lost(it) || is_transient(it));
        if may_pass {
            OpenError::Database(error.into())
        } else {
            OpenError::Migration(error.into())
        }
    })
}

/// The error of the database that ended a migration.
const fn cause(error: &MigrateError) -> Option<&sqlx::Error> {
    if let MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) = error {
        return Some(error);
    }
    None
}

/// Whether the tables have been migrated.
#[derive(Debug)]
pub(super) struct Readiness(watch::Receiver<bool>);

impl Readiness {
    fn ready() -> Self {
        Self(watch::channel(true).1)
    }

    /// Retries until the migration succeeds.
    fn awaited(
        options: PgConnectOptions,
        patience: Duration,
        stop: Arc<Notify>,
        skew: Arc<ClockSkew>,
    ) -> Self {
        let (tell, ready) = watch::channel(false);
        tokio::spawn(async move {
            let mut pause = Duration::from_millis(100);
            loop {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stop.notified() => return,
                    // The store was dropped.
                    () = tell.closed() => return,
                }
                match migrate(&options, patience, &skew).await {
                    Ok(()) => {
                        tracing::info!("the database is reachable and ready");
                        tell.send(true).ok();
                        return;
                    }
                    Err(OpenError::Database(_)) => {}
                    Err(error) => {
                        let told = std::error::Error::source(&error).map(ToString::to_string);
                        tracing::error!(error = told, "the database cannot be used");
                    }
                }
                pause = (pause * 2).min(RETRY_MAX);
            }
        });
        Self(ready)
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        if *self.0.borrow() {
            Ok(())
        } else {
            Err(unavailable("the database has not been reached yet"))
        }
    }
}
