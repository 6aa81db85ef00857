//! A record as a line: its columns by their names, and back.
//!
//! Every value goes through the record's own type, both ways. So the text of a line does not depend on
//! how a database writes JSON, and a file cannot import values that the types refuse.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rust_decimal::Decimal;
use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::ser::{Error as _, SerializeMap as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Content, Kind};
use crate::store::sql::table::Table;
use crate::store::sql::value::{Columns, Value};
use crate::store::{Source, StoreError};
use crate::values::clock::Timestamp;

/// A record to be written.
#[derive(Serialize)]
pub(super) struct Line<'v> {
    kind: Kind,
    record: Named<'v>,
}

impl<'v> Line<'v> {
    pub(super) fn new(kind: Kind, values: &'v [Value]) -> Self {
        Self { kind, record: Named { columns: kind.table().columns(), values } }
    }
}

struct Named<'v> {
    columns: &'static [&'static str],
    values: &'v [Value],
}

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.columns.len()))?;
        for (column, value) in self.columns.iter().zip(self.values) {
            map.serialize_key(column)?;
            match value {
                Value::Id(id) => map.serialize_value(id),
                Value::IdOrNull(id) => map.serialize_value(id),
                Value::Text(text) => map.serialize_value(text),
                Value::Int(number) => map.serialize_value(number),
                Value::Bool(yes) => map.serialize_value(yes),
                Value::Time(time) | Value::TimeOrder(time) => map.serialize_value(time),
                Value::Amount(amount) | Value::PriceOrder(amount) => {
                    map.serialize_value(&amount.to_string())
                }
                Value::Bytes(bytes) => map.serialize_value(&STANDARD.encode(bytes)),
                Value::Json(text) => {
                    let raw: &RawValue = serde_json::from_str(text).map_err(S::Error::custom)?;
                    map.serialize_value(raw)
                }
            }?;
        }
        map.end()
    }
}

/// A line of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadLine<'l> {
    pub(super) kind: Kind,
    #[serde(borrow)]
    record: &'l RawValue,
}

impl ReadLine<'_> {
    /// The text of one field.
    pub(super) fn text(&self, field: &str) -> Option<String> {
        let fields: serde_json::Value = serde_json::from_str(self.record.get()).ok()?;
        fields.get(field)?.as_str().map(str::to_owned)
    }

    /// The record, if the line holds all its fields in their order and no other. A field that was added
    /// after a release may be missing: it has its default then.
    pub(super) fn content(&self) -> Result<Content, Source> {
        let mut text = serde_json::Deserializer::from_str(self.record.get());
        let fields = Fields::of(self.kind.table()).deserialize(&mut text)?;
        let content = Content::read(self.kind, &fields);
        content.map_err(
            |error| {
                if let StoreError::Damaged(source) = error { source } else { error.into() }
            },
        )
    }
}

/// The fields of a line, in the order of the table's columns.
struct Fields<'l> {
    table: &'static Table,
    fields: Vec<Field<'l>>,
}

struct Field<'l> {
    raw: &'l RawValue,
    /// The text, if the value is a JSON string.
    text: Option<Cow<'l, str>>,
    /// The bytes that the text encodes, once they were read.
    bytes: OnceLock<Vec<u8>>,
}

impl<'l> Field<'l> {
    fn new(raw: &'l RawValue) -> Result<Self, serde_json::Error> {
        let text = match raw.get().strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            None => None,
            Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
            Some(_) => Some(serde_json::from_str(raw.get())?),
        };
        Ok(Self { raw, text, bytes: OnceLock::new() })
    }
}

impl Fields<'_> {
    fn of(table: &'static Table) -> Self {
        Self { table, fields: Vec::with_capacity(table.columns().len()) }
    }

    /// The value of a column that the line lacks.
    fn default(&self, column: &str) -> Result<&'static RawValue, String> {
        let mut defaults = self.table.defaults.iter();
        match defaults.find(|(name, _)| *name == column) {
            Some((_, json)) => serde_json::from_str(json).map_err(|error| error.to_string()),
            None => Err(format!("the field {column} is missing")),
        }
    }

    fn field(&self, at: usize) -> Result<&Field<'_>, sqlx::Error> {
        let columns = self.table.columns().len();
        self.fields.get(at).ok_or(sqlx::Error::ColumnIndexOutOfBounds { index: at, len: columns })
    }

    /// The value of a column, or the error that names the expected type.
    fn told<T>(&self, at: usize, expected: &str, found: Option<T>) -> Result<T, sqlx::Error> {
        found.ok_or_else(|| {
            let column = self.table.columns().get(at).copied().unwrap_or_default();
            sqlx::Error::Decode(format!("{column} must be {expected}").into())
        })
    }

    fn parsed<T: for<'t> Deserialize<'t>>(
        &self,
        at: usize,
        expected: &str,
    ) -> Result<T, sqlx::Error> {
        let found = serde_json::from_str(self.field(at)?.raw.get());
        self.told(at, expected, found.ok())
    }
}

impl<'de> DeserializeSeed<'de> for Fields<'de> {
    type Value = Self;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self, D::Error> {
        from.deserialize_map(self)
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
            let raw: &RawValue = if key.as_deref() == Some(column) {
                let raw = map.next_value()?;
                key = map.next_key()?;
                raw
            } else {
                self.default(column).map_err(A::Error::custom)?
            };
            self.fields.push(Field::new(raw).map_err(A::Error::custom)?);
        }
        match key {
            Some(_) => Err(A::Error::custom("there is a field too many")),
            None => Ok(self),
        }
    }
}

impl Columns for Fields<'_> {
    fn id(&self, at: usize) -> Result<Uuid, sqlx::Error> {
        self.parsed(at, "a UUID")
    }

    fn id_or_null(&self, at: usize) -> Result<Option<Uuid>, sqlx::Error> {
        if self.text(at)?.is_none() { Ok(None) } else { self.id(at).map(Some) }
    }

    fn text(&self, at: usize) -> Result<Option<&str>, sqlx::Error> {
        let field = self.field(at)?;
        if field.raw.get() == "null" {
            return Ok(None);
        }
        self.told(at, "text", field.text.as_deref()).map(Some)
    }

    fn int(&self, at: usize) -> Result<i64, sqlx::Error> {
        self.parsed(at, "a whole number")
    }

    fn bool(&self, at: usize) -> Result<bool, sqlx::Error> {
        self.parsed(at, "true or false")
    }

    fn micros(&self, at: usize) -> Result<Option<i64>, sqlx::Error> {
        let time = self.text(at)?.map(str::parse::<Timestamp>).transpose();
        self.told(at, "an RFC 3339 time", time.ok()).map(|time| time.map(Timestamp::micros))
    }

    fn decimal(&self, at: usize) -> Result<Decimal, sqlx::Error> {
        let number = self.text(at)?.and_then(|text| Decimal::from_str_exact(text).ok());
        self.told(at, "a decimal number as text", number)
    }

    fn bytes(&self, at: usize) -> Result<&[u8], sqlx::Error> {
        let bytes = self.text(at)?.and_then(|text| STANDARD.decode(text).ok());
        let bytes = self.told(at, "base64", bytes)?;
        Ok(self.field(at)?.bytes.get_or_init(|| bytes))
    }

    fn json(&self, at: usize) -> Result<String, sqlx::Error> {
        Ok(self.field(at)?.raw.get().to_owned())
    }
}
