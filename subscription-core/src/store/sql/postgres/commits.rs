//! Commits of change sets: one set by a statement or a transaction of its own, or many sets by one statement.
//!
//! Change sets of callers who wait at the same time ([`super::groups`]) share a statement if possible. Together they
//! need only one round trip, one lock of a plan that they all name, and one flush of the write-ahead log.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnection, PgRow};
use tokio::time::timeout;

use super::super::commit::{Refusal, refusal};
use super::super::error::{failed, is_locked, is_transient, outages, unavailable};
use super::super::pool::{Pool, is_lost};
use super::super::statement::Statement;
use super::super::table::{Table, key_values};
use super::super::value::Columns as _;
use super::commit_groups::Group;
use super::commit_statement::{BatchStatement, Locked, batch_statement};
use super::commit_transaction;
use super::groups::Handler;
use super::row::Bound;
use crate::store::{ChangeSet, StoreError};
use crate::values::Version;

/// The largest number of attempts at a commit that fails with a transient error of the database.
const ATTEMPTS: u32 = 8;
/// The largest number of attempts at a commit that waits for a lock. Each attempt waits for the `lock_timeout` of its
/// session, so all of them together wait as long as one statement may take. Between them, the commit lets its own locks
/// go.
pub(super) const LOCK_ATTEMPTS: u32 = 5;
/// The pause after the first failed attempt. The pause after attempt n is n times as long.
const PAUSE: Duration = Duration::from_millis(4);
/// A commit that takes longer than this is confirmed before it counts as done: see [`Commits::confirmed`].
const SLOW: Duration = Duration::from_secs(1);
/// The largest number of attempts to confirm a commit.
const CONFIRMATIONS: usize = 3;
/// True if commits wait for a stand-by.
const IS_SYNCHRONOUS: &str = "SELECT current_setting('synchronous_standby_names') <> '' \
     AND current_setting('synchronous_commit') NOT IN ('off', 'local')";

/// Commits change sets.
#[derive(Debug)]
pub(super) struct Commits {
    pub(super) pool: Arc<Pool<PgConnection>>,
    /// How several sets of one statement, and steps of the clock, treat what others have locked: they do not wait, or
    /// only for a moment.
    pub(super) locked: Locked,
}

impl Handler for Commits {
    /// A change set that can share a statement with others.
    type Request = ChangeSet;
    /// The outcome of the change set; or the set itself, if its caller must commit it by `commit_alone`.
    type Answer = Result<Result<(), StoreError>, ChangeSet>;

    const GROUPS_MAX: usize = 2;

    async fn handle(&self, sets: Vec<ChangeSet>) -> Vec<Self::Answer> {
        let mut outcomes = Vec::with_capacity(sets.len());
        let mut groups: Vec<(Group, Vec<usize>)> = Vec::new();
        for (place, changes) in sets.into_iter().enumerate() {
            // If an earlier set writes a record that this set writes or guards, this set goes back to its caller, who
            // commits it by `commit_alone`. So it does not delay the other sets.
            if groups.iter().any(|(group, _)| group.is_before(&changes)) {
                outcomes.push((place, Err(changes)));
                continue;
            }
            let mut left = Some(changes);
            for (group, places) in &mut groups {
                left = left.and_then(|changes| group.add(changes).err());
                if left.is_none() {
                    places.push(place);
                    break;
                }
            }
            groups.extend(left.map(|changes| (Group::of(changes), vec![place])));
        }
        // The groups are committed at the same time, because they write different records.
        let committed = groups.iter().map(|(group, _)| self.commit_together(&group.sets));
        for (committed, (group, places)) in join_all(committed).await.into_iter().zip(groups) {
            let mut committed = committed.into_iter();
            let outcome = |changes| match committed.next().flatten() {
                // The caller waits for the locked record, and delays nobody else.
                Some(Err(StoreError::Busy(_))) | None => Err(changes),
                Some(outcome) => Ok(outcome),
            };
            outcomes.extend(places.into_iter().zip(group.sets.into_iter().map(outcome)));
        }
        outcomes.sort_by_key(|(place, _)| *place);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

impl Commits {
    /// Commits a change set by a statement or a transaction of its own, and waits for locks.
    pub(super) async fn commit_alone(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.commit_one(changes, Locked::Wait).await
    }

    async fn commit_one(&self, changes: ChangeSet, locked: Locked) -> Result<(), StoreError> {
        let mut attempt = 1;
        loop {
            let outcome = match batch_statement(std::slice::from_ref(&changes), locked) {
                Some(statement) => self.commit_statement(statement, &changes).await,
                None => self.commit_transaction(&changes, locked).await,
            };
            match outcome {
                Ok(()) => return Ok(()),
                Err(Refusal::Store(StoreError::Taken(unique))) => {
                    self.expect_new(&changes).await?;
                    return Err(StoreError::Taken(unique));
                }
                Err(Refusal::Sql(error)) if locked != Locked::Wait && is_locked(&error) => {
                    return Err(busy(&changes).unwrap_or_else(|| failed(error)));
                }
                Err(Refusal::Sql(error)) if is_transient(&error) && attempt < attempts(&error) => {
                    tracing::debug!(attempt, %error, "retrying a commit");
                    tokio::time::sleep(PAUSE * attempt).await;
                    attempt += 1;
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }

    /// Commits a single set by its statement.
    async fn commit_statement(
        &self,
        statement: BatchStatement,
        changes: &ChangeSet,
    ) -> Result<(), Refusal> {
        let fetched = self.fetch(statement.bound).await;
        let (rows, took) = fetched.map_err(|error| refusal(error, &changes.writes))?;
        let Some(row) = rows.first() else { return Ok(self.confirmed(took).await?) };
        let unknown = || unavailable("a commit was refused, but none of its records has changed");
        let reason = BatchStatement::reason(&statement.checked, row.int(1)?);
        Err(reason.unwrap_or_else(unknown).into())
    }

    /// Commits change sets by one statement, or one by one where that is not possible. A set that needs a locked record
    /// is refused as busy: nobody waits for this set, but others wait for the sets beside it.
    pub(super) async fn commit_group(&self, group: Group) -> Vec<Result<(), StoreError>> {
        let mut committed = match group.sets.len() {
            0 | 1 => Vec::new(),
            _ => self.commit_together(&group.sets).await,
        }
        .into_iter();
        let mut outcomes = Vec::with_capacity(group.sets.len());
        for changes in group.sets {
            outcomes.push(match committed.next().flatten() {
                Some(outcome) => outcome,
                None => self.commit_one(changes, self.locked).await,
            });
        }
        outcomes
    }

    /// Commits change sets by one statement, which does not wait for locked records. If the outcome of a set is `None`
    /// or missing, the set must be committed by itself.
    async fn commit_together(&self, sets: &[ChangeSet]) -> Vec<Option<Result<(), StoreError>>> {
        let Some(statement) = batch_statement(sets, self.locked) else { return Vec::new() };
        self.outcomes(statement, sets.len()).await.unwrap_or_else(|error| {
            if is_of_one_set(&error) || is_transient(&error) {
                tracing::debug!(%error, "committing change sets one by one");
                return Vec::new();
            }
            outages(error).take(sets.len()).map(Some).collect()
        })
    }

    /// The outcomes of the sets. `None` for a set that was refused for an unknown reason: a statement of its own shows
    /// the reason.
    async fn outcomes(
        &self,
        statement: BatchStatement,
        count: usize,
    ) -> Result<Vec<Option<Result<(), StoreError>>>, sqlx::Error> {
        let mut outcomes: Vec<_> = (0..count).map(|_| Some(Ok(()))).collect();
        let (rows, took) = self.fetch(statement.bound).await?;
        self.confirmed(took).await?;
        for row in &rows {
            let refused = usize::try_from(row.int(0)?).ok().and_then(|it| outcomes.get_mut(it));
            if let Some(outcome) = refused {
                *outcome = BatchStatement::reason(&statement.checked, row.int(1)?).map(Err);
            }
        }
        Ok(outcomes)
    }

    /// The rows of a statement, and how long it took.
    async fn fetch(&self, statement: Bound) -> Result<(Vec<PgRow>, Duration), sqlx::Error> {
        let work = async |connection: &mut PgConnection| {
            let rows = statement.rows(connection).await;
            if rows.as_ref().is_err_and(is_of_one_set) {
                // PostgreSQL reports an error before it releases the locks of the statement. The next statement, over
                // another connection, would take them for those of somebody else.
                connection.ping().await.ok();
            }
            rows
        };
        self.pool.lend_timed(1, work).await
    }

    async fn commit_transaction(&self, changes: &ChangeSet, locked: Locked) -> Result<(), Refusal> {
        let (committed, took) = self.run_transaction(changes, locked).await?;
        committed?;
        Ok(self.confirmed(took).await?)
    }

    /// Commits a set by a transaction, and returns how long it took; or rolls it back, and returns why.
    async fn run_transaction(
        &self,
        changes: &ChangeSet,
        locked: Locked,
    ) -> Result<(Result<(), StoreError>, Duration), sqlx::Error> {
        let statements = changes.guards.len() + changes.writes.len() + changes.deletes.len();
        let work = async |connection: &mut PgConnection| {
            let mut transaction = connection.begin().await?;
            let written = commit_transaction::commit(&mut transaction, changes, locked).await;
            Ok(match written {
                Ok(()) => Ok(transaction.commit().await?),
                Err(Refusal::Sql(error)) => return Err(error),
                Err(Refusal::Store(refused)) => {
                    transaction.rollback().await?;
                    Err(refused)
                }
            })
        };
        self.pool.lend_timed(statements + changes.events.len(), work).await
    }

    /// Confirms a commit that took this time, if it was slow.
    ///
    /// With synchronous replication a commit waits for a stand-by. If an operator cancels the wait, PostgreSQL reports
    /// a success, although the commit may be stored on the primary alone.
    pub(super) async fn confirmed(&self, took: Duration) -> Result<(), sqlx::Error> {
        if took <= SLOW {
            return Ok(());
        }
        let unconfirmed = match self.confirm().await {
            Ok(true) => return Ok(()),
            Ok(false) => {
                tracing::error!(
                    "synchronous replication was not confirmed: a commit may be stored on the primary alone"
                );
                "no stand-by has confirmed the commit".to_owned()
            }
            Err(error) => format!("the commit could not be confirmed: {error}"),
        };
        // An error of the database would be that of a statement that was rolled back. This statement was not.
        Err(sqlx::Error::Protocol(unconfirmed))
    }

    /// Confirms all earlier commits by an empty commit that takes less than [`SLOW`]: the log of the database is one
    /// sequence, so a stand-by that has the last commit has all of them. Returns whether they are confirmed.
    async fn confirm(&self) -> Result<bool, sqlx::Error> {
        let (rows, _) = self.fetch(Bound::Values(Statement::plain(IS_SYNCHRONOUS))).await?;
        if !rows.first().map_or(Ok(true), |row| row.bool(0))? {
            return Ok(true);
        }
        let confirmed = timeout(self.pool.patience, async {
            for _ in 0..CONFIRMATIONS {
                let empty = self.run_transaction(&ChangeSet::default(), Locked::Wait).await;
                if matches!(empty, Ok((Ok(()), took)) if took < SLOW) {
                    return true;
                }
            }
            false
        });
        Ok(confirmed.await.unwrap_or(false))
    }

    /// Returns a conflict if a new record of the change set exists already. Called after a unique value was taken: if
    /// two commits create the same record, the database may refuse the later one because of a unique value, although
    /// the conflict is the error to be returned.
    async fn expect_new(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        for write in changes.writes.iter().filter(|write| write.version() == Version::FIRST) {
            let key = write.key();
            let text = Table::of(&key).texts.select_version.as_str();
            let statement = Bound::Values(Statement::new(text, key_values(&key)));
            if !self.fetch(statement).await.map_err(failed)?.0.is_empty() {
                return Err(StoreError::Conflict(key));
            }
        }
        Ok(())
    }
}

/// The error for a change set that needs what another transaction has locked; `None` if the set names no record.
fn busy(changes: &ChangeSet) -> Option<StoreError> {
    changes.expected().next().map(|(key, _)| StoreError::Busy(key))
}

/// The largest number of attempts at a commit that fails with this error.
fn attempts(error: &sqlx::Error) -> u32 {
    if is_locked(error) { LOCK_ATTEMPTS } else { ATTEMPTS }
}

/// True if a single change set of the group may be the cause: a value is taken or not accepted, a row is damaged, or
/// the statement timed out. The statement was rolled back, so the sets can be committed one by one.
fn is_of_one_set(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some() && !is_lost::<PgConnection>(error)
}
