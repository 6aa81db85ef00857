//! Export from an SQLite file, and import into one.

use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;

use super::super::access;
use super::super::dialect::SqlConnection as _;
use super::super::error::failed;
use super::super::statement::Statement;
use super::super::value::{Columns as _, Value};
use super::Sqlite;
use crate::store::transfer::{
    Counts, ImportOptions, Reader, Report, Transfer, TransferError, Writer, export, import,
};

/// SQLite's own time, in microseconds.
const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

impl Transfer for Sqlite {
    async fn export(&self, to: Writer<'_>, report: Report<'_>) -> Result<Counts, TransferError> {
        let exported = self.readers.lend(async |reader| {
            let mut snapshot = reader.begin().await?;
            let text =
                "SELECT COALESCE((SELECT max(seq) FROM sqlite_sequence WHERE name = 'events'), 0)";
            let row = sqlx::query(text).fetch_one(&mut *snapshot).await?;
            let feed = row.int(0)?.unsigned_abs();
            let exported = export(&mut *snapshot, feed, &[], to, report).await;
            snapshot.rollback().await?;
            Ok(exported)
        });
        exported.await.map_err(failed)?
    }

    async fn import(
        &self,
        from: Reader<'_>,
        options: ImportOptions<'_>,
        report: Report<'_>,
    ) -> Result<Counts, TransferError> {
        let mut loan = self.writer.lend().await?;
        let mut transaction =
            loan.connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
        let imported = import(&mut *transaction, from, options, report).await;
        if let Ok((_, feed)) = imported {
            finish(&mut transaction, feed).await.map_err(failed)?;
            transaction.commit().await.map_err(failed)?;
        } else {
            transaction.rollback().await.map_err(failed)?;
        }
        loan.give_back();
        imported.map(|(counts, _)| counts)
    }
}

/// Sets the counter of the feed to the last sequence of the exported feed, and updates the access class of each
/// subscription.
async fn finish(to: &mut SqliteConnection, feed: u64) -> Result<(), sqlx::Error> {
    let text = "DELETE FROM sqlite_sequence WHERE name = 'events'";
    to.execute(Statement::plain(text)).await?;
    let text = "INSERT INTO sqlite_sequence (name, seq) VALUES ('events', $1)";
    to.execute(Statement::new(text, vec![Value::count(feed)])).await?;
    to.execute(Statement::plain(access::refresh_all_access_classes(NOW))).await.map(drop)
}
