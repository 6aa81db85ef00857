//! Reads the fields of a provider's object, and names the place of a field that cannot be read.

use std::str::FromStr;

use serde_json::Value;

use super::finding::Unmapped;
use super::object::ObjectId;
use crate::values::Timestamp;

/// A value in an object and its path, such as `/items/data/0/price/id`. A missing field has the value null.
#[derive(Debug, Clone)]
pub(crate) struct JsonPath<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> JsonPath<'a> {
    /// The whole object.
    pub(crate) const fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// A field of this object.
    pub(crate) fn field(&self, name: &str) -> Self {
        let value = self.value.get(name).unwrap_or(&Value::Null);
        Self { value, path: format!("{}/{name}", self.path) }
    }

    /// The entries of this array.
    pub(crate) fn items(&self) -> Result<Vec<Self>, Unmapped> {
        let items = self.value.as_array().ok_or_else(|| self.unreadable())?.iter().enumerate();
        Ok(items.map(|(at, value)| Self { value, path: format!("{}/{at}", self.path) }).collect())
    }

    /// This value with its path; `None` if the value is null or missing.
    pub(crate) fn present(self) -> Option<Self> {
        (!self.value.is_null()).then_some(self)
    }

    /// Reads the value; `None` if it is null or missing.
    pub(crate) fn optional<T>(
        self,
        read: impl FnOnce(&Self) -> Result<T, Unmapped>,
    ) -> Result<Option<T>, Unmapped> {
        self.present().as_ref().map(read).transpose()
    }

    /// The value as text.
    pub(crate) fn text(&self) -> Result<&'a str, Unmapped> {
        self.value.as_str().ok_or_else(|| self.unreadable())
    }

    /// The value as text that is parsed.
    pub(crate) fn parsed<T: FromStr>(&self) -> Result<T, Unmapped> {
        self.text()?.parse().map_err(|_| self.unreadable())
    }

    /// The value as a whole number.
    pub(crate) fn integer(&self) -> Result<i64, Unmapped> {
        self.value.as_i64().ok_or_else(|| self.unreadable())
    }

    /// The value as true or false.
    pub(crate) fn flag(&self) -> Result<bool, Unmapped> {
        self.value.as_bool().ok_or_else(|| self.unreadable())
    }

    /// The value as a moment, from seconds since 1970 (Stripe). A moment in RFC 3339 is read by [`Self::parsed`].
    pub(crate) fn seconds(&self) -> Result<Timestamp, Unmapped> {
        let micros = self.integer()?.checked_mul(1_000_000).ok_or_else(|| self.unreadable())?;
        Timestamp::from_micros(micros).map_err(|_| self.unreadable())
    }

    /// The id of an object. This value is either the id itself, as text or as a number, or the whole object with its
    /// field `id`.
    pub(crate) fn id(&self) -> Result<ObjectId, Unmapped> {
        match self.value {
            Value::Object(_) => self.field("id").parsed(),
            Value::Number(number) => number.to_string().parse().map_err(|_| self.unreadable()),
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) => self.parsed(),
        }
    }

    /// The error that names the path of this value.
    pub(crate) fn unreadable(&self) -> Unmapped {
        Unmapped::Unreadable { path: self.path.as_str().into() }
    }
}
