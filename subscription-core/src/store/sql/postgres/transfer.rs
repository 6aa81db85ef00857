//! Export from a PostgreSQL database, and import into one.

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::super::access;
use super::super::dialect::SqlConnection as _;
use super::super::error::failed;
use super::super::records::EVENTS;
use super::super::statement::Statement;
use super::super::value::{Columns as _, Value};
use super::{Postgres, feed};
use crate::store::transfer::{
    Counts, ImportOptions, KINDS, Reader, Report, Transfer, TransferError, Writer, export, import,
};

impl Transfer for Postgres {
    async fn export(&self, to: Writer<'_>, report: Report<'_>) -> Result<Counts, TransferError> {
        let mut numbering = self.connect_without_timeouts().await?;
        // Most events are numbered before the snapshot is taken, so that few events have no sequence in the snapshot.
        let last = number(&mut numbering, feed::NEWEST_WITHOUT_NUMBER).await?;
        feed::number_up_to(&mut numbering, last).await.map_err(failed)?;
        let mut reader = self.connect_without_timeouts().await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let mut snapshot = reader.begin_with(begin).await.map_err(failed)?;
        let late = late_events(&mut snapshot, &mut numbering).await.map_err(failed)?;
        // PostgreSQL reads this counter outside of the snapshot, so the result is not smaller than the sequence of any
        // exported event, including the late events.
        let text = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM feed";
        let feed = number(&mut snapshot, text).await?.unsigned_abs();
        let exported = export(&mut *snapshot, feed, &late, to, report).await;
        snapshot.rollback().await.map_err(failed)?;
        // The export is complete, also if closing fails.
        reader.close().await.ok();
        numbering.close().await.ok();
        exported
    }

    async fn import(
        &self,
        from: Reader<'_>,
        options: ImportOptions<'_>,
        report: Report<'_>,
    ) -> Result<Counts, TransferError> {
        let mut connection = self.connect_without_timeouts().await?;
        let mut transaction = connection.begin().await.map_err(failed)?;
        let tables = KINDS.map(|(_, table)| table.name).join(", ");
        let lock = format!("LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE");
        transaction.execute(Statement::plain(lock)).await.map_err(failed)?;
        let imported = import(&mut *transaction, from, options, report).await;
        if let Ok((_, feed)) = imported {
            finish(&mut transaction, &tables, feed).await.map_err(failed)?;
            transaction.commit().await.map_err(failed)?;
        } else {
            transaction.rollback().await.map_err(failed)?;
        }
        connection.close().await.ok();
        imported.map(|(counts, _)| counts)
    }
}

impl Postgres {
    /// A connection outside of the pool, without its time-outs.
    async fn connect_without_timeouts(&self) -> Result<PgConnection, TransferError> {
        const UNLIMITED: [(&str, &str); 2] =
            [("statement_timeout", "0"), ("idle_in_transaction_session_timeout", "0")];
        self.readiness.check()?;
        let options = PgConnectOptions::clone(&self.options).options(UNLIMITED);
        Ok(options.connect().await.map_err(failed)?)
    }
}

/// The number that a statement selects.
async fn number(from: &mut PgConnection, text: &'static str) -> Result<i64, TransferError> {
    let row = sqlx::query(text).fetch_one(from).await.map_err(failed)?;
    Ok(row.int(0).map_err(failed)?)
}

/// Numbers the events that have no sequence in the snapshot, and returns them. Their sequences come after the sequences
/// of all other events in the snapshot.
async fn late_events(
    snapshot: &mut PgConnection,
    numbering: &mut PgConnection,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let text = "SELECT array_agg(position), max(position), \
                    (SELECT COALESCE(max(sequence), 0) FROM events) \
                FROM events WHERE sequence IS NULL";
    let late = sqlx::query(text).fetch_one(snapshot).await?;
    let Some(positions) = late.try_get::<Option<Vec<i64>>, _>(0)? else { return Ok(Vec::new()) };
    feed::number_up_to(numbering, late.int(1)?).await?;
    let select = &EVENTS.texts.select;
    let text = format!("{select} WHERE sequence > $1 AND position = ANY($2) ORDER BY sequence");
    sqlx::query(AssertSqlSafe(text)).bind(late.int(2)?).bind(positions).fetch_all(numbering).await
}

/// Updates the access class of each subscription, collects the planner's statistics, and sets the counter of the
/// feed to the last sequence that was imported.
async fn finish(to: &mut PgConnection, tables: &str, feed: u64) -> Result<(), sqlx::Error> {
    to.execute(Statement::plain(access::refresh_all_access_classes("now()"))).await?;
    to.execute(Statement::plain(format!("ANALYZE {tables}"))).await?;
    // This statement is the last one, because a rollback does not undo it.
    let text = "SELECT setval('feed', GREATEST($1, 1), $1 > 0)";
    to.execute(Statement::new(text, vec![Value::count(feed)])).await.map(drop)
}
