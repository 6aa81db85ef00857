//! Errors of exports and imports.

use std::fmt;

use crate::store::StoreError;

/// The reason why a store was not exported, or why a file was not imported. An import that was refused has written
/// nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The database into which the file should be imported is not empty.
    #[error("the database is not empty: it holds {0}; use a new database")]
    NotEmpty(&'static str),
    /// The file is not an export, or was cut short or changed, or its records break rules.
    #[error(transparent)]
    Faulty(FileFaults),
    /// The file cannot be read or written.
    #[error("the file cannot be read or written")]
    Io(#[from] std::io::Error),
    /// The store failed.
    #[error("the database failed")]
    Store(#[from] StoreError),
}

/// The maximum number of faults that are listed. Further faults are only counted.
const LISTED_MAX: usize = 100;

/// The faults of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileFaults {
    /// The listed faults: the line and the text of each fault.
    listed: Vec<(u64, String)>,
    total: u64,
}

impl FileFaults {
    /// The first hundred faults that were found, in the order of their lines, such as
    /// `line 4: amount must be more than 0`. The faults contain no values of people's records.
    pub fn listed(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().map(|(_, fault)| fault.as_str())
    }

    /// The number of all faults.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Adds a fault of a line.
    pub(super) fn push(&mut self, line: u64, message: impl fmt::Display) {
        self.insert(line, format!("line {line}: {message}"));
    }

    /// Adds a fault of one of the lines from `first` to `last`, if it is not known which one.
    pub(super) fn push_one_of(&mut self, first: u64, last: u64, message: impl fmt::Display) {
        if first == last {
            self.push(first, message);
        } else {
            self.insert(first, format!("one of lines {first} to {last}: {message}"));
        }
    }

    fn insert(&mut self, line: u64, fault: String) {
        self.total += 1;
        if self.listed.len() < LISTED_MAX {
            let fault = (line, fault);
            let place = self.listed.partition_point(|other| *other <= fault);
            self.listed.insert(place, fault);
        }
    }
}

impl fmt::Display for FileFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = if self.total == 1 { "fault" } else { "faults" };
        write!(f, "the file has {} {faults}, and nothing of it was imported", self.total)?;
        self.listed().try_for_each(|fault| write!(f, "\n  {fault}"))?;
        match self.total - self.listed.len() as u64 {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for FileFaults {}
