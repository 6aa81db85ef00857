//! Why a move was not made.

use super::{FORMAT, Kind, VERSION};
use crate::store::{Source, StoreError};

/// Why a store was not exported, or a file not imported. After a refused import the store is as empty as
/// it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The store that should take the file holds something.
    #[error("the store is not empty: it holds {0}")]
    NotEmpty(Kind),
    /// The file does not begin as an export does.
    #[error("this is no export: its first line does not name the format {FORMAT}")]
    NoExport,
    /// The file is of another version of the format.
    #[error("the file has version {0} of the format, and only version {VERSION} can be read")]
    Version(u64),
    /// A line cannot be read.
    #[error("line {number} cannot be read")]
    Line {
        /// Which line, from 1.
        number: u64,
        /// What is wrong with it.
        source: Source,
    },
    /// Lines can be read, but the store does not take them: two records have one key, or one value of
    /// what is unique.
    #[error("something in lines {first} to {last} is not taken by the store")]
    Refused {
        /// The first line that was to be written.
        first: u64,
        /// The last line that was to be written with it.
        last: u64,
        /// What the store said.
        source: Source,
    },
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
