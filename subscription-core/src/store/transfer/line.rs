//! The lines of a file: each record is written as a JSON object with the columns of its table, and read back.
//!
//! Both the export and the import convert every value to the record's own type. So the text of a line does not depend
//! on how a database writes JSON, and a file cannot import values that the types refuse.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rust_decimal::Decimal;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::events::RecordedEvent;
use crate::store::sql::table::{SqlRecord as _, Table, values};
use crate::store::sql::value::{Cells, Columns, Value};
use crate::store::{Cause, Record};
use crate::values::Timestamp;

/// The record or event of a line.
pub(super) enum Content {
    Record(Record),
    Event(RecordedEvent),
}

impl Content {
    pub(super) fn read(table: &Table, row: &dyn Columns) -> Result<Self, Cause> {
        if table.name == RecordedEvent::TABLE.name {
            RecordedEvent::read(&mut Cells::new(row)).map(Self::Event)
        } else {
            (table.read)(row).map(Self::Record)
        }
    }

    pub(super) fn values(&self) -> Vec<Value> {
        match self {
            Self::Record(record) => values(record),
            Self::Event(event) => event.values(),
        }
    }
}

/// A line of a file: the kind, and the record as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'l, R> {
    pub(super) kind: &'l str,
    pub(super) record: R,
}

/// A record to be written: its columns and their values.
pub(super) struct Named<'v>(pub(super) &'static [&'static str], pub(super) &'v [Value]);

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().zip(self.1))
    }
}

/// Times and ids are texts, and so are amounts and bytes: see [the format](super).
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Id(id) => id.serialize(to),
            Self::IdOrNull(id) => id.serialize(to),
            Self::Text(text) => text.serialize(to),
            Self::Int(number) => number.serialize(to),
            Self::Bool(yes) => yes.serialize(to),
            Self::Time(time) | Self::TimeOrder(time) => time.serialize(to),
            Self::Amount(amount) | Self::PriceOrder(amount) => to.collect_str(amount),
            Self::Bytes(bytes) => STANDARD.encode(bytes).serialize(to),
            Self::Json(text) => {
                let raw: &RawValue = serde_json::from_str(text).map_err(S::Error::custom)?;
                raw.serialize(to)
            }
        }
    }
}

/// The fields of a line, in the order of the table's columns.
pub(super) struct Fields<'l> {
    table: &'static Table,
    values: Vec<&'l RawValue>,
}

impl<'l> Fields<'l> {
    /// Reads the JSON of a record. The record must have all fields in their order, and no others.
    pub(super) fn read(table: &'static Table, json: &'l RawValue) -> serde_json::Result<Self> {
        let fields = Self { table, values: Vec::with_capacity(table.columns().len()) };
        serde_json::Deserializer::from_str(json.get()).deserialize_map(fields)
    }

    /// The text of a column; `None` if the column is null or has no text.
    pub(super) fn text_of(&self, column: &str) -> Option<Cow<'_, str>> {
        let at = self.table.columns().iter().position(|name| *name == column)?;
        self.text(at).ok()?
    }

    /// The value of a column, or an error that names the expected type.
    fn parse<T: for<'t> Deserialize<'t>>(&self, at: usize, expected: &str) -> sqlx::Result<T> {
        self.convert(at, expected, Some)
    }

    fn convert<T: for<'t> Deserialize<'t>, U>(
        &self,
        at: usize,
        expected: &str,
        convert: impl FnOnce(T) -> Option<U>,
    ) -> sqlx::Result<U> {
        let value = self.values.get(at).and_then(|raw| serde_json::from_str(raw.get()).ok());
        value.and_then(convert).ok_or_else(|| {
            let column = self.table.columns().get(at).copied().unwrap_or_default();
            sqlx::Error::Decode(format!("{column} must be {expected}").into())
        })
    }
}

impl<'de> Visitor<'de> for Fields<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the fields of a record")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        let mut key = map.next_key::<Cow<'_, str>>()?;
        for column in self.table.columns() {
            if key.as_deref() != Some(column) {
                return Err(A::Error::custom(format!("the field {column} is missing")));
            }
            self.values.push(map.next_value()?);
            key = map.next_key()?;
        }
        key.map_or(Ok(self), |key| Err(A::Error::custom(format!("the field {key} is unexpected"))))
    }
}

impl Columns for Fields<'_> {
    fn id(&self, at: usize) -> sqlx::Result<Uuid> {
        self.parse(at, "a UUID")
    }

    fn id_or_null(&self, at: usize) -> sqlx::Result<Option<Uuid>> {
        self.parse(at, "a UUID or null")
    }

    fn text(&self, at: usize) -> sqlx::Result<Option<Cow<'_, str>>> {
        self.parse(at, "text")
    }

    fn int(&self, at: usize) -> sqlx::Result<i64> {
        self.parse(at, "a whole number")
    }

    fn bool(&self, at: usize) -> sqlx::Result<bool> {
        self.parse(at, "true or false")
    }

    fn micros(&self, at: usize) -> sqlx::Result<Option<i64>> {
        let time: Option<Timestamp> = self.parse(at, "an RFC 3339 time")?;
        Ok(time.map(Timestamp::micros))
    }

    fn decimal(&self, at: usize) -> sqlx::Result<Decimal> {
        let number = |text: String| Decimal::from_str_exact(&text).ok();
        self.convert(at, "a decimal number as text", number)
    }

    fn bytes(&self, at: usize) -> sqlx::Result<Cow<'_, [u8]>> {
        self.convert(at, "base64", |text: String| STANDARD.decode(text).map(Cow::Owned).ok())
    }

    fn json(&self, at: usize) -> sqlx::Result<String> {
        self.parse(at, "JSON").map(|json: Box<RawValue>| json.get().to_owned())
    }
}
