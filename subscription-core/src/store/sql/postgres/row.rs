//! Statements, their values and their rows in PostgreSQL.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde_json::value::RawValue;
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Postgres, Row as _};
use uuid::Uuid;

use super::super::dialect::SqlConnection;
use super::super::page::Statement;
use super::super::value::{Columns, NEVER_MICROS, Value};
use super::amount::Digits;

impl SqlConnection for PgConnection {
    type Row = PgRow;

    async fn rows(&mut self, statement: Statement) -> Result<Vec<PgRow>, sqlx::Error> {
        query(statement).fetch_all(self).await
    }

    async fn execute(&mut self, statement: Statement) -> Result<u64, sqlx::Error> {
        query(statement).execute(self).await.map(|done| done.rows_affected())
    }
}

fn query(statement: Statement) -> Query<'static, Postgres, PgArguments> {
    let query = sqlx::query(AssertSqlSafe(statement.text));
    statement.values.into_iter().fold(query, |query, value| match value {
        Value::Id(id) => query.bind(id),
        Value::IdOrNull(id) => query.bind(id),
        Value::Text(text) => query.bind(text),
        Value::Int(number) => query.bind(number),
        Value::Bool(yes) => query.bind(yes),
        Value::Time(time) => query.bind(time.map(DateTime::<Utc>::from)),
        Value::Amount(amount) | Value::PriceOrder(amount) => query.bind(Digits(amount)),
        Value::Bytes(bytes) => query.bind(bytes),
        // The text was made by `Value::json`, so it is JSON.
        Value::Json(text) => query.bind(RawValue::from_string(text).ok().map(Json)),
        Value::TimeOrder(time) => query.bind(match time {
            Some(time) => time.into(),
            None => DateTime::<Utc>::from_timestamp_micros(NEVER_MICROS).unwrap_or_default(),
        }),
    })
}

impl Columns for PgRow {
    fn id(&self, at: usize) -> Result<Uuid, sqlx::Error> {
        self.try_get(at)
    }

    fn id_or_null(&self, at: usize) -> Result<Option<Uuid>, sqlx::Error> {
        self.try_get(at)
    }

    fn text(&self, at: usize) -> Result<Option<Cow<'_, str>>, sqlx::Error> {
        Ok(self.try_get::<Option<&str>, _>(at)?.map(Cow::Borrowed))
    }

    fn int(&self, at: usize) -> Result<i64, sqlx::Error> {
        self.try_get(at)
    }

    fn bool(&self, at: usize) -> Result<bool, sqlx::Error> {
        self.try_get(at)
    }

    fn micros(&self, at: usize) -> Result<Option<i64>, sqlx::Error> {
        let time: Option<DateTime<Utc>> = self.try_get(at)?;
        Ok(time.map(|time| time.timestamp_micros()))
    }

    fn decimal(&self, at: usize) -> Result<Decimal, sqlx::Error> {
        self.try_get(at).map(|Digits(number)| number)
    }

    fn bytes(&self, at: usize) -> Result<Cow<'_, [u8]>, sqlx::Error> {
        self.try_get(at).map(|bytes: &[u8]| Cow::Borrowed(bytes))
    }

    fn json(&self, at: usize) -> Result<String, sqlx::Error> {
        let json: Json<Box<RawValue>> = self.try_get(at)?;
        Ok(json.0.get().to_owned())
    }
}
