//! Idempotency: creates a record once for each key, and removes expired idempotency records.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::record::ServiceRecord;
use super::{Created, SubscriptionService};
use crate::error::Error;
use crate::events::Change;
use crate::store::{
    ChangeSet, Delete, Guard, Idempotency, IdempotencyKey, IdempotencyQuery, IdempotencyRecord,
    Key, Operation, PageLimit, Record, StoreExt as _,
};
use crate::values::{Timestamp, Version};

/// How long an idempotency record is stored, unless [`keep_idempotency_for`](super::ServiceBuilder::keep_idempotency_for)
/// is called.
pub(super) const KEPT: Duration = Duration::from_hours(24);

/// A create under an idempotency key, and the hash of its input.
pub(super) struct IdempotentRequest {
    key: IdempotencyKey,
    fingerprint: [u8; 32],
}

impl IdempotentRequest {
    fn new(
        operation: Operation,
        idempotency: Option<Idempotency>,
        input: &impl Serialize,
    ) -> Option<Self> {
        let Idempotency { client, key } = idempotency?;
        #[expect(clippy::expect_used, reason = "inputs are plain fields; writing them cannot fail")]
        let input = serde_json::to_vec(input).expect("an input can be written as JSON");
        let fingerprint = Sha256::digest(&input).into();
        Some(Self { key: IdempotencyKey { operation, client, key }, fingerprint })
    }
}

/// The state of an idempotency key.
pub(super) enum IdempotencyLookup<T> {
    /// An earlier request with the same input created this record.
    Replay(Created<T>),
    /// The key was never used, or its last use has expired. Holds the version of the stored
    /// idempotency record, or [`Version::NEW`].
    New(Version),
}

/// # Idempotency
impl SubscriptionService {
    /// Removes a batch of expired idempotency records and returns how many; call it regularly, each
    /// time until it returns 0.
    pub async fn forget_expired_idempotency(&self) -> Result<usize, Error> {
        self.retrying(|| async {
            let now = self.now();
            let expired = self
                .store()
                .list_as::<IdempotencyRecord>(IdempotencyQuery::Expired {
                    by: now,
                    limit: PageLimit::MAX,
                })
                .await?
                .items;
            // Another process may have deleted one, and a new request may have used its key since.
            let guards = expired.iter().map(|record| still_expired(&record.key, now)).collect();
            let deletes = expired.iter().map(|record| Delete {
                key: Key::Idempotency(record.key.clone()),
                version: record.version,
            });
            let changes = ChangeSet { guards, deletes: deletes.collect(), ..ChangeSet::default() };
            if !changes.deletes.is_empty() {
                self.store().commit(changes).await?;
            }
            Ok(expired.len())
        })
        .await
    }

    /// Creates a record with its event, once for each idempotency key. `make` returns the record, and what is
    /// committed with it.
    pub(super) async fn create<T, F>(
        &self,
        operation: Operation,
        idempotency: Option<Idempotency>,
        input: &(impl Serialize + Sync),
        make: impl Fn(Timestamp) -> F + Send + Sync,
    ) -> Result<Created<T>, Error>
    where
        T: ServiceRecord,
        F: Future<Output = Result<(T, ChangeSet), Error>> + Send,
    {
        let request = Self::request(operation, idempotency, input);
        self.retrying(|| async {
            let request_version = match self.look_up(request.as_ref()).await? {
                IdempotencyLookup::Replay(created) => return Ok(created),
                IdempotencyLookup::New(version) => version,
            };
            let now = self.now();
            let (record, mut with) = make(now).await?;
            let record = Arc::new(record);
            self.keep(request.as_ref(), request_version, &record, &mut with, now);
            let record = self.commit(record, Change::Created, with, now).await?;
            Ok(Created { record, replayed: false })
        })
        .await
    }

    /// A request under its idempotency key, if it has one.
    pub(super) fn request(
        operation: Operation,
        idempotency: Option<Idempotency>,
        input: &impl Serialize,
    ) -> Option<IdempotentRequest> {
        IdempotentRequest::new(operation, idempotency, input)
    }

    /// Adds to a change set that the result of a request is stored under its idempotency key, whose stored
    /// record has the version `found`.
    pub(super) fn keep<T: ServiceRecord>(
        &self,
        request: Option<&IdempotentRequest>,
        found: Version,
        result: &Arc<T>,
        with: &mut ChangeSet,
        now: Timestamp,
    ) {
        let Some(IdempotentRequest { key, fingerprint }) = request else { return };
        if found != Version::NEW {
            with.guards.push(still_expired(key, now));
        }
        with.writes.push(Record::from(IdempotencyRecord {
            key: key.clone(),
            version: found.next(),
            fingerprint: *fingerprint,
            result: Arc::clone(result).into_result(),
            expires_at: now.saturating_add(self.parts.idempotency_kept),
        }));
    }

    /// Looks up the idempotency key of a request.
    pub(super) async fn look_up<T: ServiceRecord>(
        &self,
        request: Option<&IdempotentRequest>,
    ) -> Result<IdempotencyLookup<T>, Error> {
        let Some(IdempotentRequest { key, fingerprint }) = request else {
            return Ok(IdempotencyLookup::New(Version::NEW));
        };
        let found = self.store().get_as::<IdempotencyRecord>(key).await?;
        let Some(found) = found else { return Ok(IdempotencyLookup::New(Version::NEW)) };
        if found.expires_at <= self.now() {
            return Ok(IdempotencyLookup::New(found.version));
        }
        match T::from_result(&found.result) {
            Some(record) if found.fingerprint == *fingerprint => {
                Ok(IdempotencyLookup::Replay(Created { record, replayed: true }))
            }
            Some(_) | None => Err(Error::KeyReused),
        }
    }
}

/// The guard that the stored idempotency record has expired. Its version alone does not say so: a key that is
/// used again after its record was deleted begins at the first version again.
fn still_expired(key: &IdempotencyKey, by: Timestamp) -> Guard {
    Guard::Expired { key: key.clone(), by }
}
