//! The documents of providers: events that came in, links to our records, and the progress of syncs.
//!
//! Their bodies hold ids and states, and no personal data.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::status::{EventState, EventStatus, Reason};
use crate::error::Error;
use crate::providers::{ObjectId, ObjectKind, ObjectRef};
use crate::store::{Collection, Document, DocumentKey, Label, StoreError, document_key};
use crate::values::{Slug, SubscriptionId, Timestamp, UserId, Version};

pub(crate) const EVENTS: Collection = Collection::named("provider_event");
pub(crate) const LINKS: Collection = Collection::named("provider_link");
pub(crate) const PROGRESS: Collection = Collection::named("provider_progress");

/// The UUID namespace of the ids of these documents.
const NAMESPACE: Uuid = Uuid::from_u128(0x5f0c_6f9e_31d4_5b0c_9d57_6a52_0c4e_91b7);

/// The UUID of a key: the same for the same source and parts.
fn id_of(source: &Slug, parts: &[&str]) -> Uuid {
    let key = format!("{source} {}", parts.join(" "));
    Uuid::new_v5(&NAMESPACE, key.as_bytes())
}

/// An event of a provider: a webhook, or an object that a sync could not apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProviderEvent {
    /// The source.
    pub source: Slug,
    /// The key by which the event is stored only once: the provider's id of the event, a hash of the webhook's body, or
    /// `sync:` with the type and the id of the object.
    pub key: Box<str>,
    /// The type of the event, as the provider names it.
    pub event_type: Option<Box<str>>,
    /// The object that the event names.
    pub object: Option<ObjectRef>,
    /// The subscription, invoice or order that the object leads to; `None` until it is known.
    pub resolved: Option<ObjectRef>,
    /// The user that the checkout names, or the user that a caller sent. `None` if neither names a user.
    pub user_id: Option<UserId>,
    /// True if a caller named the user. Then this user becomes the owner, even if the customer is bound to another
    /// user.
    #[serde(default)]
    pub user_decides: bool,
    /// The customer, once the object was fetched.
    pub customer: Option<ObjectId>,
    /// When the event was received.
    pub received_at: Timestamp,
    /// The number of times that the object of the event was observed for the event.
    pub attempts: u32,
    /// The state of the event.
    pub state: EventState,
    /// The reason for the state, if the state has one.
    pub reason: Option<Reason>,
    /// The place in the payload or the object that cannot be read.
    pub path: Option<Box<str>>,
    /// Our subscription that the object belongs to.
    pub subscription_id: Option<SubscriptionId>,
}

impl ProviderEvent {
    pub(crate) fn new(source: Slug, key: &str, object: Option<ObjectRef>, now: Timestamp) -> Self {
        let resolved = object.clone().filter(ObjectRef::is_followed);
        Self {
            source,
            key: key.into(),
            event_type: None,
            object,
            resolved,
            user_id: None,
            user_decides: false,
            customer: None,
            received_at: now,
            attempts: 0,
            state: EventState::Pending,
            reason: None,
            path: None,
            subscription_id: None,
        }
    }

    /// The event by which an object is observed without a webhook.
    pub(crate) fn of_sync(source: Slug, object: ObjectRef, now: Timestamp) -> Self {
        let key = format!("sync:{}:{}", object.kind, object.id);
        Self::new(source, &key, Some(object), now)
    }

    /// The state of the event and the reason for it.
    pub const fn status(&self) -> EventStatus {
        EventStatus { state: self.state, reason: self.reason }
    }

    pub(crate) fn is_of_sync(&self) -> bool {
        self.key.starts_with("sync:")
    }

    pub(crate) fn document_key(&self) -> Result<DocumentKey, StoreError> {
        document_key(EVENTS, id_of(&self.source, &["event", &self.key]))
    }

    /// The document of the event. Its version is the one after `before`, the version that was read.
    pub(crate) fn document(
        &self,
        before: Version,
        due_at: Option<Timestamp>,
    ) -> Result<Document, Error> {
        let owner = self.resolved.as_ref().map(|object| link_uuid(&self.source, object));
        let document = Document::with_body(self.document_key()?, before.next(), self)?;
        Ok(Document { owner, label: self.status().label(), due_at, ..document })
    }
}

/// The link of an object at a provider to our record. Every observation that writes the records of the object also
/// writes the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) source: Slug,
    /// The object.
    #[serde(flatten)]
    pub(crate) object: ObjectRef,
    pub(crate) customer: Option<ObjectId>,
    pub(crate) user_id: Option<UserId>,
    pub(crate) subscription_id: Option<SubscriptionId>,
    /// True if a caller has requested that the provider manages the record again, after the record was released. The
    /// next observation makes this change.
    #[serde(default)]
    pub(crate) attach: bool,
    /// True if nothing named a user when the record was made: only the customer's binding or e-mail address decided who
    /// the owner is.
    #[serde(default)]
    pub(crate) unnamed: bool,
}

pub(crate) fn link_label(source: &Slug, kind: ObjectKind) -> Option<Label> {
    format!("{source}:{kind}").parse().ok()
}

pub(crate) fn link_uuid(source: &Slug, object: &ObjectRef) -> Uuid {
    id_of(source, &["link", object.kind.as_str(), object.id.as_str()])
}

impl Link {
    pub(crate) fn key(source: &Slug, object: &ObjectRef) -> Result<DocumentKey, StoreError> {
        document_key(LINKS, link_uuid(source, object))
    }

    /// The document of the link. Its version is the one after `before`, the version that was read.
    pub(crate) fn document(&self, before: Version) -> Result<Document, Error> {
        let owner = self.user_id.map(UserId::uuid);
        let owner = owner.or(self.subscription_id.map(SubscriptionId::uuid));
        let document =
            Document::with_body(Self::key(&self.source, &self.object)?, before.next(), self)?;
        Ok(Document { owner, label: link_label(&self.source, self.object.kind), ..document })
    }
}

pub(crate) fn progress_key(source: &Slug) -> Result<DocumentKey, StoreError> {
    document_key(PROGRESS, id_of(source, &["progress"]))
}
