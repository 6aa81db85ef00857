//! The state of a subscription at its provider.

use crate::values::clock::Timestamp;

/// The next renewal of a subscription at its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// At this moment.
    At(Timestamp),
    /// There is none.
    None,
    /// The renewal that our record has; none if the record is new.
    Kept,
}
