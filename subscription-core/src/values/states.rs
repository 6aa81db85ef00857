//! States as data: names, aliases and the moves between them.
//!
//! Parsing, transitions, the allowed values in an error and the documentation all come from one table
//! for each kind of record.

use crate::values::faults::{FaultCode, InvalidValue};

/// One state of a kind of record: a row of its table.
#[derive(Debug)]
pub(crate) struct Row<S: 'static> {
    pub(crate) state: S,
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) next: &'static [S],
}

/// The lifecycle does not allow the step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {record} that is {from} cannot become {to}")]
pub struct InvalidTransition {
    /// The kind of record.
    pub record: &'static str,
    /// The state it is in.
    pub from: &'static str,
    /// The state it was to get.
    pub to: &'static str,
    /// The states it could get instead.
    pub allowed: Vec<&'static str>,
}

/// Reads a state by its name or an alias, in any case.
pub(crate) fn read<S: Copy>(table: &[Row<S>], text: &str) -> Result<S, InvalidValue> {
    let text = text.trim();
    let found = table.iter().find(|row| {
        let mut names = std::iter::once(&row.name).chain(row.aliases);
        names.any(|name| text.eq_ignore_ascii_case(name))
    });
    found.map(|row| row.state).ok_or_else(|| {
        let names: Vec<_> = table.iter().map(|row| row.name).collect();
        let message = format!("must be one of {}", names.join(", "));
        InvalidValue::new(FaultCode::NotAllowedValue, message)
    })
}

/// `Display`, `FromStr`, serde and the look-ups of a state, from its `TABLE`.
macro_rules! reads_and_writes_as_state {
    ($state:ident) => {
        impl $state {
            /// Every state, in the order of the table.
            pub fn all() -> impl Iterator<Item = Self> {
                TABLE.iter().map(|row| row.state)
            }

            /// The state's name, as it is written.
            pub fn as_str(self) -> &'static str {
                self.row().name
            }

            /// The states that may follow this one.
            pub fn next(self) -> &'static [Self] {
                self.row().next
            }

            fn row(self) -> &'static Row<Self> {
                // The table stands in the order of the enum; a test holds it to that.
                #[expect(clippy::indexing_slicing, reason = "one row a state")]
                &TABLE[self as usize]
            }
        }

        impl fmt::Display for $state {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $state {
            type Err = InvalidValue;

            fn from_str(text: &str) -> Result<Self, InvalidValue> {
                states::read(&TABLE, text)
            }
        }

        impl Serialize for $state {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $state {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

pub(crate) use reads_and_writes_as_state;

/// The table as the documentation shows it.
#[cfg(test)]
pub(crate) fn markdown<S: Copy + std::fmt::Display>(table: &[Row<S>]) -> String {
    let list = |names: Vec<String>| match names.join(", ") {
        empty if empty.is_empty() => "–".to_owned(),
        names => names,
    };
    let rows = table.iter().map(|row| {
        let next = list(row.next.iter().map(|state| format!("`{state}`")).collect());
        let aliases = list(row.aliases.iter().map(|alias| format!("`{alias}`")).collect());
        format!("| `{}` | {next} | {aliases} |\n", row.name)
    });
    let head = "| from | may become | also read as |\n| --- | --- | --- |\n";
    std::iter::once(head.to_owned()).chain(rows).collect()
}
