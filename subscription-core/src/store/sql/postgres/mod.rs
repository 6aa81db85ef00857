//! Everything in a PostgreSQL database, for one process or many.

mod amount;
mod announce;
mod commit_one_statement;
mod commit_transaction;
mod feed;
mod listen;
mod open;
mod row;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::sync::Notify;

use super::access;
use super::error::{failed, taken, unavailable};
use super::page::{Branch, Statement};
use super::pool::{Pool, is_lost};
use super::read::store_over_sql;
use super::table::{Table, key_values};
use super::value::{Columns as _, Value};
use commit_one_statement::{Whole, whole};
pub use open::PostgresOptions;
use open::Readiness;
use row::bound;

use crate::store::{CacheInvalidator, ChangeSet, PageLimit, StoreError};
use crate::values::clock::Timestamp;
use crate::values::version::Version;

/// How often a commit is tried that the database could not order among others.
const ATTEMPTS: u32 = 8;
/// How long the first of them waits before it tries again, at the most.
const PAUSE: Duration = Duration::from_millis(4);

/// A store in a PostgreSQL database, which any number of processes may share.
///
/// Most commits are one statement and one round trip. Once one is answered it is as durable as the
/// database is set to be. A restart of the database fails what is under way and nothing else.
#[derive(Debug)]
pub struct PostgresStore {
    pool: Arc<Pool<PgConnection>>,
    options: PgConnectOptions,
    readiness: Readiness,
    /// Stops what runs beside.
    stop: Arc<Notify>,
}

/// Why a change set was not taken.
#[derive(Debug)]
enum Refusal {
    Store(StoreError),
    Sql(sqlx::Error),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl Refusal {
    /// True if nothing was written because of who else was writing: a dead lock, a lock that took too
    /// long, an order that could not be found.
    fn is_transient(error: &sqlx::Error) -> bool {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        matches!(code.as_deref(), Some("40001" | "40P01" | "55P03"))
    }
}

impl PostgresStore {
    /// Finishes what was begun and lets the connections go.
    pub async fn close(&self) {
        self.stop.notify_waiters();
        self.pool.close().await;
    }

    /// Keeps `memory` from holding what other processes have changed.
    pub fn listen(&self, memory: &CacheInvalidator) {
        listen::listen(self.options.clone(), memory.clone(), Arc::clone(&self.stop));
    }

    async fn rows(&self, statement: Statement) -> Result<Vec<PgRow>, StoreError> {
        self.readiness.check()?;
        let Statement { text, values } = statement;
        let again = values.clone();
        match self.fetch(text.clone(), values).await {
            // Reading twice does no harm: whoever reads need not hear of a restart.
            Err(error) if is_lost(&error) => self.fetch(text, again).await.map_err(failed),
            outcome => outcome.map_err(failed),
        }
    }

    async fn fetch(
        &self,
        text: std::borrow::Cow<'static, str>,
        values: Vec<Value>,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut connection = self.pool.get().await?;
        let query = bound(sqlx::query(AssertSqlSafe(text)), values);
        let rows = query.fetch_all(&mut *connection).await;
        connection.finish(rows)
    }

    async fn commit_changes(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.readiness.check()?;
        let mut attempt = 1;
        loop {
            let outcome = match whole(&changes) {
                Some(whole) => self.commit_one_statement(whole, &changes).await,
                None => self.commit_transaction(&changes).await,
            };
            match outcome {
                Ok(()) => return Ok(()),
                Err(Refusal::Store(StoreError::Taken(unique))) => {
                    self.expect_new(&changes).await?;
                    return Err(StoreError::Taken(unique));
                }
                Err(Refusal::Store(error)) => return Err(error),
                Err(Refusal::Sql(error)) if Refusal::is_transient(&error) && attempt < ATTEMPTS => {
                    tracing::debug!(attempt, %error, "a commit is tried again");
                    tokio::time::sleep(PAUSE * attempt).await;
                    attempt += 1;
                }
                Err(Refusal::Sql(error)) => return Err(failed(error)),
            }
        }
    }

    async fn commit_one_statement(&self, whole: Whole, changes: &ChangeSet) -> Result<(), Refusal> {
        let mut connection = self.pool.get().await?;
        let Whole { statement: Statement { text, values }, checked } = whole;
        let query = bound(sqlx::query(AssertSqlSafe(text)), values);
        let row = query.fetch_one(&mut *connection).await;
        let row = connection.finish(row).map_err(|error| refusal(error, changes))?;
        for (at, key) in checked.into_iter().enumerate() {
            if row.int(at)? == 0 {
                return Err(StoreError::Conflict(key).into());
            }
        }
        Ok(())
    }

    async fn commit_transaction(&self, changes: &ChangeSet) -> Result<(), Refusal> {
        let mut connection = self.pool.get().await?;
        let outcome = async {
            let mut transaction = connection.begin().await?;
            commit_transaction::apply(&mut transaction, changes).await?;
            transaction.commit().await?;
            Ok(())
        }
        .await;
        match outcome {
            Ok(()) => Ok(connection.finish(Ok(()))?),
            Err(Refusal::Sql(error)) => Ok(connection.finish(Err(error))?),
            // Its lease ends with a transaction under way, which is taken back.
            Err(refused) => Err(refused),
        }
    }

    /// Checks the versions of what is to be made. They come before values, but what is made by a rival at
    /// the same time may be met by its value first: a twin's, by the same one.
    async fn expect_new(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        for write in changes.writes.iter().filter(|write| write.version() == Version::FIRST) {
            let key = write.key();
            let text = Table::of(&key).texts.select_version.as_str();
            if !self.rows(Statement::new(text, key_values(&key))).await?.is_empty() {
                return Err(StoreError::Conflict(key));
            }
        }
        Ok(())
    }

    async fn feed(&self, after: u64, limit: PageLimit) -> Result<Vec<PgRow>, StoreError> {
        self.readiness.check()?;
        let mut connection = self.pool.get().await.map_err(failed)?;
        let rows = feed::read(&mut connection, after, limit).await;
        connection.finish(rows).map_err(failed)
    }

    /// Moves subscriptions whose access has begun or ended to their new class.
    async fn move_due(&self, now: Timestamp) -> Result<(), StoreError> {
        let rows = self.rows(access::is_behind(now)).await?;
        let is_behind = rows.first().map_or(Ok(false), |row| row.bool(0)).map_err(failed)?;
        // A row that somebody is writing right now is left for the next time.
        let move_due = || access::move_due(now, " FOR NO KEY UPDATE SKIP LOCKED");
        if is_behind && let Err(error) = self.rows(move_due()).await {
            // The list is right without it, and a full or a read-only database must not keep it from
            // whoever asks.
            tracing::warn!(%error, "subscriptions whose access began or ended could not be moved");
        }
        Ok(())
    }
}

/// What it means that a whole change set failed: by the index that the database names.
fn refusal(error: sqlx::Error, changes: &ChangeSet) -> Refusal {
    let constraint = error.as_database_error().and_then(|told| told.constraint());
    for write in &changes.writes {
        let key = write.key();
        let table = Table::of(&key);
        if let Some(unique) = taken(&error, table) {
            return StoreError::Taken(unique).into();
        }
        if constraint.is_some_and(|named| named.strip_suffix("_pkey") == Some(table.name)) {
            return StoreError::Conflict(key).into();
        }
    }
    if is_lost(&error) { unavailable(error).into() } else { error.into() }
}

/// PostgreSQL looks at such a condition before it looks at any row. Near the end of a list it would take
/// an index of more than the list for the shorter way.
fn fit(branch: &mut Branch, there_is: &[String]) {
    branch.conditions.extend_from_slice(there_is);
    branch.begin_within();
}

store_over_sql!(PostgresStore, fit);
