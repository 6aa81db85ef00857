//! Everything in one file, by SQLite.

mod commit;
mod file;
mod row;
mod traces;
mod transfer;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use super::access;
use super::error::{OpenError, failed, unavailable};
use super::event_rows::EVENT_COLUMNS;
use super::migrations;
use super::page::{Branch, Statement};
use super::pool::Pool;
use super::read::store_over_sql;
use super::value::{Columns as _, Value};
use file::HeldFile;
use row::bound;
use writer::Writer;

use crate::store::{ChangeSet, PageLimit, StoreError};
use crate::values::clock::Timestamp;

/// Reads at the same time.
const READERS: usize = 8;
/// How long a read waits for its turn, and a write for whoever else has the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// A store in one SQLite file.
///
/// One process has the file, and in it one writer, which puts change sets that wait into one
/// transaction: what is refused is taken back by itself, and all share one flush of the disk. Readers
/// go on beside it. What is deleted is overwritten in the file, and gone from its log a second later or
/// when the last who reads it is done. Once a commit is answered it survives a power cut, unless [`SqliteOptions::relaxed`] was
/// asked for.
#[derive(Debug)]
pub struct SqliteStore {
    readers: Arc<Pool<SqliteConnection>>,
    writer: Writer,
}

/// How to open a [`SqliteStore`].
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    path: PathBuf,
    synchronous: SqliteSynchronous,
}

impl SqliteOptions {
    /// A file, which is made if it is not there.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), synchronous: SqliteSynchronous::Full }
    }

    /// Accepts losing the last commits in a power cut, for many more of them in a second. A killed
    /// process still loses nothing.
    #[must_use]
    pub const fn relaxed(mut self) -> Self {
        self.synchronous = SqliteSynchronous::Normal;
        self
    }

    /// Opens the file, alone, and brings its tables up to date. Where that fails, no file is left behind
    /// that was not there before.
    pub async fn open(self) -> Result<SqliteStore, OpenError> {
        let held = HeldFile::take(&self.path)?;
        match self.connect().await {
            Ok((options, connection)) => {
                let read_only = options.clone().pragma("query_only", "on");
                let readers = Pool::new(read_only, READERS, PATIENCE);
                Ok(SqliteStore { readers, writer: Writer::start(options, connection, held) })
            }
            Err(error) => {
                held.discard();
                Err(error)
            }
        }
    }

    /// A connection for the writer to a file that is there, and how to make more.
    async fn connect(&self) -> Result<(SqliteConnectOptions, SqliteConnection), OpenError> {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            // One that is removed later is not to be replaced by an empty one.
            .create_if_missing(false)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(self.synchronous)
            .busy_timeout(PATIENCE)
            .pragma("secure_delete", "on")
            .disable_statement_logging();
        let database = |error: sqlx::Error| OpenError::Database(error.into());
        let mut connection = options.connect().await.map_err(database)?;
        let migrated = migrations::sqlite().run_direct(None, &mut connection, false).await;
        let closed = connection.close().await;
        migrated.map_err(|error| OpenError::Migration(error.into()))?;
        closed.map_err(database)?;
        let connection = options.connect().await.map_err(database)?;
        Ok((options, connection))
    }
}

impl SqliteStore {
    /// Finishes what was begun and lets the file go.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    async fn rows(&self, statement: Statement) -> Result<Vec<SqliteRow>, StoreError> {
        // Its words alone: what is bound may be anybody's.
        tracing::trace!(statement = %statement.text, "reads");
        let mut reader = self.readers.get().await.map_err(unavailable)?;
        let query = bound(sqlx::query(AssertSqlSafe(statement.text)), statement.values);
        let rows = query.fetch_all(&mut *reader).await;
        reader.finish(rows).map_err(failed)
    }

    async fn commit_changes(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.writer.commit(changes).await
    }

    async fn feed(&self, after: u64, limit: PageLimit) -> Result<Vec<SqliteRow>, StoreError> {
        let text = format!(
            "SELECT sequence, {EVENT_COLUMNS} FROM events WHERE sequence > $1 ORDER BY sequence LIMIT $2"
        );
        let values = vec![Value::count(after), Value::count(limit.get() as u64)];
        self.rows(Statement::new(text, values)).await
    }

    /// Moves subscriptions whose access has begun or ended to their new class.
    async fn move_due(&self, now: Timestamp) -> Result<(), StoreError> {
        let rows = self.rows(access::is_behind(now)).await?;
        let is_behind = rows.first().map_or(Ok(false), |row| row.bool(0)).map_err(failed)?;
        if is_behind && let Err(error) = self.writer.move_due(now).await {
            // The list is right without it, and a full disk must not keep it from whoever asks.
            tracing::warn!(%error, "subscriptions whose access began or ended could not be moved");
        }
        Ok(())
    }
}

/// SQLite looks at such a condition row by row, but at a limit of none before any. A place told by more
/// than what it sorts by would not be found in an index.
///
/// Without statistics, which nobody collects here, SQLite takes a condition on any other indexed column
/// for as rare as `user_id = $1`, and might read a third of the table. So the index of few is named.
fn fit(branch: &mut Branch, there_is: &[String]) {
    if let Some(index) = branch.index {
        branch.hint = format!(" INDEXED BY {index}");
    }
    if !there_is.is_empty() {
        let (there_is, limit) = (there_is.join(" AND "), &branch.limit);
        branch.limit = format!("CASE WHEN {there_is} THEN {limit} ELSE 0 END");
    }
}

store_over_sql!(SqliteStore, fit);
