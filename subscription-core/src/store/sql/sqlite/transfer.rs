//! Export from an SQLite file, and import into one.

use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use tokio::io::{AsyncBufRead, AsyncWrite};

use super::super::access;
use super::super::dialect::SqlConnection as _;
use super::super::error::{failed, unavailable};
use super::super::page::Statement;
use super::super::value::{Columns as _, Value};
use super::Sqlite;
use crate::store::transfer::{
    Counts, Progress, Snapshot, Transfer, TransferError, Users, export, import,
};

/// SQLite's own time, in microseconds.
const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

impl Transfer for Sqlite {
    async fn export(
        &self,
        to: impl AsyncWrite + Unpin + Send,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError> {
        let mut reader = self.readers.get().await.map_err(unavailable)?;
        let mut snapshot = reader.begin().await.map_err(failed)?;
        let exported = export(&mut *snapshot, to, progress).await;
        let ended = snapshot.rollback().await;
        reader.finish(ended).map_err(failed)?;
        exported
    }

    async fn import(
        &self,
        from: impl AsyncBufRead + Unpin + Send,
        users: Users,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError> {
        let mut loan = self.writer.lend().await?;
        let mut transaction =
            loan.connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
        let imported = match import(&mut *transaction, from, users, progress).await {
            Ok(imported) => {
                finish(&mut transaction, imported.feed).await.map_err(failed)?;
                transaction.commit().await.map_err(failed)?;
                Ok(imported.counts)
            }
            Err(error) => {
                transaction.rollback().await.map_err(failed)?;
                Err(error)
            }
        };
        loan.give_back();
        imported
    }
}

/// Sets the number that the feed has reached, and updates access classes.
async fn finish(to: &mut SqliteConnection, feed: i64) -> Result<(), sqlx::Error> {
    let text = "DELETE FROM sqlite_sequence WHERE name = 'events'";
    to.execute(Statement::new(text, Vec::new())).await?;
    let text = "INSERT INTO sqlite_sequence (name, seq) VALUES ('events', $1)";
    to.execute(Statement::new(text, vec![Value::Int(feed)])).await?;
    to.execute(Statement::new(access::move_all_due(NOW), Vec::new())).await.map(drop)
}

impl Snapshot for SqliteConnection {
    async fn feed(&mut self) -> Result<i64, sqlx::Error> {
        let text =
            "SELECT COALESCE((SELECT max(seq) FROM sqlite_sequence WHERE name = 'events'), 0)";
        sqlx::query(text).fetch_one(self).await?.int(0)
    }

    async fn late_events(&mut self) -> Result<Vec<SqliteRow>, sqlx::Error> {
        Ok(Vec::new())
    }
}
