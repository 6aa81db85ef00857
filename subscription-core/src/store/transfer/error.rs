//! Errors of exports and imports.

use std::fmt;

use super::{FORMAT, Kind, VERSION};
use crate::store::StoreError;

/// The reason why a store was not exported or a file not imported. After a refused import the store is
/// still empty.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The store into which the file should be imported is not empty.
    #[error("the store is not empty: it holds {0}")]
    NotEmpty(Kind),
    /// The file does not begin as an export does.
    #[error("this is no export: its first line does not name the format {FORMAT}")]
    NoExport,
    /// The file is of another version of the format.
    #[error("the file has version {0} of the format, and only version {VERSION} can be read")]
    Version(u64),
    /// Lines cannot be read, break a rule, or lead to records that are not there.
    #[error(transparent)]
    Faulty(FileFaults),
    /// The file ends too early.
    #[error("the file is cut short: it ends in or after line {0}, before its last line")]
    CutShort(u64),
    /// There are more or fewer lines than the last one tells.
    #[error("the file has {found} {kind} where {told} were written")]
    Miscounted {
        /// Of which kind.
        kind: Kind,
        /// How many the last line tells.
        told: u64,
        /// How many there are.
        found: u64,
    },
    /// The file's hash is not the one that it tells.
    #[error("the file is not as it was written: its SHA-256 differs")]
    Altered,
    /// The file cannot be read or written.
    #[error("the file cannot be read or written")]
    Io(#[from] std::io::Error),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// The number of faults that are listed; further ones are only counted.
const LISTED_MAX: usize = 100;

/// The faults of the lines of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileFaults {
    faults: Vec<LineFault>,
    more: u64,
}

/// A fault of one line, or of one among several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineFault {
    /// The line, from 1.
    pub first: u64,
    /// The last of several lines, if it is only known that it is one of them.
    pub last: u64,
    /// A sentence for a person. It holds no values of people's records.
    pub message: String,
}

impl FileFaults {
    /// The first hundred that were found, in the order of their lines.
    pub fn listed(&self) -> &[LineFault] {
        &self.faults
    }

    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.faults.len() as u64 + self.more
    }

    pub(super) fn push(&mut self, first: u64, last: u64, message: impl Into<String>) {
        if self.faults.len() < LISTED_MAX {
            let fault = LineFault { first, last, message: message.into() };
            let place = self.faults.partition_point(|other| *other <= fault);
            self.faults.insert(place, fault);
        } else {
            self.more += 1;
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }
}

impl fmt::Display for FileFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = if self.total() == 1 { "fault" } else { "faults" };
        write!(f, "the file has {} {faults}, and nothing of it was imported", self.total())?;
        for fault in &self.faults {
            write!(f, "\n  {fault}")?;
        }
        if self.more > 0 {
            write!(f, "\n  and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for FileFaults {}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, message } = self;
        if first == last {
            write!(f, "line {first}: {message}")
        } else {
            write!(f, "one of lines {first} to {last}: {message}")
        }
    }
}
