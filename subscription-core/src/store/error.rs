//! Errors of a store, divided by what the caller can do about them.

use super::record::Key;
use super::unique::Unique;
use crate::values::PlanId;

/// The reason why a store refused a call or failed. After every error except [`StoreError::Unavailable`], nothing was
/// written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The record no longer has the version that the change set was made for: read it again and decide again.
    #[error("{0} has changed meanwhile")]
    Conflict(Key),
    /// Another record has this value, which must be unique.
    #[error("another record has this {0}")]
    Taken(Unique),
    /// Subscriptions refer to the plan.
    #[error("plan {0} is in use")]
    PlanInUse(PlanId),
    /// The change set breaks the rules for change sets: an error in the calling code.
    #[error("the change set {0}")]
    BadChangeSet(BadChangeSet),
    /// Another program or transaction holds the record, so the store did not wait for it: try again later. Only
    /// [`commit_each`](super::Store::commit_each) returns this error.
    #[error("{0} is locked by another transaction")]
    Busy(Key),
    /// The store cannot be reached, or its response was lost: a commit may or may not have been applied.
    #[error("the database is unavailable")]
    Unavailable(#[source] Cause),
    /// The store has data that cannot be read, or returned a response that cannot be right.
    #[error("the database is damaged")]
    Damaged(#[source] Cause),
}

/// The underlying error, for example that of the database library.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The rule that a change set breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadChangeSet {
    /// A record is written or deleted more than once.
    #[error("names {0} twice")]
    NamedTwice(Key),
    /// A write or a delete has [`Version::NEW`](crate::Version::NEW), which no stored record has.
    #[error("writes {0} without a version")]
    NoVersion(Key),
    /// The set has more writes and deletes than one commit may have.
    #[error("has {0} writes and deletes: too many for one commit")]
    TooLarge(usize),
    /// The body of a document is longer than [`Document::BODY_BYTES_MAX`](super::Document::BODY_BYTES_MAX).
    #[error("writes {0}, whose body is too long for a document")]
    BodyTooLong(Key),
}
