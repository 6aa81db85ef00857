//! Export from a PostgreSQL database, and import into one.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};
use tokio::io::{AsyncBufRead, AsyncWrite};

use super::super::access;
use super::super::dialect::SqlConnection;
use super::super::error::failed;
use super::super::page::Statement;
use super::super::records::EVENTS;
use super::super::value::{Columns as _, Value};
use super::{Postgres, feed};
use crate::store::transfer::{
    Counts, Kind, Progress, Snapshot, Transfer, TransferError, Users, export, import,
};

impl Transfer for Postgres {
    async fn export(
        &self,
        to: impl AsyncWrite + Unpin + Send,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError> {
        let mut beside = self.connect_without_timeouts().await?;
        // Most events are numbered before the snapshot is taken, so that few are late.
        let last = last_position(&mut beside).await.map_err(failed)?;
        feed::number_up_to(&mut beside, last).await.map_err(failed)?;
        let mut reader = self.connect_without_timeouts().await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let mut transaction = reader.begin_with(begin).await.map_err(failed)?;
        let last = last_position(&mut transaction).await.map_err(failed)?;
        feed::number_up_to(&mut beside, last).await.map_err(failed)?;
        let mut moment = Moment { seen: &mut transaction, beside: &mut beside };
        let exported = export(&mut moment, to, progress).await;
        transaction.rollback().await.map_err(failed)?;
        // The export is complete, also if closing fails.
        reader.close().await.ok();
        beside.close().await.ok();
        exported
    }

    async fn import(
        &self,
        from: impl AsyncBufRead + Unpin + Send,
        users: Users,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError> {
        let mut connection = self.connect_without_timeouts().await?;
        let mut transaction = connection.begin().await.map_err(failed)?;
        let tables = Kind::ALL.map(Kind::plural).join(", ");
        let lock = format!("LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE");
        transaction.execute(Statement::new(lock, Vec::new())).await.map_err(failed)?;
        let imported = match import(&mut *transaction, from, users, progress).await {
            Ok(imported) => {
                finish(&mut transaction, &tables, imported.feed).await.map_err(failed)?;
                transaction.commit().await.map_err(failed)?;
                Ok(imported.counts)
            }
            Err(error) => {
                transaction.rollback().await.map_err(failed)?;
                Err(error)
            }
        };
        connection.close().await.ok();
        imported
    }
}

impl Postgres {
    /// A connection outside of the pool, without its time-outs.
    async fn connect_without_timeouts(&self) -> Result<PgConnection, TransferError> {
        const UNLIMITED: [(&str, &str); 2] =
            [("statement_timeout", "0"), ("idle_in_transaction_session_timeout", "0")];
        self.readiness.check()?;
        let options = self.options.clone().options(UNLIMITED);
        Ok(options.connect().await.map_err(failed)?)
    }
}

/// The position of the newest event that has no number yet.
async fn last_position(from: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let text = "SELECT COALESCE(max(position), 0) FROM events WHERE sequence IS NULL";
    sqlx::query(text).fetch_one(from).await?.int(0)
}

/// Updates access classes, collects the planner's statistics, and sets the number that the feed has reached.
async fn finish(to: &mut PgConnection, tables: &str, feed: i64) -> Result<(), sqlx::Error> {
    to.execute(Statement::new(access::move_all_due("now()"), Vec::new())).await?;
    to.execute(Statement::new(format!("ANALYZE {tables}"), Vec::new())).await?;
    // Last, because a rollback does not undo it.
    let text = "SELECT setval('feed', GREATEST($1, 1), $1 > 0)";
    to.execute(Statement::new(text, vec![Value::Int(feed)])).await.map(drop)
}

/// A snapshot of the store, and a second connection that sees which numbers its events got since.
struct Moment<'c> {
    seen: &'c mut PgConnection,
    beside: &'c mut PgConnection,
}

impl SqlConnection for Moment<'_> {
    type Row = PgRow;

    async fn rows(&mut self, statement: Statement) -> Result<Vec<PgRow>, sqlx::Error> {
        self.seen.rows(statement).await
    }

    async fn execute(&mut self, statement: Statement) -> Result<u64, sqlx::Error> {
        self.seen.execute(statement).await
    }
}

impl Snapshot for Moment<'_> {
    async fn feed(&mut self) -> Result<i64, sqlx::Error> {
        let text = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM feed";
        sqlx::query(text).fetch_one(&mut *self.seen).await?.int(0)
    }

    async fn late_events(&mut self) -> Result<Vec<PgRow>, sqlx::Error> {
        let text = "SELECT position FROM events WHERE sequence IS NULL";
        let late = sqlx::query(text).fetch_all(&mut *self.seen).await?;
        let late: Vec<i64> = late.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        if late.is_empty() {
            return Ok(Vec::new());
        }
        let text = "SELECT COALESCE(max(sequence), 0) FROM events";
        let numbered = sqlx::query(text).fetch_one(&mut *self.seen).await?.int(0)?;
        let select = &EVENTS.texts.select;
        let text = format!("{select} WHERE sequence > $1 AND position = ANY($2) ORDER BY sequence");
        let query = sqlx::query(AssertSqlSafe(text)).bind(numbered).bind(late);
        query.fetch_all(&mut *self.beside).await
    }
}
