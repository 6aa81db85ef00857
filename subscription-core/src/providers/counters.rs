//! Counts of a source since the start of the process, for metrics.

use std::collections::BTreeMap;

use crate::providers::EventStatus;
use crate::values::as_text::named_enum;

named_enum! {
    /// The outcome of a read from a provider's API.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FetchOutcome {
        /// The provider returned an object or a page.
        Ok = "ok",
        /// There is no such object.
        NotFound = "not_found",
        /// The provider is out of reach, too slow or limits the rate.
        Unavailable = "unavailable",
        /// The provider refuses the API key: an operator must look.
        KeyRefused = "key_refused",
        /// The response cannot be read.
        Unreadable = "unreadable",
    }
}

/// The counts of a source since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// How many times an event was received or its object was observed, by the status of the event afterwards.
    pub events: BTreeMap<EventStatus, u64>,
    /// Reads from the provider's API, by their outcome.
    pub fetches: BTreeMap<FetchOutcome, u64>,
    /// Webhooks whose signature was invalid.
    pub signatures_refused: u64,
    /// Webhooks of types that are not followed.
    pub unlisted: u64,
    /// Observations after which a user has a second live subscription, although the service allows a user only one.
    pub second_live: u64,
    /// Linked objects for which a sync found a change while no event of the object was open.
    pub drift: u64,
}
