//! Statements, their values and their rows in SQLite. Ids are stored as 16 bytes, times as microseconds, amounts as
//! text.

use std::borrow::Cow;

use futures_util::TryStreamExt as _;
use futures_util::future::ready;
use rust_decimal::Decimal;
use sqlx::error::DatabaseError;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Connection as _, Row as _, Sqlite};
use uuid::Uuid;

use super::super::dialect::SqlConnection;
use super::super::statement::Statement;
use super::super::value::{Columns, NEVER_MICROS, Value};
use crate::values::Timestamp;

impl SqlConnection for SqliteConnection {
    type Row = SqliteRow;

    /// A file has no connection that could be lost.
    fn ends_connection(_: &dyn DatabaseError) -> bool {
        false
    }

    /// Before the ping, SQLite's thread rolls back the transaction of a caller who was cancelled, even if the caller
    /// was cancelled during `BEGIN`.
    async fn end_transaction(&mut self) -> Result<(), sqlx::Error> {
        self.ping().await
    }

    async fn rows(&mut self, statement: Statement) -> Result<Vec<SqliteRow>, sqlx::Error> {
        query(statement).fetch_all(self).await
    }

    async fn execute(&mut self, statement: Statement) -> Result<u64, sqlx::Error> {
        query(statement).execute(self).await.map(|done| done.rows_affected())
    }
}

/// Runs the statements of a text, and returns the number of rows that each of them changed.
pub(super) async fn rows_changed(
    to: &mut SqliteConnection,
    query: BoundQuery,
) -> Result<Vec<u64>, sqlx::Error> {
    #[expect(deprecated, reason = "there is no other way to run several statements with values")]
    let done = query.fetch_many(to);
    done.try_filter_map(|done| ready(Ok(done.left().map(|done| done.rows_affected()))))
        .try_collect()
        .await
}

pub(super) type BoundQuery = Query<'static, Sqlite, SqliteArguments>;

pub(super) fn query(statement: Statement) -> BoundQuery {
    let query = sqlx::query(AssertSqlSafe(statement.text));
    statement.values.into_iter().fold(query, bind)
}

pub(super) fn bind(query: BoundQuery, value: Value) -> BoundQuery {
    match value {
        Value::Id(id) => query.bind(id),
        Value::IdOrNull(id) => query.bind(id),
        Value::Text(text) => query.bind(text),
        Value::Int(number) => query.bind(number),
        Value::Bool(yes) => query.bind(yes),
        Value::Time(time) => query.bind(time.map(Timestamp::micros)),
        Value::Amount(amount) => query.bind(amount.to_string()),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Json(text) => query.bind(text),
        Value::PriceOrder(price) => query.bind(price_order(price)),
        Value::TimeOrder(time) => query.bind(time.map_or(NEVER_MICROS, Timestamp::micros)),
    }
}

/// The text of a price in the generated column `price_order`: the texts are sorted like the prices.
fn price_order(price: Decimal) -> String {
    let text = price.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    format!("{whole:0>15}.{fraction:0<6}")
}

impl Columns for SqliteRow {
    fn id_or_null(&self, at: usize) -> Result<Option<Uuid>, sqlx::Error> {
        self.try_get(at)
    }

    fn text(&self, at: usize) -> Result<Option<Cow<'_, str>>, sqlx::Error> {
        Ok(self.try_get::<Option<&str>, _>(at)?.map(Cow::Borrowed))
    }

    fn micros(&self, at: usize) -> Result<Option<i64>, sqlx::Error> {
        self.try_get(at)
    }

    fn bytes(&self, at: usize) -> Result<Cow<'_, [u8]>, sqlx::Error> {
        self.try_get(at).map(|bytes: &[u8]| Cow::Borrowed(bytes))
    }
}
