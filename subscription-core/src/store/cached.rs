//! A read-through cache of plans and clients over another store.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use moka::ops::compute::Op;
use moka::sync::Cache;

use super::{
    ChangeSet, Delete, IdempotencyKey, IdempotencyRecord, Key, Page, PageLimit, PaymentQuery,
    PlanQuery, Store, StoreError, SubscriptionQuery, Write,
};
use crate::accounts::{Client, IdentityKey, Session, User};
use crate::events::RecordedEvent;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
use crate::values::clock::Timestamp;
use crate::values::id::{PaymentId, PlanId, SessionId, SubscriptionId, UserId};
use crate::values::text::{ExternalId, Slug};
use crate::values::version::Version;

/// Records of a kind that are kept in memory, at the most.
const RECORDS_MAX: u64 = 10_000;

/// A store that keeps plans and clients in memory: what every request reads and hardly any changes.
///
/// What is committed through it is seen through it at once. What other processes commit is seen as
/// soon as [`CacheInvalidator::forget`] is told of it, and after `lag` at the latest. A record never goes back to an
/// earlier version. Sessions and users are always read from the store itself: a revocation holds at
/// once.
#[derive(Debug)]
pub struct CachedStore<S> {
    inner: Arc<S>,
    memory: CacheInvalidator,
}

/// What a [`CachedStore`] has in memory.
#[derive(Debug, Clone)]
pub struct CacheInvalidator {
    plans: Cache<PlanId, Entry<Plan>>,
    slugs: Cache<Slug, PlanId>,
    clients: Cache<Slug, Entry<Client>>,
    hits: Arc<AtomicU64>,
    misses: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Entry<T> {
    /// No earlier version is taken into memory again.
    version: Version,
    record: Option<Arc<T>>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self { version: self.version, record: self.record.clone() }
    }
}

impl CacheInvalidator {
    fn new(lag: Duration) -> Self {
        Self {
            plans: Cache::builder().max_capacity(RECORDS_MAX).time_to_live(lag).build(),
            slugs: Cache::builder().max_capacity(RECORDS_MAX).time_to_live(lag).build(),
            clients: Cache::builder().max_capacity(RECORDS_MAX).time_to_live(lag).build(),
            hits: Arc::default(),
            misses: Arc::default(),
        }
    }

    /// Forgets a record of which there is a new version, or if it is gone the one after its last.
    pub fn forget(&self, key: &Key, version: Version) {
        match key {
            Key::Plan(id) => keep(&self.plans, *id, version, None),
            Key::Client(id) => keep(&self.clients, id.clone(), version, None),
            Key::Subscription(_)
            | Key::Payment(_)
            | Key::User(_)
            | Key::Session(_)
            | Key::Idempotency(_) => {}
        }
    }

    /// Forgets all: something may have changed without a word.
    pub fn forget_all(&self) {
        self.plans.invalidate_all();
        self.slugs.invalidate_all();
        self.clients.invalidate_all();
    }

    /// How often a record was in memory when it was asked for.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// How often the store had to be asked.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    fn counted<T>(&self, found: Option<T>) -> Option<T> {
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    fn put_plan(&self, plan: &Arc<Plan>) {
        self.slugs.insert(plan.slug.clone(), plan.id);
        keep(&self.plans, plan.id, plan.version, Some(Arc::clone(plan)));
    }

    fn put_client(&self, client: &Arc<Client>) {
        keep(&self.clients, client.id.clone(), client.version, Some(Arc::clone(client)));
    }

    /// Takes over what was committed.
    fn take_over(&self, writes: &[Write], deletes: &[Delete]) {
        for write in writes {
            match write {
                Write::Plan(plan) => self.put_plan(&Arc::new(plan.clone())),
                Write::Client(client) => self.put_client(&Arc::new(client.clone())),
                Write::Subscription(_)
                | Write::Payment(_)
                | Write::User(_)
                | Write::Session(_)
                | Write::Idempotency(_) => {}
            }
        }
        for delete in deletes {
            self.forget(&delete.key, delete.version.next());
        }
    }

    /// Forgets what is about to be written or deleted: it is not taken into memory again as it is now.
    fn make_way(&self, writes: &[Write], deletes: &[Delete]) {
        for write in writes {
            self.forget(&write.key(), write.version());
        }
        for delete in deletes {
            self.forget(&delete.key, delete.version.next());
        }
    }

    /// Forgets a record, though no later version of it is known.
    fn read_anew(&self, key: &Key) {
        match key {
            Key::Plan(id) => empty(&self.plans, *id),
            Key::Client(id) => empty(&self.clients, id.clone()),
            Key::Subscription(_)
            | Key::Payment(_)
            | Key::User(_)
            | Key::Session(_)
            | Key::Idempotency(_) => {}
        }
    }
}

/// Keeps no more of a record than its version.
fn empty<K: Hash + Eq + Send + Sync + 'static, T: Send + Sync + 'static>(
    cache: &Cache<K, Entry<T>>,
    key: K,
) {
    cache.entry(key).and_compute_with(|known| match known {
        Some(known) => Op::Put(Entry { version: known.value().version, record: None }),
        None => Op::Nop,
    });
}

/// Keeps a record, unless a later version of it is known.
fn keep<K: Hash + Eq + Send + Sync + 'static, T: Send + Sync + 'static>(
    cache: &Cache<K, Entry<T>>,
    key: K,
    version: Version,
    record: Option<Arc<T>>,
) {
    cache.entry(key).and_compute_with(|known| match known {
        Some(known) if known.value().version > version => Op::Nop,
        // The same version, forgotten, is no news to who has it.
        Some(known) if known.value().version == version && record.is_none() => Op::Nop,
        _ => Op::Put(Entry { version, record }),
    });
}

impl<S: Store> CachedStore<S> {
    /// How long a record is believed by default, where nobody tells of its changes.
    pub const LAG: Duration = Duration::from_secs(3);

    /// Puts memory in front of a store; what others change is seen after `lag` at the latest.
    pub fn new(inner: Arc<S>, lag: Duration) -> Self {
        Self { inner, memory: CacheInvalidator::new(lag) }
    }

    /// What is in memory, for who hears of changes.
    pub const fn memory(&self) -> &CacheInvalidator {
        &self.memory
    }

    fn plan_in_memory(&self, id: PlanId) -> Option<Arc<Plan>> {
        self.memory.plans.get(&id)?.record
    }
}

#[async_trait]
impl<S: Store> Store for CachedStore<S> {
    async fn plan(&self, id: PlanId) -> Result<Option<Arc<Plan>>, StoreError> {
        if let Some(plan) = self.memory.counted(self.plan_in_memory(id)) {
            return Ok(Some(plan));
        }
        let found = self.inner.plan(id).await?;
        if let Some(plan) = &found {
            self.memory.put_plan(plan);
        }
        Ok(found)
    }

    async fn plan_by_slug(&self, slug: &Slug) -> Result<Option<Arc<Plan>>, StoreError> {
        let known = self.memory.slugs.get(slug).and_then(|id| self.plan_in_memory(id));
        if let Some(plan) = self.memory.counted(known.filter(|plan| plan.slug == *slug)) {
            return Ok(Some(plan));
        }
        let found = self.inner.plan_by_slug(slug).await?;
        if let Some(plan) = &found {
            self.memory.put_plan(plan);
        }
        Ok(found)
    }

    async fn plans(&self, query: &PlanQuery) -> Result<Page<Arc<Plan>>, StoreError> {
        self.inner.plans(query).await
    }

    async fn subscription(
        &self,
        id: SubscriptionId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        self.inner.subscription(id).await
    }

    async fn subscription_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        self.inner.subscription_by_external_id(id).await
    }

    async fn subscriptions(
        &self,
        query: &SubscriptionQuery,
    ) -> Result<Page<Arc<Subscription>>, StoreError> {
        self.inner.subscriptions(query).await
    }

    async fn payment(&self, id: PaymentId) -> Result<Option<Arc<Payment>>, StoreError> {
        self.inner.payment(id).await
    }

    async fn payment_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Payment>>, StoreError> {
        self.inner.payment_by_external_id(id).await
    }

    async fn payments(&self, query: &PaymentQuery) -> Result<Page<Arc<Payment>>, StoreError> {
        self.inner.payments(query).await
    }

    async fn user(&self, id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        self.inner.user(id).await
    }

    async fn user_by_identity(
        &self,
        identity: &IdentityKey,
    ) -> Result<Option<Arc<User>>, StoreError> {
        self.inner.user_by_identity(identity).await
    }

    async fn closing_users(&self, limit: PageLimit) -> Result<Vec<Arc<User>>, StoreError> {
        self.inner.closing_users(limit).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        self.inner.session(id).await
    }

    async fn sessions(
        &self,
        user: UserId,
        now: Timestamp,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        self.inner.sessions(user, now).await
    }

    async fn ended_sessions_of(
        &self,
        user: UserId,
        now: Timestamp,
        skip: usize,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        self.inner.ended_sessions_of(user, now, skip, limit).await
    }

    async fn ended_sessions(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        self.inner.ended_sessions(before, limit).await
    }

    async fn client(&self, id: &Slug) -> Result<Option<Arc<Client>>, StoreError> {
        let known = self.memory.clients.get(id).and_then(|entry| entry.record);
        if let Some(client) = self.memory.counted(known) {
            return Ok(Some(client));
        }
        let found = self.inner.client(id).await?;
        if let Some(client) = &found {
            self.memory.put_client(client);
        }
        Ok(found)
    }

    async fn clients(&self) -> Result<Vec<Arc<Client>>, StoreError> {
        self.inner.clients().await
    }

    async fn idempotency(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<Arc<IdempotencyRecord>>, StoreError> {
        self.inner.idempotency(key).await
    }

    async fn expired_idempotency(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<IdempotencyRecord>>, StoreError> {
        self.inner.expired_idempotency(now, limit).await
    }

    async fn events(&self, after: u64, limit: PageLimit) -> Result<Vec<RecordedEvent>, StoreError> {
        self.inner.events(after, limit).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let in_memory = |key: &Key| matches!(key, Key::Plan(_) | Key::Client(_));
        let writes: Vec<_> =
            changes.writes.iter().filter(|write| in_memory(&write.key())).cloned().collect();
        let deletes: Vec<_> =
            changes.deletes.iter().filter(|delete| in_memory(&delete.key)).cloned().collect();
        // Until it is known what became of it, also if the caller does not wait for that, all is read
        // from the store: whoever has seen a part of the set there must not find the rest here as it was.
        self.memory.make_way(&writes, &deletes);
        let outcome = self.inner.commit(changes).await;
        match &outcome {
            Ok(()) => self.memory.take_over(&writes, &deletes),
            // It was decided on what is in memory: whoever tries again must read anew.
            Err(StoreError::Conflict(key)) => self.memory.read_anew(key),
            Err(_) => {}
        }
        outcome
    }
}
