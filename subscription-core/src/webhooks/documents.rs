//! The documents of webhooks: endpoints, how far each was delivered to, and parked events.

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
    /// Its id.
    pub id: EndpointId,
    /// The URL.
    pub url: Box<str>,
    /// A text for people: up to 200 characters.
    pub description: Box<str>,
    /// The types of the events that it is sent: 1 to 50.
    pub types: Vec<TypePattern>,
    /// Why and since when it is sent nothing; `None` if it is enabled.
    pub disabled: Option<Disabled>,
    /// The values from which its secrets are derived.
    pub secret: SecretState,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

/// The request that created an endpoint under an idempotency key. It is deleted with the endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CreationRequest {
    pub(super) endpoint: EndpointId,
    /// A hash of the input.
    pub(super) fingerprint: [u8; 32],
}

/// The namespace of the ids of requests.
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
    /// The time.
    pub at: Timestamp,
}

named_enum! {
    /// The reason why an endpoint is disabled.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum DisabledReason {
        /// A caller disabled it.
        ByCaller = "by_caller",
        /// It returned 410.
        Gone = "gone",
        /// It accepted nothing for five days.
        Failing = "failing",
        /// The server key that its secret is derived from is not there, or is another one.
        KeyMissing = "key_missing",
        /// It came with an import.
        Imported = "imported",
    }
}

/// The values from which the secrets of an endpoint are derived with a server key. None is a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretState {
    /// The number of the server key.
    pub key_id: u8,
    /// A random value.
    pub salt: [u8; 16],
    /// The number of the secret, which rises with each rotation.
    pub generation: u32,
    /// The first bytes of a hash of the secret: with another server key they differ.
    pub check: [u8; 8],
    /// The secret before the last rotation, while it still signs.
    pub previous: Option<PreviousSecret>,
}

/// A secret that was replaced, and signs for a while beside the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    /// The number of its server key.
    pub key_id: u8,
    /// Its generation.
    pub generation: u32,
    /// When it ends.
    pub until: Timestamp,
}

impl Endpoint {
    /// True if it is sent events.
    pub const fn is_enabled(&self) -> bool {
        self.disabled.is_none()
    }

    pub(super) fn key(id: EndpointId) -> Result<DocumentKey, StoreError> {
        document_key(ENDPOINTS, id)
    }

    /// The document of the endpoint after the one that was read.
    pub(super) fn document(&self, before: Version) -> Result<Document, Error> {
        let label = if self.is_enabled() { "enabled" } else { "disabled" };
        let document = Document::with_body(Self::key(self.id)?, before.next(), self)?;
        Ok(Document { label: label.parse().ok(), ..document })
    }
}

/// How far an endpoint was delivered to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// The sequence up to which every event was delivered, parked or not wanted.
    pub cursor: u64,
    /// Set while the endpoint as a whole fails.
    pub stall: Option<Stall>,
    /// The first failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// The last success.
    pub last_success_at: Option<Timestamp>,
    /// The sequence up to which events were deleted before they were delivered.
    pub missed_up_to: Option<u64>,
    /// The last tries, the newest first: at most [`Delivery::RECENT_MAX`].
    pub recent: VecDeque<Attempt>,
}

/// The state of an endpoint that fails as a whole: only its oldest event is tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// When it began.
    pub since: Timestamp,
    /// The reason.
    pub reason: StallReason,
    /// The number of tries since.
    pub probes: u32,
    /// The next try.
    pub next_at: Timestamp,
}

named_enum! {
    /// The reason why an endpoint is stalled.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum StallReason {
        /// Tries failed one after the other, without a success between them.
        Failing = "failing",
        /// The endpoint has the maximum number of parked events.
        ParkedFull = "parked_full",
    }
}

/// A try that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it ended.
    pub at: Timestamp,
    /// The sequence of the event.
    pub sequence: u64,
    /// The type of the event.
    #[serde(rename = "type")]
    pub event_type: Box<str>,
    /// The number of tries of the event, with this one.
    pub attempt: u32,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: DeliveryResult,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl Delivery {
    /// The largest number of tries that are shown.
    pub const RECENT_MAX: usize = 20;

    pub(super) fn key(endpoint: EndpointId) -> Result<DocumentKey, StoreError> {
        document_key(DELIVERIES, endpoint)
    }

    /// The document after the one that was read. It is due at the next try of a stalled endpoint, or now if a caller
    /// changed something that the sending job must read.
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

/// A parked event, because it failed or because an earlier event of its record did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Parked {
    /// The event.
    pub event: RecordedEvent,
    /// Its state.
    pub state: ParkedState,
    /// The number of tries.
    pub attempts: u32,
    /// The first failure; `None` if it was never tried.
    pub first_failed_at: Option<Timestamp>,
    /// The last try.
    pub last: Option<Attempt>,
}

named_enum! {
    /// The state of a parked event.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ParkedState {
        /// It is tried again.
        Waiting = "waiting",
        /// It waits for an earlier event of its record.
        Behind = "behind",
        /// It was tried as often as there are tries. It is listed, and deleted later.
        GivenUp = "given_up",
    }
}

impl Parked {
    pub(super) fn key(endpoint: EndpointId, sequence: u64) -> Result<DocumentKey, StoreError> {
        document_key(PARKED, format_args!("{endpoint}/{sequence:020}"))
    }

    /// The document after the one that was read. It is due at the next try, or at its deletion if it was given up.
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

/// An endpoint and its deliveries, as they were read.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(super) endpoint: Stored<Endpoint>,
    pub(super) delivery: Stored<Delivery>,
}
