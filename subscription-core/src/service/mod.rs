//! The service: what it is built from, and how it writes.
//!
//! Its methods stand with what they are about: [`plans`](crate::plans),
//! [`subscriptions`](crate::subscriptions), [`payments`](crate::payments). Each reads: load, decide,
//! commit. Where another writer was faster, it loads and decides again.

mod entitlement;
mod payments;
mod plans;
mod record;
mod subscriptions;
mod turns;

use crate::store::{EventQuery, IdempotencyQuery, StoreExt as _};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};

pub use self::entitlement::{Entitlement, Grant};
use self::record::ServiceRecord;
pub use self::turns::Pause;
use self::turns::Turns;
use crate::error::{Conflict, Error};
use crate::events::{Actor, Change, Event, RecordedEvent, Subject};
use crate::store::{
    ChangeSet, Delete, Guard, Idempotency, IdempotencyKey, IdempotencyRecord, Key, Operation,
    PageLimit, Record, Store, StoreError, Unique,
};
use crate::values::clock::{Clock, SystemClock, Timestamp};
use crate::values::id::EventId;
use crate::values::randomness::{Randomness, SystemRandomness};
use crate::values::version::Version;

/// How long the answer to a request is kept for its repetition, unless said otherwise.
const REQUESTS_KEPT: Duration = Duration::from_hours(24);

/// Plans, subscriptions and payments over a [`Store`].
///
/// It holds no records of its own: clones share their parts, and many processes may each have one over
/// the same store.
#[derive(Debug, Clone)]
pub struct SubscriptionService {
    parts: Arc<Parts>,
    actor: Actor,
}

#[derive(Debug)]
struct Parts {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Randomness>,
    requests_kept: Duration,
    checks_users: bool,
    turns: Turns,
    pause: Option<Pause>,
}

/// Puts a [`SubscriptionService`] together.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct ServiceBuilder(Parts);

impl ServiceBuilder {
    /// Takes the time from this clock instead of the machine's.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.0.clock = Arc::new(clock);
        self
    }

    /// Takes the random part of ids from this source instead of the machine's.
    pub fn ids(mut self, ids: impl Randomness + 'static) -> Self {
        self.0.ids = Arc::new(ids);
        self
    }

    /// Keeps the answers to requests for their repetition this long instead of 24 hours.
    pub fn keep_requests_for(mut self, span: Duration) -> Self {
        self.0.requests_kept = span;
        self
    }

    /// Takes subscriptions only for users who have an account in the store (see
    /// [`Authentication`](crate::Authentication)). Left out, users are your business: any id will do.
    pub fn check_users(mut self) -> Self {
        self.0.checks_users = true;
        self
    }

    /// Pauses by this before a change is tried again that other processes have made impossible several
    /// times: pass your runtime's timer, as in `|span| Box::pin(tokio::time::sleep(span))`. Left out,
    /// it is tried again at once, which will do for one process.
    pub fn pause(mut self, pause: Pause) -> Self {
        self.0.pause = Some(pause);
        self
    }

    /// The service, ready for use.
    pub fn build(self) -> SubscriptionService {
        SubscriptionService { parts: Arc::new(self.0), actor: Actor::Library }
    }
}

/// A record that was made, or had been made by the same request before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created<T> {
    /// The record as it was when it was made.
    pub record: Arc<T>,
    /// True if an earlier request with the same key had made it.
    pub replayed: bool,
}

/// # Building
impl SubscriptionService {
    /// A service over `store` with the machine's clock and randomness.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::builder(store).build()
    }

    /// A service over `store` whose other parts can be chosen.
    pub fn builder(store: Arc<dyn Store>) -> ServiceBuilder {
        ServiceBuilder(Parts {
            store,
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemRandomness),
            requests_kept: REQUESTS_KEPT,
            checks_users: false,
            turns: Turns::default(),
            pause: None,
        })
    }

    /// The same service, whose events name this actor: a cheap clone for one request or job. Without it
    /// they name [`Actor::Library`].
    #[must_use]
    pub fn by(&self, actor: Actor) -> Self {
        Self { parts: Arc::clone(&self.parts), actor }
    }

    /// The service's present moment.
    pub fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// Where the service takes the random part of ids from.
    pub fn ids(&self) -> &dyn Randomness {
        &*self.parts.ids
    }
}

/// # Events and upkeep
impl SubscriptionService {
    /// Checks that the store takes writes, by an empty one: for a server that is asked whether it is ready.
    pub async fn check_store(&self) -> Result<(), Error> {
        self.store().commit(ChangeSet::default()).await.map_err(Error::Store)
    }

    /// The events after a place in the feed, oldest first; 0 is before the first.
    pub async fn events(&self, after: u64, limit: PageLimit) -> Result<Vec<RecordedEvent>, Error> {
        Ok(self.store().events(&EventQuery::after(after, limit)).await?.items)
    }

    /// Removes the events up to and with this place from the feed, once all who read it have.
    pub async fn forget_events(&self, up_to: u64) -> Result<(), Error> {
        let changes = ChangeSet { forget_events: Some(up_to), ..ChangeSet::default() };
        self.store().commit(changes).await.map_err(Error::Store)
    }

    /// Removes a batch of answers that are kept no longer, and says how many; call it now and then
    /// until it says 0.
    pub async fn forget_expired_requests(&self) -> Result<usize, Error> {
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
            // Somebody else may have deleted one, and a new request may have used its key since.
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
}

/// A request that may be repeated.
pub(crate) struct Request {
    key: IdempotencyKey,
    fingerprint: [u8; 32],
}

impl Request {
    pub(crate) fn new(
        operation: Operation,
        once: Option<Idempotency>,
        input: &impl Serialize,
    ) -> Option<Self> {
        let Idempotency { client, key } = once?;
        #[expect(clippy::expect_used, reason = "inputs are plain fields; writing them cannot fail")]
        let input = serde_json::to_vec(input).expect("an input can be written as JSON");
        let fingerprint = Sha256::digest(&input).into();
        Some(Self { key: IdempotencyKey { operation, client, key }, fingerprint })
    }
}

/// What is known of a request.
pub(crate) enum Known<T> {
    /// It was answered before.
    Answered(Created<T>),
    /// It is new: under a key that was never used, or whose last use has expired.
    Fresh(Version),
}

impl SubscriptionService {
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.parts.store
    }

    pub(crate) fn checks_users(&self) -> bool {
        self.parts.checks_users
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.parts.turns
    }

    pub(crate) fn pause(&self) -> Option<Pause> {
        self.parts.pause
    }

    /// Looks whether a request was answered before.
    pub(crate) async fn known<T: ServiceRecord>(
        &self,
        request: Option<&Request>,
    ) -> Result<Known<T>, Error> {
        let Some(Request { key, fingerprint }) = request else {
            return Ok(Known::Fresh(Version::NEW));
        };
        let found = self.store().get_as::<IdempotencyRecord>(key).await?;
        let Some(found) = found else { return Ok(Known::Fresh(Version::NEW)) };
        if found.expires_at <= self.now() {
            return Ok(Known::Fresh(found.version));
        }
        match T::from_answer(&found.answer) {
            Some(record) if found.fingerprint == *fingerprint => {
                Ok(Known::Answered(Created { record, replayed: true }))
            }
            Some(_) | None => Err(Error::KeyReused),
        }
    }

    /// Commits a new record with its event and the answer to its request.
    pub(crate) async fn commit_new<T: ServiceRecord>(
        &self,
        record: T,
        mut guards: Vec<Guard>,
        request: Option<&Request>,
        request_version: Version,
        now: Timestamp,
    ) -> Result<Created<T>, Error> {
        if let Some(Request { key, .. }) = request.filter(|_| request_version != Version::NEW) {
            guards.push(still_expired(key, now));
        }
        let record = Arc::new(record);
        let kept = request.map(|Request { key, fingerprint }| {
            Record::from(IdempotencyRecord {
                key: key.clone(),
                version: request_version.next(),
                fingerprint: *fingerprint,
                answer: Arc::clone(&record).into_answer(),
                expires_at: now.saturating_add(self.parts.requests_kept),
            })
        });
        let record = self.commit(record, Change::Created, guards, kept, now).await?;
        Ok(Created { record, replayed: false })
    }

    /// Commits a changed record with its event.
    pub(crate) async fn commit_changed<T: ServiceRecord>(
        &self,
        record: T,
        change: Change,
        guards: Vec<Guard>,
        now: Timestamp,
    ) -> Result<Arc<T>, Error> {
        self.commit(Arc::new(record), change, guards, None, now).await
    }

    async fn commit<T: ServiceRecord>(
        &self,
        record: Arc<T>,
        change: Change,
        guards: Vec<Guard>,
        beside: Option<Record>,
        now: Timestamp,
    ) -> Result<Arc<T>, Error> {
        let event = self.event(record.subject(), record.version(), change, now)?;
        let written = Arc::clone(&record).into_record();
        let writes = std::iter::once(written.clone()).chain(beside).collect();
        let changes = ChangeSet { guards, writes, events: vec![event], ..ChangeSet::default() };
        match self.store().commit(changes).await {
            Ok(()) => Ok(record),
            Err(StoreError::Taken(unique)) => Err(self.taken(unique, written).await?),
            Err(error) => Err(Error::Store(error)),
        }
    }

    /// Commits that a record is gone, with its event.
    pub(crate) async fn commit_deleted<T: ServiceRecord>(
        &self,
        record: &T,
        guards: Vec<Guard>,
    ) -> Result<(), Error> {
        let (subject, version) = (record.subject(), record.version());
        let event = self.event(subject.clone(), version.next(), Change::Deleted, self.now())?;
        let delete = Delete { key: subject.into(), version };
        let changes = ChangeSet {
            guards,
            deletes: vec![delete],
            events: vec![event],
            ..ChangeSet::default()
        };
        match self.store().commit(changes).await {
            Err(StoreError::PlanInUse(_)) => Err(Conflict::PlanInUse.into()),
            done => done.map_err(Error::Store),
        }
    }

    /// A new event of the service's actor.
    pub(crate) fn event(
        &self,
        subject: Subject,
        version: Version,
        change: Change,
        at: Timestamp,
    ) -> Result<Event, Error> {
        let (id, actor) = (EventId::new(at, self.ids())?, Some(self.actor.clone()));
        Ok(Event { id, at, subject, version, change, actor })
    }

    /// The error for a value that another record has.
    async fn taken(&self, unique: Unique, write: Record) -> Result<Error, Error> {
        let mut holder = None;
        for value in write.unique_values().filter(|value| value.rule() == unique) {
            holder = self.store().find(value).await?.map(|record| record.key());
        }
        Ok(match holder.filter(|holder| *holder != write.key()) {
            Some(holder) => Conflict::Taken { unique, holder }.into(),
            // Whoever had it is gone by now, or the record itself has it: decide again.
            None => Error::Store(StoreError::Conflict(write.key())),
        })
    }
}

/// The idempotency record of a key has expired, and is no newer one of the same version.
fn still_expired(key: &IdempotencyKey, by: Timestamp) -> Guard {
    Guard::Expired { key: key.clone(), by }
}

/// Checks that a record is still at the version that the caller had read.
pub(crate) fn expect_version(
    record: &impl ServiceRecord,
    if_version: Option<Version>,
) -> Result<(), Error> {
    let current = record.version();
    if if_version.is_some_and(|expected| expected != current) {
        return Err(Error::Stale { key: record.subject().into(), current });
    }
    Ok(())
}

/// Gives what was found, or says that it was not.
pub(crate) fn found<T>(
    record: Result<Option<T>, StoreError>,
    kind: &'static str,
    name: impl fmt::Display,
) -> Result<T, Error> {
    let found = record?;
    found.ok_or_else(|| Error::NotFound { record: kind, name: name.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use crate::values::clock::ManualClock;
    use crate::values::randomness::SeededRandomness;

    #[test]
    fn the_parts_of_a_service_may_be_shared_and_chosen_at_run_time() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::MAX));
        let ids: Arc<dyn Randomness> = Arc::new(SeededRandomness::new(1));

        let service = SubscriptionService::builder(Arc::new(MemoryStore::default()))
            .clock(Arc::clone(&clock))
            .ids(Arc::clone(&ids))
            .build();

        assert_eq!(service.now(), clock.now());
        let made = EventId::new(service.now(), service.ids()).unwrap();
        assert_ne!(EventId::new(clock.now(), &ids).unwrap(), made);
    }
}
