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

/// How long an idempotency record is stored, unless
/// [`keep_idempotency_for`](super::ServiceBuilder::keep_idempotency_for) is called.
pub(super) const KEPT: Duration = Duration::from_hours(24);

/// A request with an idempotency key, and the hash of its input.
pub(super) struct IdempotentRequest {
    key: IdempotencyKey,
    fingerprint: [u8; 32],
}

impl IdempotentRequest {
    /// A request with its idempotency key; `None` if the caller sent no key.
    pub(super) fn new(
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

/// The decision on a request: the record that the request creates or changes. If the record is to be written, `write`
/// has the change for its event, and the changes to commit with the record; otherwise it is `None`.
pub(super) struct Decision<T> {
    pub(super) record: Arc<T>,
    pub(super) write: Option<(Change, ChangeSet)>,
    pub(super) now: Timestamp,
}

/// # Idempotency
impl SubscriptionService {
    /// Removes a batch of expired idempotency records and returns how many; call it regularly, each
    /// time until it returns 0.
    pub async fn forget_expired_idempotency(&self) -> Result<usize, Error> {
        self.retrying(|| async {
            let now = self.now();
            let expired = self.expired_idempotency(now).await?;
            // Another process may have deleted an expired record since it was read, and a new request may have stored
            // its key again. The guards prevent that this new record is deleted.
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

    /// The number of idempotency records that have expired and are not removed yet; 200 means 200 or more.
    pub async fn count_expired_idempotency(&self) -> Result<usize, Error> {
        Ok(self.expired_idempotency(self.now()).await?.len())
    }

    /// A batch of expired idempotency records.
    async fn expired_idempotency(
        &self,
        now: Timestamp,
    ) -> Result<Vec<Arc<IdempotencyRecord>>, Error> {
        let query = IdempotencyQuery::Expired { by: now, limit: PageLimit::MAX };
        Ok(self.store().readable_as::<IdempotencyRecord>(query).await?.items)
    }

    /// Creates a record with its event, once for each idempotency key. `make` returns the record, and the other changes
    /// to commit with the record.
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
        let request = IdempotentRequest::new(operation, idempotency, input);
        self.retrying(|| {
            self.once(request.as_ref(), || async {
                let now = self.now();
                let (record, with) = make(now).await?;
                Ok(Decision { record: Arc::new(record), write: Some((Change::Created, with)), now })
            })
        })
        .await
    }

    /// Commits the decision on a request, and stores the resulting record under the idempotency key of the request. If
    /// the record of an earlier request with the same key and the same input is stored, that record is returned, and
    /// `decide` is not called.
    pub(super) async fn once<T, F>(
        &self,
        request: Option<&IdempotentRequest>,
        decide: impl FnOnce() -> F + Send,
    ) -> Result<Created<T>, Error>
    where
        T: ServiceRecord,
        F: Future<Output = Result<Decision<T>, Error>> + Send,
    {
        let mut version = Version::NEW;
        if let Some(request) = request
            && let Some(stored) = self.store().get_as::<IdempotencyRecord>(&request.key).await?
        {
            if stored.expires_at > self.now() {
                return match T::from_result(&stored.result) {
                    Some(record) if stored.fingerprint == request.fingerprint => {
                        // A stand-by database may not have confirmed the commit of the result yet. The empty commit of
                        // this check waits for the stand-by.
                        self.check_store().await?;
                        Ok(Created { record, replayed: true })
                    }
                    Some(_) | None => Err(Error::KeyReused),
                };
            }
            version = stored.version;
        }
        let Decision { mut record, write, now } = decide().await?;
        if let Some((change, mut with)) = write {
            if let Some(IdempotentRequest { key, fingerprint }) = request {
                if version != Version::NEW {
                    with.guards.push(still_expired(key, now));
                }
                with.writes.push(Record::from(IdempotencyRecord {
                    key: key.clone(),
                    version: version.next(),
                    fingerprint: *fingerprint,
                    result: Arc::clone(&record).into_result(),
                    expires_at: now.saturating_add(self.parts.idempotency_kept),
                }));
            }
            record = self.commit(record, change, with, now).await?;
        }
        Ok(Created { record, replayed: false })
    }
}

/// The guard that the stored idempotency record has expired. The version of the record does not show this: a key that
/// is used again after its record was deleted begins at the first version again.
fn still_expired(key: &IdempotencyKey, by: Timestamp) -> Guard {
    Guard::Expired { key: key.clone(), by }
}
