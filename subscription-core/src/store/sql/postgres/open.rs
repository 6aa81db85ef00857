//! Opens a PostgreSQL database, even if it cannot be reached yet.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::{Notify, watch};

use super::super::error::{is_transient, unavailable};
use super::super::migrations::{self, NextMigration};
use super::super::pool::{Pool, is_lost};
use super::clock_skew::ClockSkew;
use super::commit_statement::Locked;
use super::commits::{Commits, LOCK_ATTEMPTS};
use super::feed::FeedBounds;
use super::groups::Groups;
use super::shared_reads::SharedReads;
use super::{Postgres, PostgresStore, SqlStore};
use crate::store::{OpenError, StoreError};
use crate::values::SystemClock;
use crate::values::clock::Clock as _;

/// The longest pause between two attempts to reach a database.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Sets the time-outs of a migration, in milliseconds: how long it waits for a lock, and how long its session stays
/// open, with its locks, if this process freezes. A setting that an older server lacks is left out. Returns the time of
/// the database in microseconds, in each row.
const SET_TIMEOUTS: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
     set_config(name, value, false) FROM pg_settings JOIN (VALUES \
     ('lock_timeout', '1000'), ('idle_session_timeout', '10000'), \
     ('idle_in_transaction_session_timeout', '10000')) AS timeouts (name, value) USING (name)";

/// The largest `max_connections` that PostgreSQL allows.
const CONNECTIONS_MAX: usize = 262_143;

/// The longest time-out that PostgreSQL allows: 24 days.
const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// A statement of several change sets waits for a lock for this part of the time for which one set waits.
const MOMENTS: u32 = 10;

/// The number of prepared statements that each connection keeps. The database has the plan of each in its memory.
const STATEMENTS_KEPT: usize = 64;

/// What protects the connections to a PostgreSQL database from others on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protection {
    /// The connections do not leave this machine: a socket, or an address of this machine itself.
    Local,
    /// `sslmode=verify-full`: the certificate is valid, and is that of the host.
    Verified,
    /// `verify-ca`: the certificate is of the authority, for whatever host.
    AnyHost,
    /// `require`: the connections are encrypted, and every certificate is accepted.
    AnyCertificate,
    /// `disable`: the connections are not encrypted.
    Plain,
    /// `prefer` or `allow`, or no `sslmode`: whoever answers for the database decides.
    Undecided,
}

/// Options for opening a [`PostgresStore`].
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    options: PgConnectOptions,
    connections: usize,
    patience: Duration,
    statement_timeout: Duration,
    next_migrations: Vec<NextMigration>,
}

impl PostgresOptions {
    /// Options for the database at an address: `postgres://user:password@host/database?sslmode=verify-full`.
    pub fn url(url: &str) -> Result<Self, OpenError> {
        let options = PgConnectOptions::from_str(url);
        Ok(Self {
            options: options.map_err(|error| OpenError::Database(error.into()))?,
            connections: 16,
            patience: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            next_migrations: Vec::new(),
        })
    }

    /// What protects the connections, by the host and the `sslmode` of the address.
    pub fn protection(&self) -> Protection {
        let host = self.options.get_host();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_local = host.trim_end_matches('.').eq_ignore_ascii_case("localhost")
            || host.starts_with('/')
            || self.options.get_socket().is_some()
            || address.is_ok_and(|address| address.is_loopback());
        match self.options.get_ssl_mode() {
            _ if is_local => Protection::Local,
            PgSslMode::VerifyFull => Protection::Verified,
            PgSslMode::VerifyCa => Protection::AnyHost,
            PgSslMode::Require => Protection::AnyCertificate,
            PgSslMode::Disable => Protection::Plain,
            PgSslMode::Prefer | PgSslMode::Allow => Protection::Undecided,
        }
    }

    /// The largest number of open connections, from 1 to 262,143; by default 16.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(1, CONNECTIONS_MAX);
        self
    }

    /// How long a caller waits for a free or a new connection; by default 5 seconds. If the database refuses a new
    /// connection because it has too many, the caller waits for an open connection to be returned. A read that waits to
    /// share a statement with others waits a fifth of this time, and then sends its own statement.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The longest time for one statement, and for a pause between two statements of a transaction; at most 24 days, by
    /// default 10 seconds. A statement waits for a lock for a fifth of this time; one that commits the changes of several
    /// callers, for a fiftieth.
    #[must_use]
    pub const fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// Uses this schema, which must exist, instead of the default schema of the database user.
    #[must_use]
    pub fn schema(mut self, schema: &str) -> Self {
        self.options = self.options.options([("search_path", schema)]);
        self
    }

    /// Adds a migration after those of this release, as the next release would. For the tests of upgrades.
    #[doc(hidden)]
    #[must_use]
    pub fn next_migration(mut self, name: &'static str, text: &'static str) -> Self {
        self.next_migrations.push(NextMigration { name, text });
        self
    }

    /// Opens the database and migrates its tables.
    ///
    /// The migration waits without a time limit for locks of other sessions, such as those of a backup or of a process
    /// that migrates.
    pub async fn open(self) -> Result<PostgresStore, OpenError> {
        let skew = Arc::default();
        loop {
            match self.migration().run(&skew).await {
                Err(OpenError::Database(error))
                    if error.downcast_ref().and_then(cause).is_some_and(is_transient) =>
                {
                    tracing::warn!("the migration waits: a backup or another process has a lock");
                    tokio::time::sleep(RETRY_MAX).await;
                }
                migrated => {
                    let migrated = Some(migrated?);
                    return Ok(self.store(Readiness::ready(), Arc::default(), skew, migrated));
                }
            }
        }
    }

    /// Opens the database. If it cannot be reached, the returned store is unavailable until the database is reached.
    pub async fn open_once_reachable(self) -> Result<PostgresStore, OpenError> {
        let skew = Arc::default();
        match self.migration().run(&skew).await {
            Ok(migrated) => {
                Ok(self.store(Readiness::ready(), Arc::default(), skew, Some(migrated)))
            }
            Err(error @ OpenError::Database(_)) => {
                let told = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(error = told, "the database cannot be used yet");
                let stop = Arc::default();
                let readiness =
                    Readiness::awaited(self.migration(), Arc::clone(&stop), Arc::clone(&skew));
                Ok(self.store(readiness, stop, skew, None))
            }
            Err(error) => Err(error),
        }
    }

    fn migration(&self) -> PostgresMigration {
        PostgresMigration {
            options: self.options.clone().disable_statement_logging(),
            patience: self.patience,
            migrations: [migrations::POSTGRES, &self.next_migrations].concat(),
        }
    }

    fn store(
        self,
        readiness: Readiness,
        stop: Arc<Notify>,
        skew: Arc<ClockSkew>,
        migrated: Option<RangeInclusive<i64>>,
    ) -> PostgresStore {
        let longest = self.statement_timeout.min(TIMEOUT_MAX);
        let lock_wait = longest / LOCK_ATTEMPTS;
        // The last time-out ends the session of a process that freezes in a transaction, and so releases its locks.
        let timeouts = [
            ("statement_timeout", longest),
            ("lock_timeout", lock_wait),
            ("idle_in_transaction_session_timeout", longest),
        ];
        let options = self
            .options
            .application_name("subscription")
            .statement_cache_capacity(STATEMENTS_KEPT)
            // 0 would mean no time-out.
            .options(timeouts.map(|(name, time)| (name, time.as_millis().max(1).to_string())))
            // A connection whose caller was cancelled gets a ROLLBACK. If it has no open transaction, PostgreSQL
            // would send a warning without this setting.
            .options([("client_min_messages", "error")])
            .disable_statement_logging();
        let pool = Pool::new(
            options.clone(),
            self.connections,
            self.patience,
            self.statement_timeout.saturating_add(self.patience),
        );
        let reads = SharedReads::new(Arc::clone(&pool), self.patience / 5);
        let locked = Locked::Refuse(lock_wait / MOMENTS);
        let commits = Groups::new(Commits { pool: Arc::clone(&pool), locked });
        let feed =
            Groups::new(FeedBounds { pool: Arc::clone(&pool), commits: Arc::clone(&commits) });
        let database = Postgres { pool, reads, commits, feed, options, readiness, skew, stop };
        SqlStore { database, migrated }
    }
}

/// The migration of a database, which can be tried again.
struct PostgresMigration {
    options: PgConnectOptions,
    patience: Duration,
    migrations: Vec<NextMigration>,
}

impl PostgresMigration {
    /// Migrates the tables, compares the clocks, and returns the numbers of the last migration before and now. If
    /// several processes migrate, one does so while the others wait.
    ///
    /// A lock that is not free within a second is an error: while this session waits for a table, other sessions wait
    /// behind it. The caller pauses and tries again.
    async fn run(&self, skew: &ClockSkew) -> Result<RangeInclusive<i64>, OpenError> {
        let database = |error: sqlx::Error| OpenError::Database(error.into());
        // The wait has a limit, because a server may accept the connection and send nothing.
        let connected = tokio::time::timeout(self.patience, self.options.connect()).await;
        let silent = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
        let mut connection = connected.map_err(silent).flatten().map_err(database)?;
        let asked_at = SystemClock.now();
        let now =
            sqlx::query_scalar(SET_TIMEOUTS).fetch_all(&mut connection).await.map_err(database)?;
        now.last().inspect(|now| skew.compare(asked_at, **now));
        let migrated = migrations::run(&self.migrations, &mut connection).await;
        connection.close().await.ok();
        migrated.map_err(|error| {
            let may_pass =
                cause(&error).is_some_and(|it| is_lost::<PgConnection>(it) || is_transient(it));
            if may_pass {
                OpenError::Database(error.into())
            } else {
                OpenError::Migration(error.into())
            }
        })
    }
}

/// The error of the database that ended a migration.
const fn cause(error: &MigrateError) -> Option<&sqlx::Error> {
    if let MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) = error {
        return Some(error);
    }
    None
}

/// True once the tables have been migrated.
#[derive(Debug)]
pub(super) struct Readiness(watch::Receiver<bool>);

impl Readiness {
    fn ready() -> Self {
        Self(watch::channel(true).1)
    }

    /// Starts a task that retries the migration until it succeeds.
    fn awaited(migration: PostgresMigration, stop: Arc<Notify>, skew: Arc<ClockSkew>) -> Self {
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
                match migration.run(&skew).await {
                    Ok(_) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_leave_this_machine_are_protected_by_what_the_address_names() {
        let cases = [
            ("postgres://me@localhost/x", Protection::Local),
            ("postgres://me@LOCALHOST/x", Protection::Local),
            ("postgres://me@localhost./x", Protection::Local),
            ("postgres://me@127.0.0.1:6432/x?sslmode=disable", Protection::Local),
            ("postgres://me@[::1]/x", Protection::Local),
            ("postgres://me@db.example/x?host=/var/run/postgresql", Protection::Local),
            ("postgres://me@%2Fvar%2Frun%2Fpostgresql/x", Protection::Local),
            ("postgres://me@localhost.example/x", Protection::Undecided),
            ("postgres://me@localhost/x?host=db.example", Protection::Undecided),
            ("postgres://me@localhost/x?hostaddr=10.0.0.5", Protection::Undecided),
            ("postgres://me@[::]/x?sslmode=prefer", Protection::Undecided),
            ("postgres://me@db.example/x?sslmode=allow", Protection::Undecided),
            ("postgres://me@db.example/x?sslmode=disable", Protection::Plain),
            ("postgres://me@db.example/x?sslmode=require", Protection::AnyCertificate),
            ("postgres://me@db.example/x?sslmode=verify-ca", Protection::AnyHost),
            ("postgres://me@db.example/x?sslmode=verify-full", Protection::Verified),
        ];
        for (url, expected) in cases {
            assert_eq!(PostgresOptions::url(url).unwrap().protection(), expected, "{url}");
        }
    }
}
