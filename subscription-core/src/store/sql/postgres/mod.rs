//! A store in a PostgreSQL database, for one process or many.

mod amount;
mod commit_creates;
mod commit_each;
mod commit_one_statement;
mod commit_transaction;
mod feed;
mod leader_lock;
mod listen;
mod notify;
mod open;
mod read_for_many;
mod row;
mod shared_commits;
mod transfer;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use tokio::sync::Notify;

use super::commit::Refusal;
use super::dialect::{Dialect, SqlConnection as _};
use super::error::{failed, outages, taken, unavailable};
use super::page::{Branch, Statement};
use super::pool::{Pool, is_lost};
use super::shared_reads::SharedReads;
use super::table::{Table, key_values};
use super::value::Columns as _;
use super::{SqlStore, access};
use commit_each::{Form, Group, OneForAll, groups, one_for_all, subscription};
use commit_one_statement::{OneStatement, one_statement};
pub use leader_lock::LeaderLock;
pub use open::PostgresOptions;
use open::Readiness;
use row::rows_by_arrays;
use shared_commits::SharedCommits;

use crate::store::{CacheInvalidator, ChangeSet, StoreError};
use crate::values::clock::Timestamp;
use crate::values::version::Version;

/// The largest number of attempts at a commit that fails with a transient error of the database.
const ATTEMPTS: u32 = 8;
/// The pause after the first of these attempts.
const PAUSE: Duration = Duration::from_millis(4);

/// A store in a PostgreSQL database, which any number of processes may share.
///
/// Most commits are one statement and one round trip. A commit that returned `Ok` is as durable as the
/// database is set to be. A restart of the database fails the calls that are under way and no others.
pub type PostgresStore = SqlStore<Postgres>;

/// The PostgreSQL database of a [`PostgresStore`].
#[derive(Debug, Clone)]
pub struct Postgres {
    pool: Arc<Pool<PgConnection>>,
    reads: Arc<SharedReads<PgConnection>>,
    commits: Arc<SharedCommits>,
    options: Arc<PgConnectOptions>,
    readiness: Readiness,
    /// Stops the background tasks.
    stop: Arc<Notify>,
}

impl PostgresStore {
    /// Waits for calls that are under way, and closes the connections.
    pub async fn close(&self) {
        self.0.stop.notify_waiters();
        self.0.pool.close().await;
    }

    /// Invalidates records in a cache when other processes change them.
    pub fn listen(&self, cache: &CacheInvalidator) {
        listen::listen(
            PgConnectOptions::clone(&self.0.options),
            cache.clone(),
            Arc::clone(&self.0.stop),
        );
    }
}

impl Dialect for Postgres {
    type Row = PgRow;

    async fn rows(&self, statement: Statement) -> Result<Vec<PgRow>, StoreError> {
        self.readiness.check()?;
        self.reads.alone(statement).await
    }

    async fn few_rows(&self, statement: Statement) -> Result<Vec<PgRow>, StoreError> {
        self.readiness.check()?;
        self.reads.rows(statement).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.readiness.check()?;
        match Form::of(&changes) {
            Some(Form::Creates) => SharedCommits::commit(self, changes).await,
            Some(Form::Step) | None => self.commit_alone(changes).await,
        }
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let mut outcomes = Vec::with_capacity(sets.len());
        for group in groups(sets) {
            outcomes.extend(match self.readiness.check() {
                Ok(()) => self.commit_group(group).await,
                Err(error) => outages(error).take(group.sets.len()).collect(),
            });
        }
        outcomes
    }

    async fn kept_events(&self) -> Result<RangeInclusive<u64>, StoreError> {
        self.readiness.check()?;
        let mut connection = self.pool.get().await.map_err(failed)?;
        let kept = feed::number_and_bound(&mut connection).await;
        connection.finish(kept).map_err(failed)
    }

    async fn move_due(&self, now: Timestamp) -> Result<(), StoreError> {
        // A row that another transaction is writing is left for the next list.
        self.rows(access::move_due(now, " FOR NO KEY UPDATE SKIP LOCKED")).await.map(drop)
    }

    /// PostgreSQL evaluates a condition on no row before it reads any row.
    fn fit(branch: &mut Branch, tests: &[String]) {
        branch.conditions.extend_from_slice(tests);
    }
}

impl Postgres {
    /// Commits a change set by a statement or a transaction of its own.
    async fn commit_alone(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let mut attempt = 1;
        loop {
            let outcome = match one_statement(&changes) {
                Some(statement) => self.commit_one_statement(statement, &changes).await,
                None => self.commit_transaction(&changes).await,
            };
            match outcome {
                Ok(()) => return Ok(()),
                Err(Refusal::Store(StoreError::Taken(unique))) => {
                    self.expect_new(&changes).await?;
                    return Err(StoreError::Taken(unique));
                }
                Err(Refusal::Sql(error)) if is_transient(&error) && attempt < ATTEMPTS => {
                    tracing::debug!(attempt, %error, "retrying a commit");
                    tokio::time::sleep(PAUSE * attempt).await;
                    attempt += 1;
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }

    async fn fetch(&self, statement: Statement) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut connection = self.pool.get().await?;
        let rows = connection.rows(statement).await;
        connection.finish(rows)
    }

    async fn commit_one_statement(
        &self,
        OneStatement { statement, checked }: OneStatement,
        changes: &ChangeSet,
    ) -> Result<(), Refusal> {
        let rows = self.fetch(statement).await.map_err(|error| refusal(error, changes))?;
        for (at, key) in checked.into_iter().enumerate() {
            let is_as_expected = rows.first().map_or(Ok(0), |row| row.int(at))? > 0;
            if !is_as_expected {
                return Err(StoreError::Conflict(key).into());
            }
        }
        Ok(())
    }

    /// Commits change sets by one statement, or one by one where that is not possible.
    async fn commit_group(&self, Group { form, sets }: Group) -> Vec<Result<(), StoreError>> {
        let statement = match form {
            Some(Form::Step) => one_for_all(&sets),
            Some(Form::Creates) => commit_creates::one_for_all(&sets),
            None => None,
        };
        let mut committed = Vec::new();
        if let Some(statement) = statement {
            let outcomes = match form {
                Some(Form::Creates) => self.commit_creates(statement, sets.len()).await,
                _ => self.commit_steps(statement, &sets).await,
            };
            match outcomes {
                Ok(outcomes) => committed = outcomes,
                Err(error) if is_of_one_set(&error) || is_transient(&error) => {
                    tracing::debug!(%error, "committing change sets one by one");
                }
                Err(error) => return outages(error).take(sets.len()).collect(),
            }
        }
        let mut committed = committed.into_iter();
        let mut outcomes = Vec::with_capacity(sets.len());
        for changes in sets {
            outcomes.push(match committed.next().flatten() {
                Some(outcome) => outcome,
                None => self.commit_alone(changes).await,
            });
        }
        outcomes
    }

    /// The outcomes of sets that create records. `None` for a set that was refused, and for all if none was written: to
    /// be committed alone, which finds the reason.
    async fn commit_creates(
        &self,
        statement: OneForAll,
        count: usize,
    ) -> Result<Vec<Option<Result<(), StoreError>>>, sqlx::Error> {
        let mut outcomes: Vec<_> = (0..count).map(|_| Some(Ok(()))).collect();
        for row in &self.fetch_by_arrays(statement).await? {
            let refused = usize::try_from(row.int(0)?).ok().and_then(|it| outcomes.get_mut(it));
            if let Some(outcome) = refused {
                *outcome = None;
            }
        }
        Ok(outcomes)
    }

    /// The outcomes of steps of the billing clock; none if they must be committed one by one.
    async fn commit_steps(
        &self,
        statement: OneForAll,
        sets: &[ChangeSet],
    ) -> Result<Vec<Option<Result<(), StoreError>>>, sqlx::Error> {
        let mut taken = HashSet::new();
        for row in &self.fetch_by_arrays(statement).await? {
            if row.bool(1)? {
                return Ok(Vec::new());
            }
            taken.insert(row.int(0)?);
        }
        let outcomes = (0..).zip(sets).map(|(number, changes)| match subscription(changes) {
            Some(key) if !taken.contains(&number) => Some(Err(StoreError::Conflict(key))),
            _ => Some(Ok(())),
        });
        Ok(outcomes.collect())
    }

    async fn fetch_by_arrays(
        &self,
        OneForAll { text, arrays }: OneForAll,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut connection = self.pool.get().await?;
        let rows = rows_by_arrays(&mut connection, text, arrays).await;
        connection.finish(rows)
    }

    async fn commit_transaction(&self, changes: &ChangeSet) -> Result<(), Refusal> {
        let mut connection = self.pool.get().await?;
        let outcome = async {
            let mut transaction = connection.begin().await?;
            commit_transaction::commit(&mut transaction, changes).await?;
            transaction.commit().await?;
            Ok(())
        }
        .await;
        match outcome {
            Ok(()) => Ok(connection.finish(Ok(()))?),
            Err(Refusal::Sql(error)) => Ok(connection.finish(Err(error))?),
            // The lease ends with an open transaction, which the pool rolls back.
            Err(refused) => Err(refused),
        }
    }

    /// Checks that new records do not exist. Versions are checked before unique values, but of two commits
    /// that create the same record the later may meet the other's unique value first.
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
}

/// True if nothing was written because of other transactions: a deadlock, a lock that took too long, a
/// serialization failure.
fn is_transient(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("40001" | "40P01" | "55P03"))
}

/// True if the values of a set failed the statement: one that is taken, or one that the database does not accept.
fn is_of_one_set(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

/// The meaning of an error of a one-statement commit, by the index that the database names.
fn refusal(error: sqlx::Error, changes: &ChangeSet) -> Refusal {
    let constraint = error.as_database_error().and_then(|error| error.constraint());
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
