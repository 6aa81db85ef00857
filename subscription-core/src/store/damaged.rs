//! Records that cannot be read.

use std::fmt;

/// A stored record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DamagedRecord {
    /// The kind of record, such as `subscription`.
    pub kind: &'static str,
    /// The id of the record. That of a document is preceded by its collection. The id is empty if it cannot be read
    /// either, and for an idempotency record, whose key must not be logged.
    pub id: String,
    /// Why the record cannot be read.
    pub cause: String,
}

impl fmt::Display for DamagedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} cannot be read: {}", self.kind, self.id, self.cause)
    }
}
