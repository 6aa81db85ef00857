//! Receives webhooks: verifies the signature, and then stores the event as one document.

use sha2::{Digest as _, Sha256};

use super::documents::ProviderEvent;
use super::signature;
use super::status::{EventState, EventStatus, Reason};
use crate::error::Error;
use crate::providers::follow::observation::StoredEvent;
use crate::providers::{ObjectId, ProviderKind, Providers, Webhook, mapping};
use crate::store::{ChangeSet, StoreError, Stored};
use crate::values::as_text::hex;
use crate::values::{Slug, Version};

/// The result of receiving a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// No source has this name.
    UnknownSource,
    /// The signature is invalid. Nothing was parsed.
    SignatureInvalid,
    /// This service does not use events of this type. The webhook was counted, and not stored.
    Unlisted,
    /// The webhook was stored as an event.
    Stored,
    /// The same event was stored before, so nothing was stored.
    Known,
}

impl Providers {
    /// Verifies the signature of a webhook over its raw bytes and stores the event. `signatures` are the values of all
    /// headers with the name of the provider's [signature header](crate::providers::signature_header).
    pub async fn receive_webhook(
        &self,
        source: &Slug,
        signatures: &[&[u8]],
        body: &[u8],
    ) -> Result<Received, Error> {
        let Some(account) = self.account(source) else { return Ok(Received::UnknownSource) };
        let kind = account.source.kind;
        let now = self.now();
        if !signature::verify(kind, signatures, body, &account.source.signing_secrets, now) {
            account.count(|counters| counters.signatures_refused += 1);
            return Ok(Received::SignatureInvalid);
        }
        let hash = || hex(&Sha256::digest(body));
        let key = |id: Option<&ObjectId>| id.map_or_else(hash, ToString::to_string);
        let new = |key: &str, object| ProviderEvent::new(source.clone(), key, object, now);
        let (mut event, status) = match mapping::webhook(kind, body) {
            Webhook::Unlisted => {
                account.count(|counters| counters.unlisted += 1);
                return Ok(Received::Unlisted);
            }
            Webhook::Unreadable { event_type, path } => {
                let event = new(&hash(), None);
                let event = ProviderEvent { event_type, path: Some(path), ..event };
                (event, EventStatus::failed(Reason::Unreadable))
            }
            Webhook::NotASubscription { event_type, event_id } => {
                let event = new(&key(event_id.as_ref()), None);
                let event = ProviderEvent { event_type: Some(event_type), ..event };
                (event, EventStatus::ignored(Reason::NotASubscription))
            }
            Webhook::Hint(hint) => {
                let event = new(&key(hint.event_id.as_ref()), Some(hint.object));
                let fits = hint.live == account.source.live;
                let other_mode = EventStatus::ignored(Reason::OtherMode);
                let status = if fits { EventStatus::PENDING } else { other_mode };
                let event_type = Some(hint.event_type);
                (ProviderEvent { event_type, user_id: hint.user_id, ..event }, status)
            }
        };
        event.state = status.state;
        event.reason = status.reason;
        let document = event.document(Version::NEW, status.due_at(0, now))?;
        match self.store().commit(ChangeSet::writing(document)).await {
            Ok(()) => {
                account.count(|counters| *counters.events.entry(status).or_default() += 1);
                Ok(Received::Stored)
            }
            Err(StoreError::Conflict(_)) => {
                if kind == ProviderKind::LemonSqueezy {
                    self.apply_again(&event).await?;
                }
                Ok(Received::Known)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a stored event due again, because a webhook with the same bytes was received. A failed event stays failed.
    /// Lemon Squeezy gives its events no ids. If an object changes and returns to its earlier state within a second,
    /// the webhooks before and after the change have the same bytes. So the second webhook may be about a later change.
    /// If an observation for the event is running, this write makes the commit of the observation fail, and the
    /// observation fetches the object again.
    async fn apply_again(&self, event: &ProviderEvent) -> Result<(), Error> {
        let key = event.document_key()?;
        self.service
            .retrying(|| async {
                let stored: Option<StoredEvent> = Stored::load(self.store(), &key).await?;
                let stored = stored.filter(|stored| stored.body.state != EventState::Failed);
                let Some(Stored { version, mut body, .. }) = stored else { return Ok(()) };
                body.state = EventState::Pending;
                body.reason = None;
                self.write(vec![body.document(version, Some(self.now()))?]).await
            })
            .await
    }
}
