//! The reader of JSON inputs: it reads field by field and collects all faults.
//!
//! A derived `Deserialize` would stop at the first wrong type, and would not distinguish `null` from absent.
//! Values stay text until the type of the field parses them, so that numbers keep their digits.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use crate::values::decimal::{Amount, Bounded};
use crate::values::faults::{Fault, FaultCode, Faults, InvalidValue};

/// The reason why a JSON input was refused.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The input is not JSON, or has a field twice.
    #[error(transparent)]
    Malformed(#[from] MalformedJson),
    /// The input is JSON, but its fields have faults.
    #[error(transparent)]
    Invalid(#[from] Faults),
}

/// The place and the reason why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column}")]
pub struct MalformedJson {
    /// The line, counted from 1; 0 if the text is empty.
    pub line: usize,
    /// The byte in the line, counted from 1; 0 is the start of the line.
    pub column: usize,
    /// The reason, without the place.
    pub message: String,
}

impl From<serde_json::Error> for MalformedJson {
    fn from(error: serde_json::Error) -> Self {
        let line = error.line();
        let column = error.column();
        let whole = error.to_string();
        let place = format!(" at line {line} column {column}");
        let message = whole.strip_suffix(&place).unwrap_or(&whole).into();
        Self { line, column, message }
    }
}

/// A field that may be left out, be null, or have a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Field<T> {
    /// The field is absent: it gets its default at creation, and does not change at an update.
    #[default]
    Absent,
    /// The field is `null`: its value becomes empty.
    Null,
    /// The field has this value.
    Value(T),
}

impl<T> Field<T> {
    /// True if the field is absent.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// The field's value; `None` if the field is null; the result of `absent` if the field is absent.
    pub fn or_else(self, absent: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.is_absent() { absent() } else { self.or(None) }
    }

    /// The value after an update: `current` if the field is absent, `None` if the field is null.
    pub fn or(self, current: Option<T>) -> Option<T> {
        match self {
            Self::Absent => current,
            Self::Null => None,
            Self::Value(value) => Some(value),
        }
    }
}

impl<T: PartialEq> Field<T> {
    /// True if an update would change the value from `current` to another value.
    pub(crate) fn sets(&self, current: Option<&T>) -> bool {
        match self {
            Self::Absent => false,
            Self::Null => current.is_some(),
            Self::Value(value) => Some(value) != current,
        }
    }
}

impl<T> From<T> for Field<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

impl<T> From<Option<T>> for Field<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Self::Value)
    }
}

impl<T: Serialize> Serialize for Field<T> {
    /// Writes `null` for both [`Field::Absent`] and [`Field::Null`]. Use `skip_serializing_if` to leave out an absent
    /// field.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent | Self::Null => serializer.serialize_none(),
            Self::Value(value) => value.serialize(serializer),
        }
    }
}

/// The largest number of unknown fields that are reported. A response with a fault for each of thousands of fields
/// would be many times the size of the request.
const UNKNOWN_FIELDS_REPORTED_MAX: usize = 100;

/// Fields of records that no input can set, or that no update can change. If an input has one of them anyway, the fault
/// says so, instead of calling the field unknown.
const FIXED: [&str; 17] = [
    "id",
    "slug",
    "created_at",
    "updated_at",
    "version",
    "blocked",
    "current_period_start",
    "current_period_end",
    "past_due_since",
    "next_action_at",
    "scheduled_change",
    "manage_url",
    "charge_key",
    "due_at",
    "attempt",
    "lines",
    "discount",
];

/// Parses the JSON text of a field.
type Parse<'a, T> = fn(&'a str) -> Result<T, InvalidValue>;

/// The fields of a JSON object. Each field is read once. [`Fields::finish`] reports a field that was not read as
/// unknown.
#[derive(Debug)]
pub struct Fields<'a> {
    untaken: Vec<(Cow<'a, str>, &'a RawValue)>,
    faults: Faults,
}

impl<'a> Fields<'a> {
    /// Reads a text that is one JSON object and nothing else.
    pub fn parse(json: &'a [u8]) -> Result<Self, InputError> {
        if json.trim_ascii_start().first() != Some(&b'{') {
            serde_json::from_slice::<&RawValue>(json).map_err(MalformedJson::from)?;
            let refused = InvalidValue::new(FaultCode::WrongType, "must be a JSON object");
            return Err(Faults::from(refused.at("")).into());
        }
        let untaken = object(json)?;
        Ok(Self { untaken, faults: Faults::default() })
    }

    /// True if a field is there and has not been read yet.
    pub fn has(&self, name: &str) -> bool {
        self.untaken.iter().any(|(field, _)| field == name)
    }

    /// Reads a field that is required; if it is absent, a fault is recorded.
    pub fn required<T>(&mut self, name: &'static str, parse: Parse<'a, T>) -> Option<T> {
        let faults_before = self.faults();
        let value = self.optional(name, parse);
        if value.is_none() && self.faults() == faults_before {
            self.note(InvalidValue::new(FaultCode::Required, "is required").at(name));
        }
        value
    }

    /// Reads a field that may be absent, but not null.
    pub fn optional<T>(&mut self, name: &'static str, parse: Parse<'a, T>) -> Option<T> {
        match self.nullable(name, parse) {
            Field::Absent => None,
            Field::Value(value) => Some(value),
            Field::Null => {
                let refused = InvalidValue::new(FaultCode::NullNotAllowed, "must not be null");
                self.note(refused.at(name));
                None
            }
        }
    }

    /// Reads a field that may be absent or null. If the field cannot be parsed, a fault is recorded, and the result is
    /// [`Field::Absent`].
    pub fn nullable<T>(&mut self, name: &'static str, parse: Parse<'a, T>) -> Field<T> {
        let Some(nth) = self.untaken.iter().position(|(field, _)| field == name) else {
            return Field::Absent;
        };
        let (_, raw) = self.untaken.remove(nth);
        match raw.get() {
            "null" => Field::Null,
            text => match parse(text) {
                Ok(value) => Field::Value(value),
                Err(refused) => {
                    self.note(refused.at(name));
                    Field::Absent
                }
            },
        }
    }

    /// Reads a field whose value is a JSON object, which `parse` reads. The field may be absent. Faults in the object
    /// name their field by a path: `discount.percent`, for example.
    pub(crate) fn object<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&[u8]) -> Result<T, InputError>,
    ) -> Option<T> {
        let json = self.optional(name, Ok)?;
        match parse(json.as_bytes()) {
            Ok(value) => Some(value),
            Err(InputError::Invalid(faults)) => {
                for fault in &faults {
                    let path = if fault.field.is_empty() { "" } else { "." };
                    let field = format!("{name}{path}{}", fault.field).into();
                    self.note(Fault { field, ..fault.clone() });
                }
                None
            }
            Err(InputError::Malformed(error)) => {
                self.note(InvalidValue::new(FaultCode::BadFormat, error.message).at(name));
                None
            }
        }
    }

    /// Reads a list of at most `max` texts. The list may be absent. A fault is recorded for each invalid element.
    pub fn list<T: FromStr<Err = InvalidValue>>(
        &mut self,
        name: &'static str,
        max: usize,
    ) -> Option<Vec<T>> {
        let raw = self.optional(name, elements)?;
        if raw.len() > max {
            let message = format!("must have at most {max} elements");
            self.note(InvalidValue::new(FaultCode::TooLong, message).at(name));
            return None;
        }
        let read = raw.iter().enumerate().filter_map(|(nth, element)| {
            string(element.get())
                .map_err(|refused| self.faults.push(refused.at(format!("{name}[{nth}]"))))
                .ok()
        });
        Some(read.collect())
    }

    /// The number of faults so far.
    pub(crate) fn faults(&self) -> usize {
        self.faults.iter().len()
    }

    /// Records a fault.
    pub fn note(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Returns the value, if no field has a fault and every field of the input was read. Each unread field is an
    /// unknown field, which is a fault.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<T, InputError> {
        for (name, _) in self.untaken.into_iter().take(UNKNOWN_FIELDS_REPORTED_MAX) {
            let message = if FIXED.contains(&&*name) {
                "cannot be set or changed"
            } else {
                "is not a field of this input"
            };
            let refused = InvalidValue::new(FaultCode::UnknownField, message);
            // The name comes from the caller and may be long: its first characters are enough to recognize it.
            self.faults.push(refused.at(name.chars().take(100).collect::<String>()));
        }
        self.faults.into_result()?;
        // This error does not occur: `value` is `None` only if a field has a fault, and then the line above returns.
        value.ok_or_else(|| InputError::Invalid(Faults::default()))
    }
}

/// The fields of a text that is one JSON object, in order; a repeated field is an error.
pub(crate) fn object(json: &[u8]) -> Result<Vec<(Cow<'_, str>, &RawValue)>, MalformedJson> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let fields = reader.deserialize_map(ObjectVisitor)?;
    reader.end()?;
    Ok(fields)
}

struct ObjectVisitor;

impl<'de> de::Visitor<'de> for ObjectVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                let name: String = name.chars().take(100).collect();
                return Err(de::Error::custom(format_args!("repeated field {name:?}")));
            }
            fields.push((Cow::Owned(name), map.next_value()?));
        }
        Ok(fields)
    }
}

fn wrong_type(expected: &'static str) -> InvalidValue {
    InvalidValue::new(FaultCode::WrongType, expected)
}

/// Parses the text in a JSON string as a `T`.
pub fn string<T: FromStr<Err = InvalidValue>>(json: &str) -> Result<T, InvalidValue> {
    text(json)?.parse()
}

/// Reads a JSON string.
pub(crate) fn text(json: &str) -> Result<String, InvalidValue> {
    if !json.starts_with('"') {
        return Err(wrong_type("must be a string"));
    }
    serde_json::from_str(json)
        .map_err(|_| InvalidValue::new(FaultCode::BadFormat, "must be valid Unicode"))
}

/// Parses `true` or `false`.
pub(crate) fn boolean(json: &str) -> Result<bool, InvalidValue> {
    json.parse().map_err(|_| wrong_type("must be true or false"))
}

/// Parses a JSON number that is whole.
pub(crate) fn whole_number<const MAX: u64>(json: &str) -> Result<Bounded<MAX>, InvalidValue> {
    json.parse()
}

/// Parses a JSON number, or a string with a number, digit for digit.
pub(crate) fn amount(json: &str) -> Result<Amount, InvalidValue> {
    match json.as_bytes().first() {
        Some(b'"') => string(json),
        Some(b'-' | b'0'..=b'9') => json.parse(),
        _ => Err(wrong_type("must be a number")),
    }
}

fn elements(json: &str) -> Result<Vec<&RawValue>, InvalidValue> {
    serde_json::from_str(json).map_err(|_| wrong_type("must be an array of strings"))
}
