//! The trait [`Dialect`]: the differences between the databases.

use std::fmt;
use std::ops::RangeInclusive;

use sqlx::Connection;
use sqlx::error::DatabaseError;

use super::statement::Statement;
use super::table::{Reader, Table};
use super::value::Columns;
use crate::store::{Cause, ChangeSet, DamagedRecord, Record, StoreError};
use crate::values::Timestamp;

/// A database that stores the records of a [`SqlStore`](super::SqlStore).
pub(in crate::store) trait Dialect: fmt::Debug + Send + Sync + 'static {
    type Row: Columns;

    /// Reads rows.
    fn rows(
        &self,
        statement: Statement,
    ) -> impl Future<Output = Result<Vec<Self::Row>, StoreError>> + Send;

    /// Reads a record by its key, or a list of one user or one subscription. Such reads are frequent and short, so a
    /// database may run several of them as one statement.
    fn rows_shared(
        &self,
        statement: Statement,
    ) -> impl Future<Output = Result<Vec<Self::Row>, StoreError>> + Send {
        self.rows(statement)
    }

    /// Reads a list whose order has no index, so that the read takes long.
    fn slow_rows(
        &self,
        statement: Statement,
    ) -> impl Future<Output = Result<Vec<Self::Row>, StoreError>> + Send {
        self.rows(statement)
    }

    /// Changes a statement that selects the columns of a table so that [`each_row`](Self::each_row) can read its rows.
    fn encode_select(_table: &Table, statement: Statement) -> Statement {
        statement
    }

    /// Calls `read` with each row of a statement from [`encode_select`](Self::encode_select), until it fails.
    fn each_row(
        rows: &[Self::Row],
        mut read: impl FnMut(&dyn Columns) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        rows.iter().try_for_each(|row| read(row))
    }

    /// Reads each row of a statement from [`encode_select`](Self::encode_select).
    fn decode_rows<T>(rows: &[Self::Row], read: Reader<T>) -> Result<Vec<T>, StoreError> {
        let mut all = Vec::new();
        Self::each_row(rows, |row| {
            all.push(read(row)?);
            Ok(())
        })
        .map_err(StoreError::Damaged)?;
        Ok(all)
    }

    /// Reads the records of the rows of a statement from [`encode_select`](Self::encode_select). A row that cannot be
    /// read does not prevent the reading of the others.
    fn decode_list(rows: &[Self::Row], table: &Table) -> Result<Decoded, StoreError> {
        let mut decoded = Decoded::default();
        Self::each_row(rows, |row| {
            match (table.read)(row) {
                Ok(record) => decoded.records.push(record),
                Err(cause) => decoded.damaged.push(table.damaged(row, &cause)),
            }
            Ok(())
        })
        .map_err(StoreError::Damaged)?;
        Ok(decoded)
    }

    /// Commits a change set that was [checked](ChangeSet::check).
    fn commit(&self, changes: ChangeSet) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Commits several change sets one after the other. Each is accepted or refused by itself, and has its own result.
    fn commit_each(
        &self,
        sets: Vec<ChangeSet>,
    ) -> impl Future<Output = Vec<Result<(), StoreError>>> + Send;

    /// The sequences after the last deleted event and of the newest event, as for
    /// [`EventPage::select`](crate::store::EventPage::select). If commits do not number their events themselves, this
    /// call first numbers a batch of the committed events that have no number yet.
    fn kept_events(&self) -> impl Future<Output = Result<RangeInclusive<u64>, StoreError>> + Send;

    /// Like [`kept_events`](Self::kept_events), after every event that was committed before the call has a number.
    fn feed_end(&self) -> impl Future<Output = Result<RangeInclusive<u64>, StoreError>> + Send {
        self.kept_events()
    }

    /// Moves a batch of subscriptions to the access classes that they have at `now`.
    fn refresh_access_classes(
        &self,
        now: Timestamp,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The SQL text, placed after the name of a table, that makes the planner use this index. It is used for a list for
    /// which the index finds few rows. The text is empty if the planner needs no hint.
    fn hint(_index: &'static str) -> String {
        String::new()
    }

    /// Makes the database skip one branch of a list, without reading its rows, if one of the tests is false. The tests
    /// are conditions that depend on no particular row.
    fn skip_unless(branch: &mut Branch, tests: &[String]);
}

/// The rows of a list: the records, and those that cannot be read.
#[derive(Debug, Default)]
pub(in crate::store) struct Decoded {
    pub(super) records: Vec<Record>,
    pub(super) damaged: Vec<DamagedRecord>,
}

/// One SELECT of a list: its conditions, its limit and its hint. Some lists join several of these with UNION ALL.
#[derive(Debug)]
pub(in crate::store) struct Branch {
    pub(super) conditions: Vec<String>,
    pub(super) limit: String,
    /// The text from [`Dialect::hint`].
    pub(super) hint: String,
}

/// A connection to the database.
pub(in crate::store) trait SqlConnection: Connection + Send {
    type Row: Columns;

    /// True if the connection ends with this error. Nobody knows then whether the statement was executed.
    fn ends_connection(error: &dyn DatabaseError) -> bool;

    /// If a caller was cancelled, waits for the end of the caller's statement, and ends the transaction that the caller
    /// may have left open.
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
