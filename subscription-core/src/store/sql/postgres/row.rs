//! Statements, their values and their rows in PostgreSQL.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde_json::value::RawValue;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgArguments, PgConnection, PgDatabaseError, PgRow, PgSeverity};
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Postgres, Row as _, SqlSafeStr};
use uuid::Uuid;

use super::super::dialect::SqlConnection;
use super::super::statement::Statement;
use super::super::value::{Columns, NEVER_MICROS, Value};
use super::amount::Digits;

impl SqlConnection for PgConnection {
    type Row = PgRow;

    /// Only an error of the severity ERROR says that the statement was rolled back. With any other severity the session
    /// ends, perhaps after its commit. A pooler reports in the same way that it has lost its connection to the server,
    /// and some poolers call that an ERROR: then the code tells.
    fn ends_connection(error: &dyn DatabaseError) -> bool {
        let severity = error.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::severity);
        let code = error.code().unwrap_or_default();
        // A connection exception; the server stops, or ends the session; the outcome of the statement is unknown.
        let is_lost = code.starts_with("08") || code.starts_with("57P") || code == "40003";
        // The server has become a stand-by.
        severity != Some(PgSeverity::Error) || is_lost || code == "25006"
    }

    /// Sends a rollback, because sqlx itself sends none if its caller was cancelled while `BEGIN` was being sent.
    async fn end_transaction(&mut self) -> Result<(), sqlx::Error> {
        sqlx::raw_sql("ROLLBACK").execute(self).await.map(drop)
    }

    async fn rows(&mut self, statement: Statement) -> Result<Vec<PgRow>, sqlx::Error> {
        query(statement).fetch_all(self).await
    }

    async fn execute(&mut self, statement: Statement) -> Result<u64, sqlx::Error> {
        query(statement).execute(self).await.map(|done| done.rows_affected())
    }
}

fn query(statement: Statement) -> BoundQuery {
    let query = sqlx::query(AssertSqlSafe(statement.text)).persistent(!statement.is_one_of_many);
    statement.values.into_iter().fold(query, bind)
}

/// A statement whose parameters are single values, or arrays that each have values of one variant.
#[derive(Debug)]
pub(super) enum Bound {
    Values(Statement),
    Arrays(String, Vec<Vec<Value>>),
}

impl Bound {
    pub(super) async fn rows(self, from: &mut PgConnection) -> Result<Vec<PgRow>, sqlx::Error> {
        match self {
            Self::Values(statement) => from.rows(statement).await,
            Self::Arrays(text, arrays) => rows_by_arrays(from, AssertSqlSafe(text), arrays).await,
        }
    }
}

/// Reads the rows of a statement whose parameters are arrays. The values of an array are of one variant.
pub(super) async fn rows_by_arrays(
    connection: &mut PgConnection,
    text: impl SqlSafeStr,
    arrays: Vec<Vec<Value>>,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let query = sqlx::query(text);
    arrays.into_iter().fold(query, bind_array).fetch_all(connection).await
}

type BoundQuery = Query<'static, Postgres, PgArguments>;

/// Defines how each variant of a value is bound, as a single value or as a value of an array; `None` is NULL.
macro_rules! bound {
    ($($variant:ident($value:ident) => $bound:expr),+ $(,)?) => {
        fn bind(query: BoundQuery, value: Value) -> BoundQuery {
            match value {
                $(Value::$variant($value) => query.bind($bound),)+
            }
        }

        fn bind_array(query: BoundQuery, array: Vec<Value>) -> BoundQuery {
            match array.first() {
                None => query.bind(Vec::<String>::new()),
                $(Some(Value::$variant(_)) => {
                    let values = array.into_iter().map(|value| {
                        if let Value::$variant($value) = value { $bound } else { None }
                    });
                    query.bind(values.collect::<Vec<_>>())
                })+
            }
        }
    };
}

bound! {
    Id(id) => Some(id),
    IdOrNull(id) => id,
    Text(text) => text,
    Int(number) => Some(number),
    Bool(yes) => Some(yes),
    Time(time) => time.map(DateTime::<Utc>::from),
    Amount(amount) => Some(Digits(amount)),
    PriceOrder(amount) => Some(Digits(amount)),
    Bytes(bytes) => Some(bytes),
    // The text was made by `Value::json`, so it is JSON.
    Json(text) => RawValue::from_string(text).ok().map(Json),
    TimeOrder(time) => match time {
        Some(time) => Some(time.into()),
        None => DateTime::<Utc>::from_timestamp_micros(NEVER_MICROS),
    },
}

impl Columns for PgRow {
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
