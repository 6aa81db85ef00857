//! Endpoints, tries and parked events, as they are shown. None of it is a secret.

use std::cmp::min;

use serde::Serialize;

use crate::error::Error;
use crate::events::{RecordedEvent, TypePattern};
use crate::store::{
    Document, DocumentFilter, DocumentQuery, EventPage, EventQuery, Page, PageLimit, Position,
    SortKey, StoreExt as _, Stored,
};
use crate::values::{Timestamp, Version};
use crate::webhooks::documents::{ENDPOINTS, Loaded, PARKED};
use crate::webhooks::{
    Attempt, Delivery, DisabledReason, Endpoint, EndpointId, Parked, ParkedState, StallReason,
    Webhooks,
};

/// An endpoint and the state of its deliveries, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShownEndpoint {
    /// Its id.
    pub id: EndpointId,
    /// The URL.
    pub url: Box<str>,
    /// A text for people.
    pub description: Box<str>,
    /// The types of the events that it is sent.
    pub types: Vec<TypePattern>,
    /// True if it is sent events.
    pub enabled: bool,
    /// Why it is disabled.
    pub disabled_reason: Option<DisabledReason>,
    /// Since when it is disabled.
    pub disabled_at: Option<Timestamp>,
    /// Until when the secret before the last rotation signs too.
    pub previous_secret_until: Option<Timestamp>,
    /// The sequence up to which every event was delivered, parked or not wanted.
    pub cursor: u64,
    /// The number of sequences from there to the newest event.
    pub behind: u64,
    /// Since when it fails as a whole.
    pub stalled_since: Option<Timestamp>,
    /// Why it is stalled.
    pub stall_reason: Option<StallReason>,
    /// The next try of an event that failed.
    pub next_attempt_at: Option<Timestamp>,
    /// The number of parked events that will be tried.
    pub parked: usize,
    /// The number of events that were given up.
    pub given_up: usize,
    /// The first failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// The last success.
    pub last_success_at: Option<Timestamp>,
    /// The sequence up to which events were deleted before they were delivered.
    pub missed_up_to: Option<u64>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// The number of times that it was written.
    pub version: Version,
    /// The last tries, the newest first; in lists they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent: Option<Vec<ShownAttempt>>,
}

/// A try, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShownAttempt {
    /// When it ended.
    pub at: Timestamp,
    /// The sequence of the event.
    pub sequence: u64,
    /// The type of the event.
    #[serde(rename = "type")]
    pub event_type: Box<str>,
    /// The number of tries of the event, with this one.
    pub attempt: u32,
    /// The name of the outcome.
    pub outcome: &'static str,
    /// The status of the response.
    pub status: Option<u16>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl From<&Attempt> for ShownAttempt {
    fn from(attempt: &Attempt) -> Self {
        Self {
            at: attempt.at,
            sequence: attempt.sequence,
            event_type: attempt.event_type.clone(),
            attempt: attempt.attempt,
            outcome: attempt.outcome.name(),
            status: attempt.outcome.status(),
            duration_ms: attempt.duration_ms,
        }
    }
}

/// A parked event, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedParked {
    /// The event.
    pub event: RecordedEvent,
    /// Its state.
    pub state: ParkedState,
    /// The number of tries.
    pub attempts: u32,
    /// The first failure; `None` if it was never tried.
    pub first_failed_at: Option<Timestamp>,
    /// The next try; `None` if it is behind another or was given up.
    pub next_attempt_at: Option<Timestamp>,
    /// The last try.
    pub last: Option<ShownAttempt>,
}

impl From<Stored<Parked>> for ListedParked {
    fn from(Stored { body, due_at, .. }: Stored<Parked>) -> Self {
        Self {
            next_attempt_at: due_at.filter(|_| body.state == ParkedState::Waiting),
            event: body.event,
            state: body.state,
            attempts: body.attempts,
            first_failed_at: body.first_failed_at,
            last: body.last.as_ref().map(ShownAttempt::from),
        }
    }
}

impl Webhooks {
    /// The endpoint of an id, with its last tries.
    pub async fn get(&self, id: EndpointId) -> Result<ShownEndpoint, Error> {
        let loaded = self.load(id).await?;
        self.show(loaded).await
    }

    /// A page of endpoints in the order of their ids, without their last tries.
    pub async fn list(
        &self,
        after: Option<Position>,
        limit: PageLimit,
    ) -> Result<Page<ShownEndpoint>, Error> {
        let page = self.documents(DocumentQuery::new(ENDPOINTS, DocumentFilter::All), after, limit);
        let page = page.await?;
        let last = self.feed().await?.last;
        let mut items = Vec::new();
        for document in &page.items {
            let endpoint: Stored<Endpoint> = Stored::read(document)?;
            let id = endpoint.body.id;
            // Without it, the endpoint was deleted since the page was read.
            if let Some(delivery) = Stored::load(self.store(), &Delivery::key(id)?).await? {
                let parked = self.parked_of(id).await?;
                items.push(self.shown(&Loaded { endpoint, delivery }, &parked, last));
            }
        }
        Ok(Page { items, next: page.next })
    }

    /// A page of the events of an endpoint that are parked, in the order of the feed.
    pub async fn parked(
        &self,
        id: EndpointId,
        after: Option<Position>,
        limit: PageLimit,
    ) -> Result<Page<ListedParked>, Error> {
        self.load(id).await?;
        let query = DocumentQuery::new(PARKED, DocumentFilter::Owner(id.uuid()));
        let page = self.documents(query, after, limit).await?;
        let read = |document: &_| Stored::read(document).map(ListedParked::from);
        let items = page.items.iter().map(|document| read(document)).collect::<Result<_, _>>()?;
        Ok(Page { items, next: page.next })
    }

    async fn documents(
        &self,
        query: DocumentQuery,
        after: Option<Position>,
        limit: PageLimit,
    ) -> Result<Page<std::sync::Arc<Document>>, Error> {
        if after.as_ref().is_some_and(|after| !matches!(after.key, SortKey::Document { .. })) {
            return Err(Error::WrongPosition);
        }
        Ok(self.store().list_as::<Document>(query.with_after(after).with_limit(limit)).await?)
    }

    /// Shows an endpoint with its last tries.
    pub(crate) async fn show(&self, loaded: Loaded) -> Result<ShownEndpoint, Error> {
        let parked = self.parked_of(loaded.endpoint.body.id).await?;
        let mut shown = self.shown(&loaded, &parked, self.feed().await?.last);
        let recent = loaded.delivery.body.recent.iter().map(ShownAttempt::from);
        shown.recent = Some(recent.collect());
        Ok(shown)
    }

    fn shown(&self, loaded: &Loaded, parked: &[Stored<Parked>], last: u64) -> ShownEndpoint {
        let Loaded { endpoint: Stored { body: endpoint, version, .. }, delivery } = loaded;
        let delivery = &delivery.body;
        let waiting = parked.iter().filter(|it| it.body.state == ParkedState::Waiting);
        let given_up = parked.iter().filter(|it| it.body.state == ParkedState::GivenUp).count();
        let previous = endpoint.secret.previous.map(|previous| previous.until);
        let stall = delivery.stall.as_ref();
        let next = stall.map(|stall| stall.next_at).or(waiting.filter_map(|it| it.due_at).min());
        ShownEndpoint {
            id: endpoint.id,
            url: endpoint.url.clone(),
            description: endpoint.description.clone(),
            types: endpoint.types.clone(),
            enabled: endpoint.is_enabled(),
            disabled_reason: endpoint.disabled.map(|disabled| disabled.reason),
            disabled_at: endpoint.disabled.map(|disabled| disabled.at),
            previous_secret_until: previous.filter(|until| *until > self.now()),
            cursor: delivery.cursor,
            behind: last.saturating_sub(delivery.cursor),
            stalled_since: stall.map(|stall| stall.since),
            stall_reason: stall.map(|stall| stall.reason),
            next_attempt_at: next.filter(|_| endpoint.is_enabled()),
            parked: parked.len() - min(given_up, parked.len()),
            given_up,
            failing_since: delivery.failing_since,
            last_success_at: delivery.last_success_at,
            missed_up_to: delivery.missed_up_to,
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
            version: *version,
            recent: None,
        }
    }

    /// The bounds of the feed.
    pub(crate) async fn feed(&self) -> Result<EventPage, Error> {
        // There is no event after this sequence.
        let nothing = EventQuery::after(i64::MAX.unsigned_abs(), PageLimit::MAX);
        self.service.event_page(&nothing).await
    }
}
