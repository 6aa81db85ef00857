//! The differences between the databases.

use std::fmt;
use std::ops::RangeInclusive;

use sqlx::Connection;

use super::statement::Statement;
use super::table::{Reader, Table};
use super::value::Columns;
use crate::store::{ChangeSet, StoreError};
use crate::values::Timestamp;

/// A database that a [`SqlStore`](super::SqlStore) keeps its records in.
pub(in crate::store) trait Dialect: fmt::Debug + Send + Sync + 'static {
    type Row: Columns;

    /// Reads rows.
    fn rows(
        &self,
        statement: Statement,
    ) -> impl Future<Output = Result<Vec<Self::Row>, StoreError>> + Send;

    /// Reads a record by its key, or a list of one user or one subscription. Such reads are frequent and
    /// short, so that a database may handle several at once.
    fn rows_shared(
        &self,
        statement: Statement,
    ) -> impl Future<Output = Result<Vec<Self::Row>, StoreError>> + Send {
        self.rows(statement)
    }

    /// Reads a list whose order no index has, which takes long.
    fn slow_rows(
        &self,
        statement: Statement,
    ) -> impl Future<Output = Result<Vec<Self::Row>, StoreError>> + Send {
        self.rows(statement)
    }

    /// Encodes a statement that selects the columns of a table, whose rows [`decode_rows`](Self::decode_rows) reads.
    fn encode_select(_table: &Table, statement: Statement) -> Statement {
        statement
    }

    /// Reads each row of such a statement.
    fn decode_rows<T>(rows: &[Self::Row], read: Reader<T>) -> Result<Vec<T>, StoreError> {
        rows.iter().map(|row| read(row)).collect()
    }

    /// Commits a change set that was [checked](ChangeSet::check).
    fn commit(&self, changes: ChangeSet) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Commits each of several change sets alone, in order. Returns a result for each.
    fn commit_each(
        &self,
        sets: Vec<ChangeSet>,
    ) -> impl Future<Output = Vec<Result<(), StoreError>>> + Send;

    /// The sequences of the first event that is kept and of the newest, as for
    /// [`EventPage::select`](crate::store::EventPage::select). Gives committed events their place in the feed,
    /// where commits do not do so themselves.
    fn kept_events(&self) -> impl Future<Output = Result<RangeInclusive<u64>, StoreError>> + Send;

    /// Moves a batch of subscriptions to the access classes that they have at `now`.
    fn refresh_access_classes(
        &self,
        now: Timestamp,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The words after the name of a table that name the one index to use: so few rows have its value that each
    /// can be read. None for a planner that knows so itself.
    fn hint(_index: &'static str) -> String {
        String::new()
    }

    /// Skips one branch of a list without reading its rows if its tests (conditions on no row in particular)
    /// do not hold.
    fn skip_unless(branch: &mut Branch, tests: &[String]);
}

/// One branch of a list: the conditions and the hint from which its text is made.
#[derive(Debug)]
pub(in crate::store) struct Branch {
    pub(super) conditions: Vec<String>,
    pub(super) limit: String,
    /// [`Dialect::hint`].
    pub(super) hint: String,
}

/// A connection to the database.
pub(in crate::store) trait SqlConnection: Connection + Send {
    type Row: Columns;

    /// Waits for the statement that a caller abandoned, and ends the transaction that it may have left open.
    fn end_transaction(&mut self) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Reads rows.
    fn rows(
        &mut self,
        statement: Statement,
    ) -> impl Future<Output = Result<Vec<Self::Row>, sqlx::Error>> + Send;

    /// Returns how many rows the statement changed.
    fn execute(
        &mut self,
        statement: Statement,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}
