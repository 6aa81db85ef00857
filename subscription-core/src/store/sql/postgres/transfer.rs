//! Moving out of a database and into one.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};
use tokio::io::{AsyncBufRead, AsyncWrite};

use super::super::access;
use super::super::error::failed;
use super::super::event_rows::EVENT_COLUMNS;
use super::super::page::Statement;
use super::super::value::Columns as _;
use super::row::bound;
use super::{PostgresStore, feed};
use crate::store::transfer::{
    Counts, Kind, Link, Progress, Snapshot, TransferError, Users, export, import,
};

/// # Moving
///
/// See [`transfer`](crate::store::transfer) for the file.
impl PostgresStore {
    /// Writes everything that the store holds at this moment. Readers and writers go on beside it.
    ///
    /// What is written holds personal data and hashes: see [`transfer`](crate::store::transfer).
    pub async fn export<W, P>(&self, to: W, progress: P) -> Result<Counts, TransferError>
    where
        W: AsyncWrite + Unpin + Send,
        P: FnMut(Progress) + Send,
    {
        let mut beside = self.unhurried().await?;
        // Most events get their place before the moment, so that few are late.
        let last = last_position(&mut beside).await.map_err(failed)?;
        feed::place_up_to(&mut beside, last).await.map_err(failed)?;
        let mut reader = self.unhurried().await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let mut transaction = reader.begin_with(begin).await.map_err(failed)?;
        let last = last_position(&mut transaction).await.map_err(failed)?;
        feed::place_up_to(&mut beside, last).await.map_err(failed)?;
        let mut moment = Moment { seen: &mut transaction, beside: &mut beside };
        let exported = export(&mut moment, to, progress).await;
        transaction.rollback().await.map_err(failed)?;
        // They end either way.
        reader.close().await.ok();
        beside.close().await.ok();
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
        let mut connection = self.unhurried().await?;
        let mut transaction = connection.begin().await.map_err(failed)?;
        let tables = Kind::ALL.map(Kind::plural).join(", ");
        let lock = format!("LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE");
        sqlx::query(AssertSqlSafe(lock)).execute(&mut *transaction).await.map_err(failed)?;
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
        // It ends either way.
        connection.close().await.ok();
        imported
    }

    /// A connection of one's own for what takes long: the pool's are for those who are in a hurry.
    async fn unhurried(&self) -> Result<PgConnection, TransferError> {
        const UNLIMITED: [(&str, &str); 2] =
            [("statement_timeout", "0"), ("idle_in_transaction_session_timeout", "0")];
        self.readiness.check()?;
        let options = self.options.clone().options(UNLIMITED);
        Ok(options.connect().await.map_err(failed)?)
    }
}

/// The newest event's.
async fn last_position(from: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let text = "SELECT COALESCE(max(position), 0) FROM events";
    sqlx::query(text).fetch_one(from).await?.int(0)
}

/// Lists subscriptions by what has begun and ended, lets the planner know what there is, and the feed go
/// on after this number.
async fn finish(to: &mut PgConnection, tables: &str, feed: i64) -> Result<(), sqlx::Error> {
    sqlx::query(AssertSqlSafe(access::move_all_due("now()"))).execute(&mut *to).await?;
    sqlx::query(AssertSqlSafe(format!("ANALYZE {tables}"))).execute(&mut *to).await?;
    // Last, as it is not taken back if something fails.
    let text = "SELECT setval('feed', GREATEST($1, 1), $1 > 0)";
    sqlx::query(text).bind(feed).execute(to).await?;
    Ok(())
}

/// A store at one moment, and a connection that sees what became of it.
struct Moment<'c> {
    seen: &'c mut PgConnection,
    beside: &'c mut PgConnection,
}

impl Link for PgConnection {
    type Row = PgRow;

    async fn rows(&mut self, statement: Statement) -> Result<Vec<PgRow>, sqlx::Error> {
        let query = bound(sqlx::query(AssertSqlSafe(statement.text)), statement.values);
        query.fetch_all(self).await
    }
}

impl Link for Moment<'_> {
    type Row = PgRow;

    async fn rows(&mut self, statement: Statement) -> Result<Vec<PgRow>, sqlx::Error> {
        self.seen.rows(statement).await
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
        let text = format!(
            "SELECT sequence, {EVENT_COLUMNS} FROM events WHERE position = ANY($1) ORDER BY sequence"
        );
        sqlx::query(AssertSqlSafe(text)).bind(late).fetch_all(&mut *self.beside).await
    }
}
