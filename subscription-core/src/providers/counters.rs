//! Counts for a source (an account at a payment provider) since the start of the process, for metrics.

use std::collections::BTreeMap;

use crate::providers::EventStatus;
use crate::values::as_text::named_enum;

named_enum! {
    /// The outcome of a read from a provider's API.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FetchOutcome {
        /// The provider returned an object or a page.
        Ok = "ok",
        /// The provider has no object with the requested id.
        NotFound = "not_found",
        /// The provider is out of reach, too slow or limits the rate.
        Unavailable = "unavailable",
        /// The provider refuses the API key: an operator must look.
        KeyRefused = "key_refused",
        /// The response has an unexpected status or content.
        Unreadable = "unreadable",
    }
}

/// The counts of a source since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// How many times an event was received or its object was observed (read from the provider), by the status of the
    /// event afterwards.
    pub events: BTreeMap<EventStatus, u64>,
    /// Reads from the provider's API, by their outcome.
    pub fetches: BTreeMap<FetchOutcome, u64>,
    /// Webhooks whose signature was invalid.
    pub signatures_refused: u64,
    /// Webhooks of event types that this service does not use.
    pub unlisted: u64,
    /// How many times a subscription at the provider became a second live subscription of its user, although the
    /// service allows a user only one.
    pub second_live: u64,
    /// Objects that were linked to a record already and for which a sync found a change, although no event of the
    /// object was pending or waiting: no webhook had announced the change.
    pub drift: u64,
}
