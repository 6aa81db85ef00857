//! Lists of events and other documents, and the overview of the sources.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::documents::{EVENTS, ProviderEvent, link_uuid};
use super::status::{EventState, EventStatus, Reason};
use crate::error::Error;
use crate::providers::{ObjectId, ObjectKind, ObjectRef, ProviderKind, Providers, SyncReport};
use crate::service::found;
use crate::store::{
    Collection, Document, DocumentFilter, DocumentId, DocumentKey, DocumentQuery, Page, PageLimit,
    Position, SortKey, StoreError, StoreExt as _, Stored,
};
use crate::values::{Slug, Timestamp};

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
    /// The id of the event in this service.
    pub id: DocumentId,
    /// The event.
    #[serde(flatten)]
    pub event: ProviderEvent,
    /// When the event is tried next; `None` if it is not tried again.
    pub next_attempt_at: Option<Timestamp>,
}

/// A source as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SourceOverview {
    /// The name of the source.
    pub source: Slug,
    /// The kind of the provider.
    pub kind: ProviderKind,
    /// True if the live data of the source is followed, false if its test data is followed.
    pub live: bool,
    /// When the last event of the source was received.
    pub last_event_at: Option<Timestamp>,
    /// The number of events of the source by status. For each status, the events of all sources together are counted
    /// only up to about [`SourceOverview::COUNT_MAX`], so with more events the number is too low.
    #[serde(serialize_with = "as_list")]
    pub events: BTreeMap<EventStatus, usize>,
    /// The last sync that ended.
    pub last_sync: Option<SyncReport>,
    /// The sync that is running.
    pub running_sync: Option<SyncReport>,
}

/// Writes the numbers of events as a list, each with its status.
fn as_list<S: Serializer>(events: &BTreeMap<EventStatus, usize>, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Counted<'a> {
        #[serde(flatten)]
        status: &'a EventStatus,
        count: &'a usize,
    }
    to.collect_seq(events.iter().map(|(status, count)| Counted { status, count }))
}

impl SourceOverview {
    /// The number of events of one status, over all sources, at which counting stops.
    pub const COUNT_MAX: usize = 10_000;
}

/// A page ends when this number of documents has been read, even if it has fewer items than its limit.
const SCANNED_MAX: usize = 2_000;

impl Providers {
    /// For each source: when its last event was received, the number of its events by status, its last sync and its
    /// running sync.
    pub async fn overview(&self) -> Result<Vec<SourceOverview>, Error> {
        self.overview_of(&EventState::ALL).await
    }

    /// Like [`overview`](Self::overview), but only the events in these states are counted.
    pub async fn overview_of(&self, states: &[EventState]) -> Result<Vec<SourceOverview>, Error> {
        let mut counts: BTreeMap<Slug, BTreeMap<EventStatus, usize>> = BTreeMap::new();
        for status in EventStatus::all().filter(|status| states.contains(&status.state)) {
            let Some(label) = status.label() else { continue };
            let query = DocumentQuery::new(EVENTS, DocumentFilter::Label(label));
            let mut query = query.with_limit(PageLimit::MAX);
            let mut counted = 0;
            loop {
                let page = self.store().readable_as::<Document>(query.clone()).await?;
                for event in Stored::<ProviderEvent>::readable(&page.items, &mut Vec::new()) {
                    *counts.entry(event.body.source).or_default().entry(status).or_default() += 1;
                }
                counted += page.items.len();
                query.after = page.next.filter(|_| counted < SourceOverview::COUNT_MAX);
                if query.after.is_none() {
                    break;
                }
            }
        }
        let mut overview = Vec::new();
        for source in self.sources() {
            let progress = self.progress(&source.name).await?;
            let progress = progress.map(|stored| stored.body).unwrap_or_default();
            overview.push(SourceOverview {
                source: source.name.clone(),
                kind: source.kind,
                live: source.live,
                last_event_at: progress.last_event_at,
                events: counts.remove(&source.name).unwrap_or_default(),
                last_sync: progress.last,
                running_sync: progress.run.map(|run| run.report),
            });
        }
        Ok(overview)
    }

    /// A page of events. The page may have fewer events than the limit, even if more follow.
    pub async fn events(
        &self,
        filter: &EventFilter,
        after: Option<Position>,
        limit: PageLimit,
    ) -> Result<Page<ListedEvent>, Error> {
        let read = |document: &Document| {
            let listed = ListedEvent::read(document)?;
            Ok(Some(listed).filter(|listed| filter.admits(&listed.event)))
        };
        self.page(EVENTS, &self.indexes(filter), after, limit, read).await
    }

    /// A page of the documents for which `read` returns an item. The filters in `lists` must together select all these
    /// documents. The page may have fewer items than the limit, even if more follow.
    pub(crate) async fn page<T: Send>(
        &self,
        collection: Collection,
        lists: &[DocumentFilter],
        mut after: Option<Position>,
        limit: PageLimit,
        read: impl Fn(&Document) -> Result<Option<T>, StoreError> + Send + Sync,
    ) -> Result<Page<T>, Error> {
        if after.as_ref().is_some_and(|after| !matches!(after.key, SortKey::Document { .. })) {
            return Err(Error::WrongPosition);
        }
        let mut items = Vec::new();
        let mut damaged = Vec::new();
        let mut scanned = 0;
        loop {
            let page = self.scan(&collection, lists, after, limit).await?;
            scanned += page.items.len();
            damaged.extend(page.damaged);
            for document in page.items {
                match read(&document) {
                    Ok(item) => items.extend(item),
                    Err(error @ StoreError::Damaged(_)) => damaged.push(document.damaged(&error)),
                    Err(error) => return Err(error.into()),
                }
                if items.len() == limit.get() {
                    let query = DocumentQuery::new(collection, DocumentFilter::All);
                    let next = query.position(&document);
                    return Ok(Page { items, next: Some(next), damaged });
                }
            }
            after = page.next;
            if after.is_none() || scanned >= SCANNED_MAX {
                return Ok(Page { items, next: after, damaged });
            }
        }
    }

    /// A page of the documents of several lists, merged by id.
    async fn scan(
        &self,
        collection: &Collection,
        lists: &[DocumentFilter],
        after: Option<Position>,
        limit: PageLimit,
    ) -> Result<Page<Arc<Document>>, Error> {
        let mut items = Vec::new();
        let mut damaged = Vec::new();
        let mut ends = Vec::new();
        for list in lists {
            let query = DocumentQuery::new(collection.clone(), list.clone());
            let query = query.with_after(after.clone()).with_limit(limit);
            let page = self.store().readable_as::<Document>(query).await?;
            items.extend(page.items);
            ends.extend(page.next);
            damaged.extend(page.damaged);
        }
        items.sort_by(|a, b| a.key.id.cmp(&b.key.id));
        // Each list has given one page, and the page that ends first limits the result. Documents after its end are
        // left out, because the list of that page may have more documents before them.
        let end = ends.into_iter().min();
        let query = DocumentQuery::new(collection.clone(), DocumentFilter::All);
        items.retain(|document| end.as_ref().is_none_or(|end| query.position(document) <= *end));
        Ok(Page { items, next: end, damaged })
    }

    /// The document filters that together select at least all events that `filter` admits.
    fn indexes(&self, filter: &EventFilter) -> Vec<DocumentFilter> {
        const KINDS: [ObjectKind; 3] =
            [ObjectKind::Subscription, ObjectKind::Invoice, ObjectKind::Order];
        if let Some(id) = &filter.object {
            let refs = KINDS.map(|kind| ObjectRef { kind, id: id.clone() });
            let sources = self.sources().map(|source| &source.name);
            let links = sources.flat_map(|name| refs.iter().map(|object| link_uuid(name, object)));
            return links.map(DocumentFilter::Owner).collect();
        }
        if (filter.state, filter.reason) == (None, None) {
            return vec![DocumentFilter::All];
        }
        let statuses = EventStatus::all().filter(|status| filter.has_status(*status));
        statuses.filter_map(EventStatus::label).map(DocumentFilter::Label).collect()
    }

    /// The event with this id.
    pub async fn event(&self, id: &DocumentId) -> Result<ListedEvent, Error> {
        let key = DocumentKey { collection: EVENTS, id: id.clone() };
        let document = found(self.store().get_as::<Document>(&key).await, "event", id)?;
        Ok(ListedEvent::read(&document)?)
    }
}

impl ListedEvent {
    fn read(document: &Document) -> Result<Self, StoreError> {
        let Stored { body, due_at, .. } = Stored::<ProviderEvent>::read(document)?;
        let next_attempt_at = due_at.filter(|_| body.status().is_open());
        Ok(Self { id: document.key.id.clone(), event: body, next_attempt_at })
    }
}

impl EventFilter {
    fn has_status(&self, status: EventStatus) -> bool {
        self.state.is_none_or(|state| status.state == state)
            && self.reason.is_none_or(|reason| status.reason == Some(reason))
    }

    fn admits(&self, event: &ProviderEvent) -> bool {
        self.has_status(event.status())
            && self.source.as_ref().is_none_or(|source| event.source == *source)
            && self
                .object
                .as_ref()
                .is_none_or(|id| event.resolved.as_ref().is_some_and(|resolved| resolved.id == *id))
    }
}
