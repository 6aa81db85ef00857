//! A record as a line: its columns by their names, and back.
//!
//! Every value goes through the record's own type, both ways. So the text of a line does not depend on
//! how a database writes JSON, and nothing comes in by a file that could not come in otherwise.

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

use super::super::table::{Kept, Table};
use super::super::value::{Cells, Columns, Value};
use super::Kind;
use crate::store::{Source, StoreError};
use crate::values::clock::Timestamp;

/// A record to be written.
#[derive(Serialize)]
pub(super) struct Line<'v> {
    kind: Kind,
    record: Named<'v>,
}

impl<'v> Line<'v> {
    pub(super) fn new<T: Kept>(kind: Kind, values: &'v [Value]) -> Self {
        Self { kind, record: Named { columns: T::TABLE.columns, values } }
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

/// A line as it is read.
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
    pub(super) fn record<T: Kept>(&self) -> Result<T, Source> {
        let mut text = serde_json::Deserializer::from_str(self.record.get());
        let fields = Fields::of(T::TABLE).deserialize(&mut text)?;
        let read = T::read(&mut Cells::new(&fields));
        read.map_err(
            |error| {
                if let StoreError::Damaged(source) = error { source } else { error.into() }
            },
        )
    }
}

/// The columns of a record as a line has them.
struct Fields<'l> {
    table: &'static Table,
    fields: Vec<Field<'l>>,
}

struct Field<'l> {
    raw: &'l RawValue,
    /// What is written as text.
    text: Option<Cow<'l, str>>,
    /// What the text stands for, once somebody asks for it.
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
        Self { table, fields: Vec::with_capacity(table.columns.len()) }
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
        let columns = self.table.columns.len();
        self.fields.get(at).ok_or(sqlx::Error::ColumnIndexOutOfBounds { index: at, len: columns })
    }

    /// What a column holds, or what it should.
    fn told<T>(&self, at: usize, expected: &str, found: Option<T>) -> Result<T, sqlx::Error> {
        found.ok_or_else(|| {
            let column = self.table.columns.get(at).copied().unwrap_or_default();
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
        for column in self.table.columns {
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

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::super::table::Texts;
    use super::*;

    static NOTES: Table = Table {
        name: "notes",
        key: 1,
        columns: &["id", "tags", "text", "seen"],
        defaults: &[("tags", "[]"), ("seen", "false")],
        reset: "",
        unique: &[],
        texts: LazyLock::new(|| Texts::of(&NOTES)),
    };

    #[derive(Debug, PartialEq)]
    struct Note {
        id: u64,
        tags: Vec<String>,
        text: String,
        seen: bool,
    }

    impl Kept for Note {
        const TABLE: &'static Table = &NOTES;

        fn values(&self) -> Vec<Value> {
            Vec::new()
        }

        fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError> {
            Ok(Self {
                id: cells.count()?,
                tags: cells.json()?,
                text: cells.text()?.into(),
                seen: cells.bool()?,
            })
        }
    }

    fn read(record: &str) -> Result<Note, String> {
        let line = format!(r#"{{"kind":"plan","record":{record}}}"#);
        let line: ReadLine<'_> = serde_json::from_str(&line).unwrap();
        line.record().map_err(|error| error.to_string())
    }

    #[test]
    fn a_field_that_an_earlier_release_lacked_has_its_default() {
        let whole = r#"{"id":7,"tags":["new"],"text":"hi","seen":true}"#;
        let earlier = r#"{"id":7,"text":"hi"}"#;
        let between = r#"{"id":7,"text":"hi","seen":true}"#;
        let note = |tags: &[&str], seen| Note {
            id: 7,
            tags: tags.iter().map(ToString::to_string).collect(),
            text: "hi".into(),
            seen,
        };

        assert_eq!(read(whole), Ok(note(&["new"], true)));
        assert_eq!(read(earlier), Ok(note(&[], false)));
        assert_eq!(read(between), Ok(note(&[], true)));
    }

    #[test]
    fn no_other_field_may_be_missing_or_out_of_its_order() {
        let cases = [
            (r#"{"id":7}"#, "the field text is missing"),
            (r#"{"text":"hi"}"#, "the field id is missing"),
            (r#"{"id":7,"text":"hi","tags":[]}"#, "there is a field too many"),
            (r#"{"id":7,"text":"hi","more":1}"#, "there is a field too many"),
            (r#"{"id":7,"id":7,"text":"hi"}"#, "the field text is missing"),
        ];
        for (record, expected) in cases {
            let refused = read(record).unwrap_err();
            assert!(refused.starts_with(expected), "{record}: {refused}");
        }
    }
}
