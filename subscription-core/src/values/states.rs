//! States as data: names, aliases and allowed transitions, in one table for each kind of record.
//!
//! Parsing, transitions and the allowed values in an error use the table. A test checks that the documentation shows
//! the same table.

use crate::values::as_text::must_be_one_of;
use crate::values::faults::InvalidValue;

/// A row of a table of states.
#[derive(Debug)]
pub(crate) struct Row<S: 'static> {
    pub(crate) state: S,
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) next: &'static [S],
}

/// A row: the state, its name, the other names that are accepted for it, and the states that may follow it.
pub(crate) const fn row<S>(
    state: S,
    name: &'static str,
    aliases: &'static [&'static str],
    next: &'static [S],
) -> Row<S> {
    Row { state, name, aliases, next }
}

/// The lifecycle does not allow the transition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {record} that is {from} cannot become {to}")]
pub struct InvalidTransition {
    /// The kind of record.
    pub record: &'static str,
    /// The state of the record.
    pub from: &'static str,
    /// The requested state.
    pub to: &'static str,
    /// The states that are allowed instead.
    pub allowed: Vec<&'static str>,
}

/// The state with this name or alias, in upper or lower case.
pub(crate) fn read<S: Copy>(table: &[Row<S>], text: &str) -> Result<S, InvalidValue> {
    let text = text.trim();
    let found = table.iter().find(|row| {
        let mut names = std::iter::once(&row.name).chain(row.aliases);
        names.any(|name| text.eq_ignore_ascii_case(name))
    });
    found.map(|row| row.state).ok_or_else(|| must_be_one_of(table.iter().map(|row| row.name)))
}

/// Implements the methods of a state, its parsing and its text, from the `TABLE` beside its definition.
macro_rules! reads_and_writes_as_state {
    ($state:ident) => {
        impl $state {
            /// Every state, in the order of the table.
            pub fn all() -> impl Iterator<Item = Self> {
                TABLE.iter().map(|row| row.state)
            }

            /// The state's name in JSON and in the database.
            pub fn as_str(self) -> &'static str {
                self.row().name
            }

            /// The states that may follow this one.
            pub fn next(self) -> &'static [Self] {
                self.row().next
            }

            fn row(self) -> &'static Row<Self> {
                // The table is in the order of the enum, which a test checks.
                #[expect(clippy::indexing_slicing, reason = "one row for each state")]
                &TABLE[self as usize]
            }
        }

        impl std::str::FromStr for $state {
            type Err = InvalidValue;

            fn from_str(text: &str) -> Result<Self, InvalidValue> {
                states::read(&TABLE, text)
            }
        }

        $crate::values::as_text::written_as_text!($state, |state| state.as_str());
    };
}

pub(crate) use reads_and_writes_as_state;

/// Checks that a table is in the order of its enum, that every name and alias is read, and that the
/// documentation shows the table.
#[cfg(test)]
pub(crate) fn check_table<S>(table: &[Row<S>], documented: &str)
where
    S: Copy
        + PartialEq
        + std::fmt::Debug
        + std::fmt::Display
        + std::str::FromStr<Err = InvalidValue>,
{
    let list = |names: Vec<String>| match names.join(", ") {
        empty if empty.is_empty() => "–".to_owned(),
        names => names,
    };
    let mut markdown =
        vec!["| from | may become | also read as |\n| --- | --- | --- |\n".to_owned()];
    for row in table {
        for given in std::iter::once(&row.name).chain(row.aliases) {
            assert_eq!(given.parse(), Ok(row.state), "{given}");
            assert_eq!(given.to_uppercase().parse(), Ok(row.state), "{given}");
        }
        // The name is looked up by the place of the state in the enum.
        assert_eq!(format!("{:>20}", row.state), format!("{:>20}", row.name));
        let next = list(row.next.iter().map(|state| format!("`{state}`")).collect());
        let aliases = list(row.aliases.iter().map(|alias| format!("`{alias}`")).collect());
        markdown.push(format!("| `{}` | {next} | {aliases} |\n", row.name));
    }
    assert!(documented.contains(&markdown.concat()), "{}", markdown.concat());
    let refused = "lost".parse::<S>().unwrap_err().to_string();
    let names: Vec<_> = table.iter().map(|row| row.name).collect();
    assert_eq!(refused, format!("must be one of {}", names.join(", ")));
}
