//! Values to and from PostgreSQL, each of the type that was made for it.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde_json::value::RawValue;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{Postgres, Row as _};
use uuid::Uuid;

use super::super::value::{Columns, NEVER_MICROS, Value};
use super::amount::Digits;

type PgQuery<'q> = Query<'q, Postgres, PgArguments>;

pub(super) fn bound(query: PgQuery<'_>, values: Vec<Value>) -> PgQuery<'_> {
    values.into_iter().fold(query, |query, value| match value {
        Value::Id(id) => query.bind(id),
        Value::IdOrNull(id) => query.bind(id),
        Value::Text(text) => query.bind(text),
        Value::Int(number) => query.bind(number),
        Value::Bool(yes) => query.bind(yes),
        Value::Time(time) => query.bind(time.map(DateTime::<Utc>::from)),
        Value::Amount(amount) | Value::PriceOrder(amount) => query.bind(Digits(amount)),
        Value::Bytes(bytes) => query.bind(bytes),
        // What is no JSON was made by nobody here; the database would refuse it too.
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

    fn text(&self, at: usize) -> Result<Option<&str>, sqlx::Error> {
        self.try_get(at)
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

    fn bytes(&self, at: usize) -> Result<&[u8], sqlx::Error> {
        self.try_get(at)
    }

    fn json(&self, at: usize) -> Result<String, sqlx::Error> {
        let json: Json<Box<RawValue>> = self.try_get(at)?;
        Ok(json.0.get().to_owned())
    }
}
