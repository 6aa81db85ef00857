//! Creating, changing and deleting endpoints.

pub(crate) mod input;
pub(crate) mod ping;
pub(crate) mod resending;
mod scopes;
pub(crate) mod shown;
pub(crate) mod upkeep;

use std::time::Duration;

use self::input::{EndpointChanges, FirstEvent, NewEndpoint};
use self::shown::ShownEndpoint;
use super::delivery::signature::{check, current_secret, secret};
use super::documents::{CreationRequest, ENDPOINTS, Loaded, PARKED, REQUESTS};
use crate::error::{Conflict, DependencyFailed, Error};
use crate::service::found;
use crate::store::{
    ChangeSet, Delete, Document, DocumentFilter, DocumentKey, DocumentQuery, EventPage,
    Idempotency, Key, Record, StoreError, StoreExt as _, Stored,
};
use crate::values::{FaultCode, Timestamp, Version};
use crate::webhooks::{
    Delivery, Disabled, DisabledReason, Endpoint, EndpointId, Parked, ParkedState, PreviousSecret,
    Secret, SecretState, Webhooks,
};

/// An endpoint after its creation, or after a rotation of its secret.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointWithSecret {
    /// The endpoint.
    pub endpoint: ShownEndpoint,
    /// The current secret of the endpoint. `None` if the creation request is repeated after a rotation of the secret,
    /// or while the server key is missing.
    pub secret: Option<Secret>,
    /// True if an earlier request with the same idempotency key created the endpoint.
    pub replayed: bool,
}

impl Webhooks {
    /// The largest number of endpoints.
    pub const ENDPOINTS_MAX: usize = 100;

    /// Creates an endpoint.
    pub async fn create(&self, new: NewEndpoint) -> Result<EndpointWithSecret, Error> {
        self.create_once(new, None).await
    }

    /// Creates an endpoint like [`Webhooks::create`], but once for each idempotency key: while the endpoint exists,
    /// another request with the same key and input returns this endpoint.
    pub async fn create_once(
        &self,
        new: NewEndpoint,
        idempotency: Option<Idempotency>,
    ) -> Result<EndpointWithSecret, Error> {
        new.check(&self.addresses)?;
        self.expect_scopes(&new.types)?;
        let now = self.now();
        // Creations in this process run one at a time, so that each one counts the endpoints of the earlier ones.
        let _turn = match self.service.writer_queues().queue("webhook endpoints") {
            Some(queue) => Some(queue.turn().await),
            None => None,
        };
        let fingerprint = new.fingerprint();
        let request = idempotency.as_ref().map(CreationRequest::key).transpose()?;
        if let Some(replayed) = self.replay(request.as_ref(), fingerprint).await? {
            return Ok(replayed);
        }
        // An endpoint that cannot be read counts too, and stops no creation.
        let stored = DocumentQuery::new(ENDPOINTS, DocumentFilter::All).all(self.store()).await?;
        if stored.len() >= Self::ENDPOINTS_MAX {
            return Err(Conflict::EndpointLimit.into());
        }
        let id = EndpointId::new(now, self.service.randomness())?;
        let (endpoint, secret) = self.new_endpoint(id, &new, now)?;
        let delivery = Delivery { cursor: self.first(new.from).await?, ..Delivery::default() };
        let mut writes =
            vec![endpoint.document(Version::NEW)?, delivery.document(id, Version::NEW, Some(now))?];
        if let Some(key) = &request {
            let made = CreationRequest { endpoint: id, fingerprint };
            writes.push(made.document(key.clone())?);
        }
        if let Err(error) = self.write(writes, Vec::new()).await {
            // Another process may have created an endpoint under the same idempotency key just before. Then this
            // request repeats that one.
            return self.replay(request.as_ref(), fingerprint).await?.ok_or(error);
        }
        let version = Version::FIRST;
        let loaded = Loaded {
            endpoint: Stored { version, due_at: None, body: endpoint },
            delivery: Stored { version, due_at: Some(now), body: delivery },
        };
        let endpoint = self.show(loaded).await?;
        Ok(EndpointWithSecret { endpoint, secret: Some(secret), replayed: false })
    }

    fn new_endpoint(
        &self,
        id: EndpointId,
        new: &NewEndpoint,
        now: Timestamp,
    ) -> Result<(Endpoint, Secret), Error> {
        let mut salt = [0; 16];
        self.service.randomness().fill(&mut salt)?;
        let key_id = self.keys.current();
        let generation = 1;
        let first = secret(&self.keys, key_id, &salt, id, generation);
        let first = first.ok_or(DependencyFailed::ServerKey)?;
        let state = SecretState { key_id, salt, generation, check: check(&first), previous: None };
        let endpoint = Endpoint {
            id,
            url: new.url.as_str().into(),
            description: new.description.clone(),
            types: new.types.clone(),
            disabled: None,
            secret: state,
            created_at: now,
            updated_at: now,
        };
        Ok((endpoint, first))
    }

    /// The endpoint that an earlier request with the same idempotency key created; `None` if there was none.
    async fn replay(
        &self,
        request: Option<&DocumentKey>,
        fingerprint: [u8; 32],
    ) -> Result<Option<EndpointWithSecret>, Error> {
        let Some(request) = request else { return Ok(None) };
        let made: Option<Stored<CreationRequest>> = Stored::load(self.store(), request).await?;
        let Some(Stored { body: made, .. }) = made else { return Ok(None) };
        if made.fingerprint != fingerprint {
            return Err(Error::KeyReused);
        }
        let loaded = self.load(made.endpoint).await?;
        let endpoint = &loaded.endpoint.body;
        // The types may have been changed since the creation.
        self.expect_scopes(&endpoint.types)?;
        let secret =
            current_secret(&self.keys, endpoint).filter(|_| endpoint.secret.generation == 1);
        let endpoint = self.show(loaded).await?;
        Ok(Some(EndpointWithSecret { endpoint, secret, replayed: true }))
    }

    /// The cursor of a new endpoint: the sequence after which events are sent to it.
    async fn first(&self, from: FirstEvent) -> Result<u64, Error> {
        let feed = self.feed().await?;
        match from {
            FirstEvent::Now => Ok(feed.last),
            FirstEvent::Start => Ok(feed.first_kept.saturating_sub(1)),
            FirstEvent::After(sequence) => expect_kept(&feed, sequence, "from"),
        }
    }

    /// Changes an endpoint, if it has the version `if_version`; `None` accepts any version. If the change enables the
    /// endpoint or sets another URL, its stall ends. Sending continues at the endpoint's cursor (its position in the
    /// feed).
    pub async fn update_if(
        &self,
        id: EndpointId,
        if_version: Option<Version>,
        changes: EndpointChanges,
    ) -> Result<ShownEndpoint, Error> {
        changes.check(&self.addresses)?;
        let key = Endpoint::key(id)?;
        let changes = &changes;
        let attempt = || async {
            let mut loaded = self.load_if(id, if_version).await?;
            let now = self.now();
            let before = loaded.endpoint.body.clone();
            let begins_anew = loaded.endpoint.body.change(changes, now);
            if loaded.endpoint.body == before {
                return self.show(loaded).await;
            }
            if changes.url.is_some() || changes.types.is_some() || changes.enabled == Some(true) {
                self.expect_scopes(&loaded.endpoint.body.types)?;
            }
            loaded.endpoint.body.updated_at = now;
            let woken = if begins_anew { self.end_stall(&mut loaded, now).await? } else { vec![] };
            self.write_loaded(&mut loaded, true, woken, Vec::new()).await?;
            self.show(loaded).await
        };
        self.service.retrying_on(&key, attempt).await
    }

    /// Deletes an endpoint, its delivery state and its parked events in one commit, if it has the version
    /// `if_version`; `None` accepts any version.
    pub async fn delete_if(
        &self,
        id: EndpointId,
        if_version: Option<Version>,
    ) -> Result<(), Error> {
        let key = Endpoint::key(id)?;
        let attempt = || async {
            let delivery_key = Delivery::key(id)?;
            let mut deletes = match self.load_if(id, if_version).await {
                Ok(Loaded { endpoint, delivery }) => vec![
                    delete(key.clone(), endpoint.version),
                    delete(delivery_key, delivery.version),
                ],
                // An endpoint that cannot be read can be removed: that is its mend.
                Err(Error::Store(StoreError::Damaged(_))) if if_version.is_none() => {
                    let mut stored = Vec::new();
                    for key in [key.clone(), delivery_key] {
                        let version = self.load_version(&key).await?;
                        stored.extend(version.map(|version| delete(key, version)));
                    }
                    stored
                }
                Err(error) => return Err(error),
            };
            let requests = DocumentQuery::new(REQUESTS, DocumentFilter::Owner(id.uuid()));
            for request in self.store().list_as::<Document>(requests).await?.items {
                deletes.push(delete(request.key.clone(), request.version));
            }
            // An event is parked only in a commit that also writes the delivery document, and this commit checks the
            // version of that document. So if an event is parked after this read, this commit is refused.
            for parked in self.parked_of(id).await? {
                let sequence = parked.body.event.sequence;
                deletes.push(delete(Parked::key(id, sequence)?, parked.version));
            }
            self.write(Vec::new(), deletes).await
        };
        self.service.retrying_on(&key, attempt).await
    }

    /// Replaces the secret of an endpoint. The previous secret signs beside the new one for the time `overlap`, unless
    /// its server key is missing.
    pub async fn rotate_secret(
        &self,
        id: EndpointId,
        overlap: Duration,
    ) -> Result<EndpointWithSecret, Error> {
        let attempt = || async {
            let mut loaded = self.load(id).await?;
            self.expect_scopes(&loaded.endpoint.body.types)?;
            let now = self.now();
            let before = current_secret(&self.keys, &loaded.endpoint.body);
            let endpoint = &mut loaded.endpoint.body;
            let state = &mut endpoint.secret;
            let is_running = state.previous.is_some_and(|previous| previous.until > now);
            if is_running && !overlap.is_zero() {
                return Err(Conflict::RotationInProgress.into());
            }
            let previous = PreviousSecret {
                key_id: state.key_id,
                generation: state.generation,
                until: now.saturating_add(overlap),
            };
            state.previous = before.filter(|_| !overlap.is_zero()).map(|_| previous);
            state.generation = state.generation.saturating_add(1);
            state.key_id = self.keys.current();
            let next = secret(&self.keys, state.key_id, &state.salt, id, state.generation);
            let next = next.ok_or(DependencyFailed::ServerKey)?;
            state.check = check(&next);
            endpoint.updated_at = now;
            self.write_loaded(&mut loaded, true, Vec::new(), Vec::new()).await?;
            let endpoint = self.show(loaded).await?;
            Ok(EndpointWithSecret { endpoint, secret: Some(next), replayed: false })
        };
        self.service.retrying_on(&Endpoint::key(id)?, attempt).await
    }

    /// Reads an endpoint and the state of its deliveries.
    pub(super) async fn load(&self, id: EndpointId) -> Result<Loaded, Error> {
        let endpoint = Stored::load(self.store(), &Endpoint::key(id)?).await;
        let endpoint = found(endpoint, "webhook endpoint", id)?;
        let delivery = Stored::load(self.store(), &Delivery::key(id)?).await;
        Ok(Loaded { endpoint, delivery: found(delivery, "webhook endpoint", id)? })
    }

    /// Like `load`, but fails with [`Error::Stale`] if the endpoint has another version than `if_version`.
    async fn load_if(&self, id: EndpointId, if_version: Option<Version>) -> Result<Loaded, Error> {
        let loaded = self.load(id).await?;
        let current = loaded.endpoint.version;
        if if_version.is_some_and(|expected| expected != current) {
            return Err(Error::Stale { key: Key::Document(Endpoint::key(id)?), current });
        }
        Ok(loaded)
    }

    /// Ends the stall of an endpoint. Returns the documents of the parked events that wait for a try. These documents
    /// are now due at `now`, and the caller must write them.
    pub(super) async fn end_stall(
        &self,
        loaded: &mut Loaded,
        now: Timestamp,
    ) -> Result<Vec<Document>, Error> {
        let id = loaded.endpoint.body.id;
        let delivery = &mut loaded.delivery.body;
        delivery.stall = None;
        delivery.failing_since = None;
        let parked = self.parked_of(id).await?;
        let waiting = parked.iter().filter(|it| it.body.state == ParkedState::Waiting);
        waiting.map(|it| it.body.document(id, it.version, Some(now))).collect()
    }

    /// Commits the changed delivery document together with `writes` and `deletes`, and also the endpoint if
    /// `with_endpoint` is true. The delivery document becomes due, so that the sending job reads it, even if the job
    /// runs in another process.
    pub(super) async fn write_loaded(
        &self,
        loaded: &mut Loaded,
        with_endpoint: bool,
        mut writes: Vec<Document>,
        deletes: Vec<Delete>,
    ) -> Result<(), Error> {
        let Loaded { endpoint, delivery } = loaded;
        let id = endpoint.body.id;
        let now = self.now();
        writes.push(delivery.body.document(id, delivery.version, Some(now))?);
        delivery.version = delivery.version.next();
        if with_endpoint {
            writes.push(endpoint.body.document(endpoint.version)?);
            endpoint.version = endpoint.version.next();
        }
        self.write(writes, deletes).await
    }

    async fn write(&self, writes: Vec<Document>, deletes: Vec<Delete>) -> Result<(), Error> {
        let writes = writes.into_iter().map(Record::from).collect();
        let changes = ChangeSet { writes, deletes, ..ChangeSet::default() };
        self.store().commit(changes).await.map_err(Error::Store)
    }

    /// All parked events of an endpoint, including those that were given up.
    pub(super) async fn parked_of(
        &self,
        id: EndpointId,
    ) -> Result<Vec<Stored<Parked>>, StoreError> {
        let filter = DocumentFilter::Owner(id.uuid());
        Stored::all(self.store(), DocumentQuery::new(PARKED, filter)).await
    }
}

impl Endpoint {
    /// Applies the changes. Returns true if they enable the endpoint or set another URL.
    fn change(&mut self, changes: &EndpointChanges, now: Timestamp) -> bool {
        let EndpointChanges { url, types, description, enabled } = changes;
        let url = url.as_ref().map(|url| Box::from(url.as_str()));
        let has_moved = url.as_ref().is_some_and(|url| *url != self.url);
        let is_woken = *enabled == Some(true) && !self.is_enabled();
        self.url = url.unwrap_or_else(|| self.url.clone());
        self.types = types.clone().unwrap_or_else(|| self.types.clone());
        self.description = description.clone().unwrap_or_else(|| self.description.clone());
        self.disabled = match enabled {
            Some(true) => None,
            // If the endpoint is disabled already, the first reason remains.
            Some(false) => {
                self.disabled.or(Some(Disabled { reason: DisabledReason::ByCaller, at: now }))
            }
            None => self.disabled,
        };
        has_moved || is_woken
    }
}

pub(super) fn delete(key: DocumentKey, version: Version) -> Delete {
    Delete { key: Key::Document(key), version }
}

/// Checks that the feed has reached `sequence`, and that all events after it are still stored. Returns the sequence.
pub(super) fn expect_kept(
    feed: &EventPage,
    sequence: u64,
    field: &'static str,
) -> Result<u64, Error> {
    let EventPage { first_kept, last, .. } = *feed;
    if sequence > last {
        let message = format!("must not be above {last}, the sequence number of the newest event");
        return Err(Error::invalid(FaultCode::OutOfRange, message, field));
    }
    if sequence.saturating_add(1) < first_kept {
        return Err(Error::EventsForgotten { first_kept });
    }
    Ok(sequence)
}
