//! Commits of change sets: each alone, or many as one statement.
//!
//! Sets of different callers that create records are put together ([`super::groups`]): one round trip, one lock of the plan
//! that all of them buy, one flush of the database's log.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection as _};

use super::super::commit::Refusal;
use super::super::dialect::SqlConnection as _;
use super::super::error::{code, failed, is_transient, outages, taken, unavailable};
use super::super::pool::{Pool, is_lost};
use super::super::statement::Statement;
use super::super::table::{Table, key_values};
use super::super::value::Columns as _;
use super::commit_each::{Form, Group, OneForAll, one_for_all};
use super::commit_one_statement::{OneStatement, one_statement};
use super::groups::Handler;
use super::row::rows_by_arrays;
use super::{commit_creates, commit_transaction};
use crate::store::{ChangeSet, StoreError};
use crate::values::Version;

/// The largest number of attempts at a commit that fails with a transient error of the database.
const ATTEMPTS: u32 = 8;
/// The pause after the first of these attempts.
const PAUSE: Duration = Duration::from_millis(4);
/// The largest number of change sets of different callers in one statement.
const CALLERS_MAX: usize = 64;

/// Commits change sets.
#[derive(Debug)]
pub(super) struct Commits(pub(super) Arc<Pool<PgConnection>>);

impl Handler for Commits {
    /// A set that creates records.
    type Request = ChangeSet;
    /// The outcome, or the set itself if its caller must commit it alone.
    type Answer = Result<Result<(), StoreError>, ChangeSet>;

    const GROUPS_MAX: usize = 2;

    fn group_size(waiting: usize) -> usize {
        waiting.min(CALLERS_MAX)
    }

    async fn handle(&self, sets: Vec<ChangeSet>) -> Vec<Self::Answer> {
        let mut committed = self.commit_together(Some(Form::Creates), &sets).await.into_iter();
        sets.into_iter().map(|changes| committed.next().flatten().ok_or(changes)).collect()
    }
}

impl Commits {
    /// Commits a change set by a statement or a transaction of its own.
    pub(super) async fn commit_alone(&self, changes: ChangeSet) -> Result<(), StoreError> {
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
        let mut connection = self.0.get().await?;
        let rows = self.0.answered(connection.rows(statement)).await;
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
    pub(super) async fn commit_group(
        &self,
        Group { form, sets }: Group,
    ) -> Vec<Result<(), StoreError>> {
        let mut committed = self.commit_together(form, &sets).await.into_iter();
        let mut outcomes = Vec::with_capacity(sets.len());
        for changes in sets {
            outcomes.push(match committed.next().flatten() {
                Some(outcome) => outcome,
                None => self.commit_alone(changes).await,
            });
        }
        outcomes
    }

    /// Commits change sets by one statement. `None`, or nothing at all, for those that must be committed alone.
    async fn commit_together(
        &self,
        form: Option<Form>,
        sets: &[ChangeSet],
    ) -> Vec<Option<Result<(), StoreError>>> {
        let statement = match form {
            Some(Form::Step) => one_for_all(sets),
            Some(Form::Creates) => commit_creates::one_for_all(sets),
            None => None,
        };
        let Some(statement) = statement else { return Vec::new() };
        self.outcomes(statement, sets.len()).await.unwrap_or_else(|error| {
            if is_of_one_set(&error) || is_transient(&error) {
                tracing::debug!(%error, "committing change sets one by one");
                return Vec::new();
            }
            outages(error).take(sets.len()).map(Some).collect()
        })
    }

    /// The outcomes of sets. `None` for a set that was refused: committed alone, it finds the reason.
    async fn outcomes(
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

    async fn fetch_by_arrays(
        &self,
        OneForAll { text, arrays }: OneForAll,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut connection = self.0.get().await?;
        let rows = rows_by_arrays(&mut connection, AssertSqlSafe(text), arrays);
        let rows = self.0.answered(rows).await;
        connection.finish(rows)
    }

    async fn commit_transaction(&self, changes: &ChangeSet) -> Result<(), Refusal> {
        let mut connection = self.0.get().await?;
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
            let statement = Statement::new(text, key_values(&key));
            if !self.fetch(statement).await.map_err(failed)?.is_empty() {
                return Err(StoreError::Conflict(key));
            }
        }
        Ok(())
    }
}

/// True if one of the sets failed the statement: a value is taken or not accepted, or a lock was waited for too long.
fn is_of_one_set(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|it| it.starts_with("22") || it.starts_with("23") || it == "57014")
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
