//! Helpers for types that are read and written as text: `Display`, serde, and names of variants.

use std::borrow::Cow;

use serde::Deserialize;

use super::faults::InvalidValue;

/// The error for a text that is none of the allowed `names`.
pub(crate) fn must_be_one_of(names: impl Iterator<Item = &'static str>) -> InvalidValue {
    let names: Vec<_> = names.collect();
    let message = format!("must be one of {}", names.join(", "));
    InvalidValue::not_allowed(message)
}

/// The bytes in hexadecimal digits, in lower case.
#[cfg(any(feature = "providers", feature = "sqlite", feature = "postgres"))]
pub(crate) fn hex(bytes: &[u8]) -> String {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| char::from_digit(half.into(), 16)).collect()
}

/// A JSON string that borrows from the input where it can. A string with escapes is copied.
#[derive(Deserialize)]
pub(crate) struct JsonText<'t>(#[serde(borrow)] pub(crate) Cow<'t, str>);

/// Implements `Display` and `Serialize` for a type by the text `$text`, and `Deserialize` by its `FromStr`.
macro_rules! written_as_text {
    ($type:ty, |$value:ident| $text:expr $(, for $($generics:tt)*)?) => {
        impl $(<$($generics)*>)? std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $value = self;
                f.pad($text)
            }
        }

        impl $(<$($generics)*>)? serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $value = self;
                serializer.serialize_str($text)
            }
        }

        impl<'de $(, $($generics)*)?> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = $crate::values::as_text::JsonText::deserialize(from)?;
                text.0.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Implements `Debug` without the content of the type, which must not be logged.
macro_rules! hidden_in_logs {
    ($($name:ident)+) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    )+};
}

pub(crate) use {super::named_enum::named_enum, hidden_in_logs, written_as_text};
