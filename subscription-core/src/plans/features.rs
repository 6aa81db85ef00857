//! The features of a plan, as one comma-separated text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::values::faults::InvalidValue;
use crate::values::text::{checked, reads_and_writes_as_text};

/// A plan's features: at most 4,000 characters, kept exactly as sent, read as a list.
///
/// ```
/// use subscription_core::Features;
///
/// let features: Features = "api, sso,, audit log ".parse()?;
/// assert_eq!(features.as_str(), "api, sso,, audit log ");
/// assert_eq!(features.list().collect::<Vec<_>>(), ["api", "sso", "audit log"]);
/// # Ok::<(), subscription_core::InvalidValue>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Features(Box<str>);

impl Features {
    /// The features one by one, without blanks around them; empty ones are passed over.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        self.0.split(',').map(str::trim).filter(|feature| !feature.is_empty())
    }
}

impl Default for Features {
    fn default() -> Self {
        Self("".into())
    }
}

impl FromStr for Features {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        checked(text, 0, 4_000, false).map(|text| Self(text.into()))
    }
}

reads_and_writes_as_text!(Features);
