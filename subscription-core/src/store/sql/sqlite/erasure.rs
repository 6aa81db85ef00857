//! Erases deleted rows from the file and its write-ahead log, after they were deleted from the tables.
//!
//! With `secure_delete` SQLite overwrites a deleted row in its page with zeros. Older versions of the page stay in the
//! log until the log is truncated, so the log is truncated soon after a deletion. SQLite also moves rows between pages,
//! and may leave a copy in the unused part of a page (for about one in a thousand deleted accounts). Only VACUUM
//! rewrites every page. It runs some minutes after an account was deleted, if the file is small. If the process is
//! killed before that, it runs after the next deletion.

use std::time::Duration;

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;
use tokio::time::Instant;

use super::super::dialect::SqlConnection as _;
use super::super::statement::Statement;
use super::PATIENCE;
use crate::store::{ChangeSet, Key};

/// How long after a deletion the log is truncated.
const LOG_CUT_AFTER: Duration = Duration::from_secs(1);
/// The longest pause before the log is truncated again, if a reader needed it or the truncation failed.
const LOG_RETRY_MAX: Duration = Duration::from_secs(30);
/// How long the truncation of the log waits for readers. The writer waits with it.
const READERS_AWAITED: Duration = Duration::from_millis(50);
/// How long after the deletion of an account VACUUM runs.
const VACUUM_AFTER: Duration = Duration::from_mins(10);
/// VACUUM does not run on a larger file: writers would wait for seconds.
const VACUUM_BYTES_MAX: i64 = 64 * 1024 * 1024;

/// The times at which deleted rows are to be erased from the file and its log.
#[derive(Debug)]
pub(super) struct Erasure {
    /// The time at which the log is to be truncated; `None` if it need not be.
    log_due: Option<Instant>,
    /// The pause before the next attempt if the truncation fails.
    log_retry: Duration,
    /// The time at which VACUUM is to run; `None` if it need not run.
    pages_due: Option<Instant>,
}

impl Erasure {
    /// The state for a file that was just opened. A truncation is scheduled: a process that was killed may have left a
    /// log.
    pub(super) fn new() -> Self {
        let mut erasure = Self { log_due: None, log_retry: LOG_CUT_AFTER, pages_due: None };
        erasure.in_log();
        erasure
    }

    /// Schedules the truncation of the log after a write or a deletion of data that should not stay in it.
    pub(super) fn in_log(&mut self) {
        self.log_due.get_or_insert_with(|| Instant::now() + LOG_CUT_AFTER);
    }

    /// Schedules the erasure of the rows that a change set deleted.
    pub(super) fn note(&mut self, changes: &ChangeSet) {
        if changes.deletes.is_empty() && changes.forget_events.is_none() {
            return;
        }
        self.in_log();
        if changes.deletes.iter().any(|delete| matches!(delete.key, Key::User(_))) {
            self.pages_due.get_or_insert_with(|| Instant::now() + VACUUM_AFTER);
        }
    }

    /// The time of the next truncation or VACUUM; `None` if neither is scheduled.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.log_due, self.pages_due].into_iter().flatten().min()
    }

    /// Postpones the truncation and VACUUM, because the file cannot be opened.
    pub(super) fn put_off(&mut self) {
        let later = Instant::now() + LOG_RETRY_MAX;
        for due in [&mut self.log_due, &mut self.pages_due].into_iter().flatten() {
            *due = later.max(*due);
        }
    }

    /// Truncates the log and runs VACUUM, if they are due.
    pub(super) async fn erase_due(&mut self, connection: &mut SqliteConnection) {
        let now = Instant::now();
        if self.pages_due.is_some_and(|due| due <= now) {
            self.vacuum(connection).await;
        }
        if self.log_due.is_some_and(|due| due <= now) {
            self.cut_log(connection).await;
        }
    }

    /// Runs a scheduled VACUUM now, because the database is about to be closed. Closing truncates the WAL, so no
    /// deleted data stays in the database file or in the WAL.
    pub(super) async fn erase_all(&mut self, connection: &mut SqliteConnection) {
        if self.pages_due.is_some() {
            self.vacuum(connection).await;
        }
    }

    async fn vacuum(&mut self, connection: &mut SqliteConnection) {
        self.pages_due = None;
        let outcome = async {
            let bytes = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
            let bytes: i64 = sqlx::query(bytes).fetch_one(&mut *connection).await?.try_get(0)?;
            if bytes <= VACUUM_BYTES_MAX {
                connection.execute(Statement::plain("VACUUM")).await?;
                self.in_log();
            }
            Ok::<_, sqlx::Error>(())
        };
        if let Err(error) = outcome.await {
            tracing::warn!(%error, "VACUUM failed: copies of deleted rows may be left in unused parts of pages");
            self.pages_due = Some(Instant::now() + VACUUM_AFTER);
        }
    }

    async fn cut_log(&mut self, connection: &mut SqliteConnection) {
        match checkpoint(connection).await {
            Ok(true) => {
                self.log_due = None;
                self.log_retry = LOG_CUT_AFTER;
            }
            outcome => {
                if let Err(error) = outcome {
                    tracing::warn!(%error, "the checkpoint failed: deleted rows are still in the WAL");
                }
                self.log_due = Some(Instant::now() + self.log_retry);
                self.log_retry = (self.log_retry * 2).min(LOG_RETRY_MAX);
            }
        }
    }
}

/// Writes the log into the file and truncates it; false if a reader still needs it.
async fn checkpoint(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    wait_for_readers(connection, READERS_AWAITED).await?;
    let done = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut *connection).await;
    wait_for_readers(connection, PATIENCE).await?;
    Ok(done?.try_get::<i64, _>(0)? == 0)
}

async fn wait_for_readers(
    connection: &mut SqliteConnection,
    time: Duration,
) -> Result<(), sqlx::Error> {
    let text = format!("PRAGMA busy_timeout = {}", time.as_millis());
    connection.execute(Statement::plain(text)).await.map(drop)
}
