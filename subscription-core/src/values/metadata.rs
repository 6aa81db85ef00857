//! Metadata: keys and texts that a client attaches to a record, stored as they were sent.

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

/// The metadata of a plan, a subscription or a payment: 1 to 20 keys of 1 to 40 characters, each with a value of at
/// most 500 characters. Keys and values have no control characters. They stay in the order in which they were sent.
///
/// The service neither interprets metadata nor filters by it. Metadata should hold no personal data: every client that
/// may read the record sees it, and it stays when the account of the record's user is deleted.
///
/// ```
/// use subscription_core::{BillingCycle, Field, Metadata, NewPlan, PlanChanges};
///
/// let pro = NewPlan::new("Pro".parse()?, "pro".parse()?, "19.90".parse()?, BillingCycle::MONTHLY);
/// let pro = NewPlan { metadata: Metadata::new([("crm", "4711"), ("campaign", "spring")])?, ..pro };
/// assert_eq!(pro.metadata.as_ref().and_then(|metadata| metadata.get("crm")), Some("4711"));
///
/// let cleared = PlanChanges { metadata: Field::Null, ..PlanChanges::default() };
/// # drop(cleared);
/// assert!(Metadata::new([("", "a key has at least one character")]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
// An `Arc<Vec<…>>` is a thin pointer. So even in a record without metadata the field takes only 8 bytes; an `Arc<[…]>`
// would take 16.
pub struct Metadata(Arc<Vec<(Box<str>, Box<str>)>>);

/// A key and its value, or the reason why the value is not a text.
type UncheckedPair = (String, Result<String, InvalidValue>);

impl Metadata {
    /// The metadata with these keys and values; `None` if there are no keys. The error has all faults of the keys and
    /// values.
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

    /// Checks keys and values. In place of a value that is not a text, `pairs` has the fault of that value.
    fn read(pairs: Vec<UncheckedPair>) -> Result<Option<Self>, Faults> {
        let mut faults = Faults::default();
        if pairs.len() > KEYS_MAX {
            let message = format!("must have at most {KEYS_MAX} keys");
            faults.push(InvalidValue::new(FaultCode::TooLong, message).at(FIELD));
            return Err(faults);
        }
        let mut read: Vec<(Box<str>, Box<str>)> = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            // The key comes from the caller and may be long: its first characters are enough to recognize it.
            let field = || format!("{FIELD}.{}", key.chars().take(100).collect::<String>());
            if let Err(refused) = checked(&key, 1, KEY_MAX, false) {
                let message = format!("is a key that {refused}");
                faults.push(InvalidValue::new(refused.code(), message).at(field()));
            }
            if read.iter().any(|(name, _)| **name == *key) {
                let refused = InvalidValue::new(FaultCode::BadFormat, "must not be a repeated key");
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
    /// Reads metadata that may be absent, null or empty, and records a fault for each invalid key or value.
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
fn pairs(json: &str) -> Result<Vec<UncheckedPair>, InvalidValue> {
    if !json.starts_with('{') {
        return Err(InvalidValue::new(FaultCode::WrongType, "must be an object of strings"));
    }
    let pairs = serde_json::Deserializer::from_str(json).deserialize_map(Pairs::<&RawValue>::new());
    // The text is valid JSON, but a key may be invalid Unicode: `"\ud800"`.
    let pairs = pairs
        .map_err(|_| InvalidValue::new(FaultCode::BadFormat, "must have keys of valid Unicode"))?;
    Ok(pairs.into_iter().map(|(key, value)| (key, text(value.get()))).collect())
}

/// Reads the pairs of a map in their order, including repeated keys.
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

/// Writes the metadata as JSON.
impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Parses the JSON of metadata.
impl FromStr for Metadata {
    type Err = serde_json::Error;

    fn from_str(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}
