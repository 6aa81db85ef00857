//! The documents that webhooks store: endpoints, the state of their deliveries, parked events, and creation requests.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Error;
use crate::events::{RecordedEvent, TypePattern};
use crate::store::{
    Collection, Document, DocumentKey, Idempotency, StoreError, Stored, document_key,
};
use crate::values::as_text::named_enum;
use crate::values::id::id_types;
use crate::values::{Timestamp, Version};
use crate::webhooks::DeliveryResult;

pub(super) const ENDPOINTS: Collection = Collection::named("webhook_endpoint");
pub(super) const DELIVERIES: Collection = Collection::named("webhook_delivery");
pub(super) const PARKED: Collection = Collection::named("webhook_parked");
pub(super) const REQUESTS: Collection = Collection::named("webhook_request");

id_types! {
    /// The id of an [`Endpoint`].
    EndpointId;
}

/// An endpoint: a URL to which events are sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Endpoint {
    /// The id of the endpoint.
    pub id: EndpointId,
    /// The URL.
    pub url: Box<str>,
    /// A text for people: up to 200 characters.
    pub description: Box<str>,
    /// The patterns of the event types that are sent to the endpoint: 1 to 50.
    pub types: Vec<TypePattern>,
    /// Why and since when no events are sent to the endpoint; `None` if it is enabled.
    pub disabled: Option<Disabled>,
    /// The values from which the secrets of the endpoint are derived with a server key.
    pub secret: SecretState,
    /// When the endpoint was created.
    pub created_at: Timestamp,
    /// When the endpoint was changed last.
    pub updated_at: Timestamp,
}

/// A request that created an endpoint under an idempotency key. The stored request is deleted with the endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CreationRequest {
    pub(super) endpoint: EndpointId,
    /// A hash of the input of the request. A later request with the same key and another input is refused.
    pub(super) fingerprint: [u8; 32],
}

/// The namespace of the UUIDs that are made from idempotency keys.
const REQUESTS_NAMESPACE: Uuid = Uuid::from_u128(0x7c1d_2f3a_90b6_5e4d_8a17_55d0_3ee9_46c2);

impl CreationRequest {
    pub(super) fn key(idempotency: &Idempotency) -> Result<DocumentKey, StoreError> {
        let Idempotency { client, key: token } = idempotency;
        let name = format!("{client} {}", token.as_str());
        let id = Uuid::new_v5(&REQUESTS_NAMESPACE, name.as_bytes());
        document_key(REQUESTS, id)
    }

    pub(super) fn document(&self, key: DocumentKey) -> Result<Document, Error> {
        let document = Document::with_body(key, Version::FIRST, self)?;
        Ok(Document { owner: Some(self.endpoint.uuid()), ..document })
    }
}

/// Why and since when an endpoint is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disabled {
    /// The reason.
    pub reason: DisabledReason,
    /// When the endpoint was disabled.
    pub at: Timestamp,
}

named_enum! {
    /// The reason why an endpoint is disabled.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum DisabledReason {
        /// A caller disabled the endpoint.
        ByCaller = "by_caller",
        /// The endpoint returned the status 410 (Gone).
        Gone = "gone",
        /// All tries have failed for five days.
        Failing = "failing",
        /// The server key from which the endpoint's secret is derived is missing, or was replaced by another key.
        KeyMissing = "key_missing",
        /// The endpoint was imported, and no caller has enabled it since.
        Imported = "imported",
    }
}

/// The values from which the secrets of an endpoint are derived with a server key. None of these values is itself a
/// secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretState {
    /// The number of the server key.
    pub key_id: u8,
    /// A random value, made when the endpoint was created.
    pub salt: [u8; 16],
    /// The number of the current secret: 1 at first, and 1 more with each rotation.
    pub generation: u32,
    /// The first 8 bytes of a hash of the secret. They differ if the secret is derived with another server key.
    pub check: [u8; 8],
    /// The secret before the last rotation, which signs until [`PreviousSecret::until`]; `None` if there is no such
    /// secret.
    pub previous: Option<PreviousSecret>,
}

/// A secret that was replaced. It signs beside the new one until a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    /// The number of the server key from which the secret is derived.
    pub key_id: u8,
    /// The number of the secret, counted from 1.
    pub generation: u32,
    /// When the previous secret stops signing.
    pub until: Timestamp,
}

impl Endpoint {
    /// True if events are sent to the endpoint.
    pub const fn is_enabled(&self) -> bool {
        self.disabled.is_none()
    }

    pub(super) fn key(id: EndpointId) -> Result<DocumentKey, StoreError> {
        document_key(ENDPOINTS, id)
    }

    /// The document that stores this endpoint. Its version is the one after `before`, the version that was read.
    pub(super) fn document(&self, before: Version) -> Result<Document, Error> {
        let label = if self.is_enabled() { "enabled" } else { "disabled" };
        let document = Document::with_body(Self::key(self.id)?, before.next(), self)?;
        Ok(Document { label: label.parse().ok(), ..document })
    }
}

/// The state of the deliveries to an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// Every event up to this sequence was delivered, was parked (stored, to be sent later), or is of a type that the
    /// endpoint does not want.
    pub cursor: u64,
    /// The state of the stall; `None` if the endpoint is not stalled.
    pub stall: Option<Stall>,
    /// When the present series of failed tries began; `None` if there is none.
    pub failing_since: Option<Timestamp>,
    /// When the last success happened: a delivery, or a ping that ended a stall. `None` if there was none.
    pub last_success_at: Option<Timestamp>,
    /// The sequence of the last event that was deleted before it could be delivered; `None` if there is none.
    pub missed_up_to: Option<u64>,
    /// The last tries, the newest first: at most [`Delivery::RECENT_MAX`].
    pub recent: VecDeque<Attempt>,
}

/// The state of a stalled endpoint, which is sent one event at a time, as a probe. If the reason is
/// [`StallReason::ParkedFull`], parked events that are due are tried as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// When the stall began.
    pub since: Timestamp,
    /// The reason.
    pub reason: StallReason,
    /// The number of probes that have failed since the stall began.
    pub probes: u32,
    /// When the next probe is due.
    pub next_at: Timestamp,
}

named_enum! {
    /// The reason why an endpoint is stalled.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum StallReason {
        /// Several events failed, one after the other, without a success between them.
        Failing = "failing",
        /// The endpoint has the maximum number of parked events.
        ParkedFull = "parked_full",
    }
}

/// A try that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When the try ended.
    pub at: Timestamp,
    /// The sequence number of the event.
    pub sequence: u64,
    /// The type of the event.
    #[serde(rename = "type")]
    pub event_type: Box<str>,
    /// The number of tries of the event so far, including this one.
    pub attempt: u32,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: DeliveryResult,
    /// How long the try took, in milliseconds.
    pub duration_ms: u64,
}

impl Delivery {
    /// The maximum number of tries that are stored and shown.
    pub const RECENT_MAX: usize = 20;

    pub(super) fn key(endpoint: EndpointId) -> Result<DocumentKey, StoreError> {
        document_key(DELIVERIES, endpoint)
    }

    /// The document that stores this state. Its version is the one after `before`, the version that was read. `due_at`
    /// is the next probe of a stalled endpoint, or now if a caller changed something that the sending job must read.
    pub(super) fn document(
        &self,
        endpoint: EndpointId,
        before: Version,
        due_at: Option<Timestamp>,
    ) -> Result<Document, Error> {
        let document = Document::with_body(Self::key(endpoint)?, before.next(), self)?;
        Ok(Document { owner: Some(endpoint.uuid()), due_at, ..document })
    }
}

/// An event that is parked, because its delivery failed or because an earlier event of its record is parked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Parked {
    /// The event.
    pub event: RecordedEvent,
    /// The state of the parked event.
    pub state: ParkedState,
    /// The number of tries so far. A resend sets it to 0.
    pub attempts: u32,
    /// When the event first failed; `None` if it has not failed.
    pub first_failed_at: Option<Timestamp>,
    /// The last try of the event; `None` if it was never tried.
    pub last: Option<Attempt>,
}

named_enum! {
    /// The state of a parked event.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ParkedState {
        /// The event waits for its next try.
        Waiting = "waiting",
        /// The event waits behind an earlier event of its record.
        Behind = "behind",
        /// The last try of the event failed, and the event is not tried again. It is listed for up to 30 days, and then
        /// deleted.
        GivenUp = "given_up",
    }
}

impl Parked {
    pub(super) fn key(endpoint: EndpointId, sequence: u64) -> Result<DocumentKey, StoreError> {
        document_key(PARKED, format_args!("{endpoint}/{sequence:020}"))
    }

    /// The document that stores this parked event. Its version is the one after `before`, the version that was read.
    /// `due_at` is the time of the next try of the event, or, if the event was given up, the time at which the document
    /// is deleted.
    pub(super) fn document(
        &self,
        endpoint: EndpointId,
        before: Version,
        due_at: Option<Timestamp>,
    ) -> Result<Document, Error> {
        let key = Self::key(endpoint, self.event.sequence)?;
        let document = Document::with_body(key, before.next(), self)?;
        let label = self.state.as_str().parse().ok();
        Ok(Document { owner: Some(endpoint.uuid()), label, due_at, ..document })
    }
}

/// An endpoint and the state of its deliveries, as they were read from the store.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(super) endpoint: Stored<Endpoint>,
    pub(super) delivery: Stored<Delivery>,
}
