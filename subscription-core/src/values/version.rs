//! The version of a record: the number of times that it was written.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a record's writes: 1 for a new record, one more with each write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(u64);

impl Version {
    /// The version before the first: there is no record yet.
    pub const NEW: Self = Self(0);
    /// The version of a record that was written once.
    pub const FIRST: Self = Self(1);

    /// The version as a plain integer.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The version of the next write.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The version that the record had before the write that gave it this version; [`Version::NEW`] if there was no
    /// record.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl From<u64> for Version {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
