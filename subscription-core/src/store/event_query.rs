//! Queries of the event feed.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use uuid::Uuid;

use super::query::PageLimit;
use crate::events::{Event, RecordedEvent, TypePattern};

/// The part of the event feed to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventQuery {
    /// The sequence after which the part begins; 0 is before the first event.
    pub after: u64,
    /// The largest number of events.
    pub limit: PageLimit,
    /// The id of the record whose events are read; `None` for the events of all records.
    pub subject: Option<Uuid>,
    /// The types of the events that are read; all types if the list is empty.
    pub types: Vec<TypePattern>,
}

impl EventQuery {
    /// The largest number of events that one read looks at.
    pub const SCANNED_MAX: usize = 2_000;

    /// Up to `limit` events whose sequence is above `after`. A query with an `after` beyond the newest event asks for the
    /// end of the feed: [`EventPage::last`] is then at least the sequence of every event that was committed before the
    /// call.
    pub const fn after(after: u64, limit: PageLimit) -> Self {
        Self { after, limit, subject: None, types: Vec::new() }
    }

    /// True if the event is about the requested record, and its type is one of the requested types.
    pub fn admits(&self, event: &Event) -> bool {
        (self.subject.is_none() || event.subject.uuid() == self.subject)
            && (self.types.is_empty() || self.types.iter().any(|types| types.admits(event)))
    }
}

crate::with_fields! {
    EventQuery {
        with_after(u64) => after,
        with_limit(PageLimit) => limit,
        with_subject(impl Into<Option<Uuid>>) => subject,
        with_types(impl Into<Vec<TypePattern>>) => types,
    }
}

/// A page of the event feed, oldest events first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventPage {
    /// The events.
    pub items: Vec<RecordedEvent>,
    /// The sequence up to which the feed was read. The next page begins after this sequence, even if this page is
    /// empty.
    pub reached: u64,
    /// The sequence after that of the last deleted event: every event from it on is stored. The first stored event may
    /// have a greater sequence, because the numbers may have gaps.
    pub first_kept: u64,
    /// The sequence of the newest event, even if that event is deleted; 0 if there never was an event.
    pub last: u64,
}

impl EventPage {
    /// Selects the events of a page.
    ///
    /// `following` has the events after [`EventQuery::after`] in order; if the query has a subject, events of other
    /// records may be missing. If `following` ends before the page is full, it must have all other events up to
    /// [`last`](Self::last). `kept` is the range from [`first_kept`](Self::first_kept) to [`last`](Self::last).
    pub fn select<'e>(
        query: &EventQuery,
        following: impl IntoIterator<Item = (u64, Cow<'e, Event>)>,
        kept: RangeInclusive<u64>,
    ) -> Self {
        let (first_kept, last) = kept.into_inner();
        let mut page = Self { items: Vec::new(), reached: query.after, first_kept, last };
        let mut scanned = 0;
        for (sequence, event) in following {
            scanned += 1;
            page.reached = sequence;
            page.last = page.last.max(sequence);
            if query.admits(&event) {
                page.items.push(RecordedEvent { sequence, event: event.into_owned() });
            }
            if page.items.len() == query.limit.get() || scanned == EventQuery::SCANNED_MAX {
                return page;
            }
        }
        page.reached = page.reached.max(page.last);
        page
    }
}
