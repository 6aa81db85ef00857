//! Counts of a source since the start of the process, for metrics.

use std::collections::BTreeMap;

use crate::providers::EventStatus;
use crate::values::as_text::named_enum;

named_enum! {
    /// The outcome of a read from a provider's API.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FetchOutcome {
        /// It returned an object or a page.
        Ok = "ok",
        /// There is no such object.
        NotFound = "not_found",
        /// The provider is out of reach, too slow or limits the rate.
        Unavailable = "unavailable",
        /// The API key is refused: an operator must look.
        KeyRefused = "key_refused",
        /// The response cannot be read.
        Unreadable = "unreadable",
    }
}

/// The counts of a source since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Webhooks that were received or tried, by their state afterwards.
    pub events: BTreeMap<EventStatus, u64>,
    /// Reads from the provider's API.
    pub fetches: BTreeMap<FetchOutcome, u64>,
    /// Webhooks whose signature did not fit.
    pub signatures_refused: u64,
    /// Webhooks of types that are not followed.
    pub unlisted: u64,
    /// Observations that made a second live subscription of a user who may have one.
    pub second_live: u64,
    /// Differences that a sync found in a linked object without an open event.
    pub drift: u64,
}
