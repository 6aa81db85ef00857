//! Everything in one file, by SQLite.

mod apply;
mod moving;
mod row;
mod traces;
mod writer;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use super::error::{OpenError, failed, unavailable};
use super::history::EVENT_COLUMNS;
use super::migrations;
use super::page::{Branch, Statement};
use super::pool::Pool;
use super::read::store_over_sql;
use super::shelf::{CANCELLED, ENDING};
use super::value::{Columns as _, Value};
use row::bound;
use writer::Writer;

use crate::clock::Timestamp;
use crate::store::{ChangeSet, PageLimit, StoreError};

/// Reads at the same time.
const READERS: usize = 8;
/// How long a read waits for its turn, and a write for whoever else has the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// A store in one SQLite file.
///
/// One process has the file, and in it one writer, which puts change sets that wait into one
/// transaction: what is refused is taken back by itself, and all share one flush of the disk. Readers
/// go on beside it. What is deleted is overwritten in the file, and gone from its log a second later or
/// when the last who reads it is done. Once a commit is answered it survives a power cut, unless [`Sqlite::relaxed`] was
/// asked for.
#[derive(Debug)]
pub struct SqliteStore {
    readers: Arc<Pool<SqliteConnection>>,
    writer: Writer,
}

/// How to open a [`SqliteStore`].
#[derive(Debug, Clone)]
pub struct Sqlite {
    path: PathBuf,
    synchronous: SqliteSynchronous,
}

impl Sqlite {
    /// A file, which is made if it is not there.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), synchronous: SqliteSynchronous::Full }
    }

    /// Gives up to lose the last commits in a power cut, for many more of them in a second. A killed
    /// process still loses nothing.
    #[must_use]
    pub const fn relaxed(mut self) -> Self {
        self.synchronous = SqliteSynchronous::Normal;
        self
    }

    /// Opens the file, alone, and brings its tables up to date.
    pub async fn open(self) -> Result<SqliteStore, OpenError> {
        let held = hold(&self.path)?;
        private(&self.path).map_err(|source| OpenError::Io { path: self.path.clone(), source })?;
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(self.synchronous)
            .busy_timeout(PATIENCE)
            .pragma("secure_delete", "on")
            .disable_statement_logging();
        let database = |error: sqlx::Error| OpenError::Database(error.into());
        let mut connection = options.connect().await.map_err(database)?;
        let migrated = migrations::sqlite().run_direct(None, &mut connection, false).await;
        migrated.map_err(|error| OpenError::Migration(error.into()))?;
        connection.close().await.map_err(database)?;
        let readers = Pool::new(options.clone().pragma("query_only", "on"), READERS, PATIENCE);
        let writer = Writer::start(options, held).await.map_err(database)?;
        Ok(SqliteStore { readers, writer })
    }
}

/// Takes the file for this process, until it ends however it ends.
fn hold(path: &Path) -> Result<File, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    let file = private(Path::new(&name)).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

/// Opens a file, or makes it for the eyes of its owner only: people are in it.
fn private(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
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

    async fn take(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.writer.commit(changes).await
    }

    async fn feed(&self, after: u64, limit: PageLimit) -> Result<Vec<SqliteRow>, StoreError> {
        let text = format!(
            "SELECT sequence, {EVENT_COLUMNS} FROM events WHERE sequence > $1 ORDER BY sequence LIMIT $2"
        );
        let values = vec![Value::count(after), Value::count(limit.get() as u64)];
        self.rows(Statement::new(text, values)).await
    }

    /// Puts what was cancelled and has ended onto its own shelf.
    async fn note_endings(&self, now: Timestamp) -> Result<(), StoreError> {
        // By the first that ends: a database that is asked whether there is any may look at all.
        let text = format!(
            "SELECT COALESCE(min(ends_order) <= $1, FALSE) FROM subscriptions \
             WHERE {ENDING} AND shelf = '{CANCELLED}'"
        );
        let rows = self.rows(Statement::new(text, vec![Value::time(now)])).await?;
        let ended = rows.first().map_or(Ok(false), |row| row.bool(0)).map_err(failed)?;
        if ended && let Err(error) = self.writer.note_endings(now).await {
            // The list is right without it, and whoever asks a full disk for it should get it.
            tracing::warn!(%error, "what has ended could not be noted");
        }
        Ok(())
    }
}

/// SQLite looks at such a condition row by row, but at a limit of none before any. A place told by more
/// than what it sorts by would not be found in an index.
///
/// Without statistics, which nobody collects here, SQLite takes `shelf = 'active'` for as rare as
/// `user_id = $1`, and might read a third of the table. So the index of few is named.
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
