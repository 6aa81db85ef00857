//! Metadata: texts of a caller's own on a record, stored as they were sent.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use crate::values::faults::{FaultCode, Faults, InvalidValue};
use crate::values::input::{Field, Fields, text};
use crate::values::text::checked;

const FIELD: &str = "metadata";
const KEYS_MAX: usize = 20;
const KEY_MAX: usize = 40;
const VALUE_MAX: usize = 500;

/// The metadata of a plan, a subscription or a payment: 1 to 20 keys of 1 to 40 characters, each with a
/// text of at most 500, all without control characters and in the order in which they were sent.
///
/// Nothing is read from it or filtered by it. It should hold no personal data: it is shown to every client
/// that may read the record, and stays when the account of the record's user is deleted.
///
/// ```
/// use subscription_core::Metadata;
///
/// let metadata = Metadata::new([("crm", "4711"), ("campaign", "spring")])?.ok_or("not empty")?;
/// assert_eq!(metadata.get("crm"), Some("4711"));
/// assert_eq!(Metadata::new([("", "")]).unwrap_err().iter().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
// A thin pointer: a record without metadata is 8 bytes larger for it, not 16.
pub struct Metadata(Arc<Vec<(Box<str>, Box<str>)>>);

impl Metadata {
    /// The metadata of these keys and values, or all that is wrong with them; `None` if there are none.
    pub fn new<K: Into<String>, V: Into<String>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Option<Self>, Faults> {
        Self::read(pairs.into_iter().map(|(key, value)| (key.into(), Ok(value.into()))).collect())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The keys with their values, in the order in which they were sent.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Checks keys and values; a value that is no text comes as the reason why.
    fn read(pairs: Vec<(String, Result<String, InvalidValue>)>) -> Result<Option<Self>, Faults> {
        let mut faults = Faults::default();
        if pairs.len() > KEYS_MAX {
            let message = format!("must have at most {KEYS_MAX} keys");
            faults.push(InvalidValue::new(FaultCode::TooLong, message).at(FIELD));
            return Err(faults);
        }
        let mut read: Vec<(Box<str>, Box<str>)> = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            // The key is the caller's: enough of it to find it, no more.
            let field = || format!("{FIELD}.{}", key.chars().take(100).collect::<String>());
            if let Err(refused) = checked(&key, 1, KEY_MAX, false) {
                let message = format!("is a key that {refused}");
                faults.push(InvalidValue::new(refused.code(), message).at(field()));
            }
            if read.iter().any(|(name, _)| **name == *key) {
                let refused = InvalidValue::new(FaultCode::BadFormat, "must not be there twice");
                faults.push(refused.at(field()));
            }
            let value = value.and_then(|text| checked(&text, 0, VALUE_MAX, false).map(Box::from));
            match value {
                Ok(value) => read.push((key.into(), value)),
                Err(refused) => faults.push(refused.at(field())),
            }
        }
        faults.into_result()?;
        Ok((!read.is_empty()).then(|| Self(Arc::new(read))))
    }
}

impl Fields<'_> {
    /// Takes metadata that may be left out, be null or be empty, and notes a fault for each key.
    pub(crate) fn metadata(&mut self) -> Field<Metadata> {
        let pairs = match self.nullable(FIELD, pairs) {
            Field::Absent => return Field::Absent,
            Field::Null => return Field::Null,
            Field::Value(pairs) => pairs,
        };
        Metadata::read(pairs).map_or_else(
            |faults| {
                faults.iter().for_each(|fault| self.note(fault.clone()));
                Field::Absent
            },
            Field::from,
        )
    }
}

/// The keys and values of a JSON object.
fn pairs(json: &str) -> Result<Vec<(String, Result<String, InvalidValue>)>, InvalidValue> {
    if !json.starts_with('{') {
        return Err(InvalidValue::new(FaultCode::WrongType, "must be an object of strings"));
    }
    let pairs = serde_json::Deserializer::from_str(json).deserialize_map(Pairs::<&RawValue>::new());
    // The text is JSON already, but a key may be no text: `"\ud800"`.
    let pairs = pairs
        .map_err(|_| InvalidValue::new(FaultCode::BadFormat, "must have keys of valid Unicode"))?;
    Ok(pairs.into_iter().map(|(key, value)| (key, text(value.get()))).collect())
}

/// Reads the pairs of a map in their order, also those whose key is there twice.
struct Pairs<V>(Vec<(String, V)>);

impl<V> Pairs<V> {
    const fn new() -> Self {
        Self(Vec::new())
    }
}

impl<'de, V: Deserialize<'de>> de::Visitor<'de> for Pairs<V> {
    type Value = Vec<(String, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: de::MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        while let Some(pair) = map.next_entry()? {
            self.0.push(pair);
        }
        Ok(self.0)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = deserializer.deserialize_map(Pairs::<String>::new())?;
        let metadata = Self::new(pairs).map_err(de::Error::custom)?;
        metadata.ok_or_else(|| de::Error::custom("metadata must not be empty"))
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Writes it as JSON.
impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Reads its JSON.
impl FromStr for Metadata {
    type Err = serde_json::Error;

    fn from_str(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}
