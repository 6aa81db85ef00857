//! Endpoints, tries and parked events, as they are shown to callers. They contain no secrets.

use std::cmp::min;

use serde::Serialize;

use crate::error::Error;
use crate::events::{RecordedEvent, TypePattern};
use crate::store::{
    DamagedRecord, Document, DocumentFilter, DocumentQuery, EventPage, EventQuery, Key, Page,
    PageLimit, Position, SortKey, StoreError, StoreExt as _, Stored,
};
use crate::values::{Timestamp, Version};
use crate::webhooks::documents::{ENDPOINTS, Loaded, PARKED};
use crate::webhooks::{
    Attempt, Delivery, DisabledReason, Endpoint, EndpointId, Parked, ParkedState, StallReason,
    Webhooks,
};

/// An endpoint and the state of its deliveries, as they are shown to callers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShownEndpoint {
    /// The id of the endpoint.
    pub id: EndpointId,
    /// The URL.
    pub url: Box<str>,
    /// A text for people.
    pub description: Box<str>,
    /// The patterns of the event types that are sent to the endpoint.
    pub types: Vec<TypePattern>,
    /// True if events are sent to the endpoint.
    pub enabled: bool,
    /// Why the endpoint is disabled; `None` if it is enabled.
    pub disabled_reason: Option<DisabledReason>,
    /// When the endpoint was disabled; `None` if it is enabled.
    pub disabled_at: Option<Timestamp>,
    /// Until when the previous secret signs beside the current secret; `None` if only the current secret signs.
    pub previous_secret_until: Option<Timestamp>,
    /// Every event up to this sequence was delivered, was parked (stored, to be sent later), or is of a type that the
    /// endpoint does not want.
    pub cursor: u64,
    /// The number of sequences from the cursor to the newest event.
    pub behind: u64,
    /// When the endpoint was stalled; `None` if it is not stalled.
    pub stalled_since: Option<Timestamp>,
    /// Why the endpoint is stalled; `None` if it is not stalled.
    pub stall_reason: Option<StallReason>,
    /// When a failed event is tried next; `None` if no such try is planned.
    pub next_attempt_at: Option<Timestamp>,
    /// The number of parked events that will be tried again. Given-up events are not counted.
    pub parked: usize,
    /// The number of given-up events that are listed.
    pub given_up: usize,
    /// When the present series of failed tries began; `None` if there is none.
    pub failing_since: Option<Timestamp>,
    /// When the last success happened: a delivery, or a ping that ended a stall. `None` if there was none.
    pub last_success_at: Option<Timestamp>,
    /// The sequence of the last event that was deleted before it could be delivered; `None` if there is none.
    pub missed_up_to: Option<u64>,
    /// When the endpoint was created.
    pub created_at: Timestamp,
    /// When the endpoint was changed last.
    pub updated_at: Timestamp,
    /// The version of the endpoint: 1 when it is created, and 1 more with each write.
    pub version: Version,
    /// The last tries, the newest first; `None` in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent: Option<Vec<ShownAttempt>>,
}

/// A try, as it is shown to callers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShownAttempt {
    /// When the try ended.
    pub at: Timestamp,
    /// The sequence of the event.
    pub sequence: u64,
    /// The type of the event.
    #[serde(rename = "type")]
    pub event_type: Box<str>,
    /// The number of tries of the event so far, including this one.
    pub attempt: u32,
    /// The name of the outcome, such as `delivered` or `timed_out`.
    pub outcome: &'static str,
    /// The status of the response; `None` if there was no response.
    pub status: Option<u16>,
    /// How long the try took, in milliseconds.
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

/// A parked event, as it is listed for callers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListedParked {
    /// The event. It is not serialized, because not every caller may read it.
    #[serde(skip)]
    pub event: RecordedEvent,
    /// The state of the parked event.
    pub state: ParkedState,
    /// The number of tries so far. A resend sets it to 0.
    pub attempts: u32,
    /// When the event first failed; `None` if it has not failed.
    pub first_failed_at: Option<Timestamp>,
    /// When the event is tried next; `None` if it waits behind another event or was given up.
    pub next_attempt_at: Option<Timestamp>,
    /// The last try of the event; `None` if it was never tried.
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
    /// The endpoint with this id, including its last tries.
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
        let Page { items: documents, next, mut damaged } = page;
        let mut items = Vec::new();
        for endpoint in Stored::<Endpoint>::readable(&documents, &mut damaged) {
            let key = Endpoint::key(endpoint.body.id)?;
            match self.listed(endpoint, last).await {
                Ok(listed) => items.extend(listed),
                Err(StoreError::Damaged(cause)) => {
                    damaged.push(DamagedRecord::of(&Key::Document(key), cause));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Page { items, next, damaged })
    }

    /// An endpoint in a list; `None` if it was deleted after the page was read.
    async fn listed(
        &self,
        endpoint: Stored<Endpoint>,
        last: u64,
    ) -> Result<Option<ShownEndpoint>, StoreError> {
        let id = endpoint.body.id;
        let Some(delivery) = Stored::load(self.store(), &Delivery::key(id)?).await? else {
            return Ok(None);
        };
        let parked = self.parked_of(id).await?;
        Ok(Some(self.shown(&Loaded { endpoint, delivery }, &parked, last)))
    }

    /// A page of the parked events of an endpoint, in the order of the feed. Given-up events are included.
    pub async fn parked(
        &self,
        id: EndpointId,
        after: Option<Position>,
        limit: PageLimit,
    ) -> Result<Page<ListedParked>, Error> {
        self.load(id).await?;
        let query = DocumentQuery::new(PARKED, DocumentFilter::Owner(id.uuid()));
        let page = self.documents(query, after, limit).await?;
        let Page { items, next, mut damaged } = page;
        let items = Stored::<Parked>::readable(&items, &mut damaged);
        Ok(Page { items: items.into_iter().map(ListedParked::from).collect(), next, damaged })
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
        Ok(self.store().readable_as::<Document>(query.with_after(after).with_limit(limit)).await?)
    }

    /// The endpoint as it is shown to callers, including its last tries.
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

    /// The first and the last sequence of the feed, without events.
    pub(crate) async fn feed(&self) -> Result<EventPage, Error> {
        // There is no event after this sequence.
        let nothing = EventQuery::after(i64::MAX.unsigned_abs(), PageLimit::MAX);
        self.service.event_page(&nothing).await
    }
}
