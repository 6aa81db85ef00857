//! Moving out of a file and into one.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::io::{AsyncBufRead, AsyncWrite};

use super::super::access;
use super::super::error::{failed, unavailable};
use super::super::page::Statement;
use super::super::value::Columns as _;
use super::SqliteStore;
use super::commit::execute;
use super::row::bound;
use crate::store::transfer::{
    Counts, Link, Progress, Snapshot, TransferError, Users, export, import,
};

/// SQLite's own time, in microseconds.
const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

/// # Moving
///
/// See [`transfer`](crate::store::transfer) for the file.
impl SqliteStore {
    /// Writes everything that the store holds at this moment. Readers and writers go on beside it; the
    /// file's log grows by what they write, until the export is done.
    ///
    /// What is written holds personal data and hashes: see [`transfer`](crate::store::transfer).
    pub async fn export<W, P>(&self, to: W, progress: P) -> Result<Counts, TransferError>
    where
        W: AsyncWrite + Unpin + Send,
        P: FnMut(Progress) + Send,
    {
        let mut reader = self.readers.get().await.map_err(unavailable)?;
        let mut snapshot = reader.begin().await.map_err(failed)?;
        let exported = export(&mut *snapshot, to, progress).await;
        let ended = snapshot.rollback().await;
        reader.finish(ended).map_err(failed)?;
        exported
    }

    /// Takes everything that an export wrote, if the store is empty, or nothing at all. Who else writes
    /// waits until then.
    ///
    /// Where the file has users, every subscription that is not expired must belong to one of them.
    pub async fn import<R, P>(&self, from: R, progress: P) -> Result<Counts, TransferError>
    where
        R: AsyncBufRead + Unpin + Send,
        P: FnMut(Progress) + Send,
    {
        self.take_in(from, Users::WithAccounts, progress).await
    }

    /// The same for a service that does not [check users](crate::ServiceBuilder::check_users): a
    /// subscription may belong to anybody, also where the file has users.
    pub async fn import_for_any_user<R, P>(
        &self,
        from: R,
        progress: P,
    ) -> Result<Counts, TransferError>
    where
        R: AsyncBufRead + Unpin + Send,
        P: FnMut(Progress) + Send,
    {
        self.take_in(from, Users::Any, progress).await
    }

    async fn take_in(
        &self,
        from: impl AsyncBufRead + Unpin + Send,
        users: Users,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError> {
        let mut loan = self.writer.lend().await?;
        let mut transaction =
            loan.connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
        let imported = import(&mut *transaction, from, users, progress).await;
        let moved = match imported {
            Ok(imported) => {
                set_feed(&mut transaction, imported.feed).await.map_err(failed)?;
                let move_due = access::move_all_due(NOW);
                execute(&mut transaction, move_due, Vec::new()).await.map_err(failed)?;
                transaction.commit().await.map_err(failed)?;
                Ok(imported.counts)
            }
            Err(error) => {
                transaction.rollback().await.map_err(failed)?;
                Err(error)
            }
        };
        loan.give_back();
        moved
    }
}

/// The next event gets the number after this one.
async fn set_feed(to: &mut SqliteConnection, last: i64) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM sqlite_sequence WHERE name = 'events'").execute(&mut *to).await?;
    let text = "INSERT INTO sqlite_sequence (name, seq) VALUES ('events', $1)";
    sqlx::query(text).bind(last).execute(to).await?;
    Ok(())
}

impl Link for SqliteConnection {
    type Row = SqliteRow;

    async fn rows(&mut self, statement: Statement) -> Result<Vec<SqliteRow>, sqlx::Error> {
        let query = bound(sqlx::query(AssertSqlSafe(statement.text)), statement.values);
        query.fetch_all(self).await
    }
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
