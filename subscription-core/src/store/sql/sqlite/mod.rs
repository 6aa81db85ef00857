//! A store in one SQLite file.

mod commit;
mod commit_several;
mod erasure;
mod file;
mod page_text;
mod row;
mod transfer;
mod writer;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::Mutex;

use super::SqlStore;
use super::commit::deleted_up_to;
use super::dialect::{Branch, Dialect};
use super::error::{OpenError, failed, unavailable};
use super::migrations::{self, NextMigration};
use super::pool::Pool;
use super::statement::Statement;
use super::table::Table;
use super::value::Columns;
use commit_several::STATEMENTS_MAX;
use file::HeldFile;
use writer::Writer;

use crate::store::{Cause, ChangeSet, StoreError};
use crate::values::Timestamp;

/// The number of connections that read.
const READERS: usize = 8;
/// The number of prepared statements that each connection caches.
const STATEMENTS_KEPT: usize = 256;
/// How long a read waits for a connection, and a write for another program that has locked the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// A store in one SQLite file.
///
/// Only one process can open the file, and one task of that process writes. Change sets that wait for this task share a
/// transaction, and so one flush of the disk; if a change set is refused, only this set is rolled back. Readers
/// continue during a write. Deleted rows are overwritten in the file. They are removed from the write-ahead log a
/// second later, or when the last reader that needs them is done. A commit that returned `Ok` survives a power cut,
/// unless the file was opened with [`SqliteOptions::relaxed`].
pub type SqliteStore = SqlStore<Sqlite>;

/// The SQLite file of a [`SqliteStore`].
#[derive(Debug)]
pub struct Sqlite {
    readers: Arc<Pool<SqliteConnection>>,
    /// The lock that is held while a slow list is read. Only one slow list is read at a time, so that short reads have
    /// the other connections and processors.
    slow_reads: Arc<Mutex<()>>,
    writer: Writer,
}

/// Options for opening a [`SqliteStore`].
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    path: PathBuf,
    synchronous: SqliteSynchronous,
    next_migrations: Vec<NextMigration>,
}

impl SqliteOptions {
    /// Options for the file at `path`, which is created if it does not exist.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let next_migrations = Vec::new();
        Self { path: path.into(), synchronous: SqliteSynchronous::Full, next_migrations }
    }

    /// Allows many more commits in a second, but a power cut may lose the last commits. If only the process is killed,
    /// no commit is lost.
    #[must_use]
    pub const fn relaxed(mut self) -> Self {
        self.synchronous = SqliteSynchronous::Normal;
        self
    }

    /// Adds a migration after those of this release, as the next release would. For the tests of upgrades.
    #[doc(hidden)]
    #[must_use]
    pub fn next_migration(mut self, name: &'static str, text: &'static str) -> Self {
        self.next_migrations.push(NextMigration { name, text });
        self
    }

    /// Opens the file for this process alone, and migrates its tables. If this fails, the files that were created are
    /// removed.
    pub async fn open(self) -> Result<SqliteStore, OpenError> {
        let held = HeldFile::take(&self.path)?;
        match self.connect(held.path()).await {
            Ok((options, connection, migrated)) => {
                let read_only = options.clone().pragma("query_only", "on");
                let readers = Pool::new(read_only, READERS, PATIENCE, Duration::MAX);
                let writer = Writer::start(options, connection, held);
                let database = Sqlite { readers, slow_reads: Arc::default(), writer };
                Ok(SqlStore { database, migrated: Some(migrated) })
            }
            Err(error) => {
                held.discard();
                Err(error)
            }
        }
    }

    /// Migrates the file. Returns the options for connections, a connection for the writer, and the numbers of the last
    /// migration before and now.
    async fn connect(
        &self,
        path: &Path,
    ) -> Result<(SqliteConnectOptions, SqliteConnection, RangeInclusive<i64>), OpenError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            // A file that is removed later must not be replaced by an empty one.
            .create_if_missing(false)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(self.synchronous)
            .busy_timeout(PATIENCE)
            .pragma("secure_delete", "on")
            // Pages that a savepoint may have to restore stay in memory, and are not written to a file beside this one.
            .pragma("temp_store", "memory")
            .statement_cache_capacity(STATEMENTS_KEPT)
            // The buffer has room for the results of a whole message (see `commit_several`), so that SQLite's thread
            // need not wait while the writer task prepares the next message.
            .row_buffer_size(STATEMENTS_MAX)
            .disable_statement_logging();
        let database = |error: sqlx::Error| OpenError::Database(error.into());
        let mut connection = options.connect().await.map_err(database)?;
        let migrations = [migrations::SQLITE, &self.next_migrations].concat();
        let migrated = migrations::run(&migrations, &mut connection).await;
        let closed = connection.close().await;
        let migrated = migrated.map_err(|error| OpenError::Migration(error.into()))?;
        closed.map_err(database)?;
        let connection = options.connect().await.map_err(database)?;
        Ok((options, connection, migrated))
    }
}

impl SqliteStore {
    /// Waits for commits that are in progress, and closes the file.
    pub async fn close(&self) {
        self.database.readers.close().await;
        self.database.writer.close().await;
    }
}

/// Logs the text of a statement, without the bound values: they may be personal data.
fn log(statement: &Statement) {
    tracing::trace!(statement = %statement.text, "reads");
}

impl Dialect for Sqlite {
    type Row = SqliteRow;

    async fn rows(&self, statement: Statement) -> Result<Vec<SqliteRow>, StoreError> {
        log(&statement);
        self.readers.rows(statement).await
    }

    async fn slow_rows(&self, statement: Statement) -> Result<Vec<SqliteRow>, StoreError> {
        let turn = Arc::clone(&self.slow_reads).lock_owned().await;
        let readers = Arc::clone(&self.readers);
        log(&statement);
        // A separate task holds the lock, because SQLite continues with the statement even if the caller is cancelled.
        let rows = tokio::spawn(async move {
            let rows = readers.rows(statement).await;
            drop(turn);
            rows
        });
        rows.await.map_err(unavailable)?
    }

    fn encode_select(table: &Table, statement: Statement) -> Statement {
        page_text::in_one_text(table, statement)
    }

    fn each_row(
        rows: &[SqliteRow],
        read: impl FnMut(&dyn Columns) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        let text = rows.first().map(|row| row.text(0)).transpose()?.flatten();
        page_text::each_row(text.as_deref().unwrap_or_default(), read)
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.writer.commit(changes).await
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        self.writer.commit_each(sets).await
    }

    async fn kept_events(&self) -> Result<RangeInclusive<u64>, StoreError> {
        let text = concat!(
            "SELECT ",
            deleted_up_to!(),
            ", COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)"
        );
        let rows = self.rows(Statement::plain(text)).await?;
        let count = |at| rows.first().map_or(Ok(0), |row| row.int(at)).map_err(failed);
        Ok(count(0)?.unsigned_abs() + 1..=count(1)?.unsigned_abs())
    }

    async fn refresh_access_classes(&self, now: Timestamp) -> Result<(), StoreError> {
        self.writer.refresh_access_classes(now).await
    }

    /// Names the index that finds few rows. Without it, SQLite could choose another index and read a third of
    /// the table: it has no statistics here, and assumes that a condition on any indexed column finds as few
    /// rows as `user_id = $1`.
    fn hint(index: &'static str) -> String {
        format!(" INDEXED BY {index}")
    }

    /// Writes the tests into the limit. SQLite evaluates a condition again for each row, even if it depends on no row.
    /// It evaluates a limit only once, and with a limit of 0 it reads no row. If the tests were instead added to the
    /// comparison that begins the page, such as `(renews_order, id) < ($1, $2)`, SQLite could not find the position in
    /// an index.
    fn skip_unless(branch: &mut Branch, tests: &[String]) {
        if !tests.is_empty() {
            let tests = tests.join(" AND ");
            let limit = &branch.limit;
            branch.limit = format!("CASE WHEN {tests} THEN {limit} ELSE 0 END");
        }
    }
}
