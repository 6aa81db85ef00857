//! A store with one fault of choice, to show that the suite finds it.

mod commits;
mod fault;
mod lists;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use subscription_core::auth::{Client, IdentityKey, Session, User};
use subscription_core::events::RecordedEvent;
use subscription_core::store::{
    ChangeSet, IdempotencyKey, IdempotencyRecord, Key, Page, PageLimit, PaymentQuery, PlanQuery,
    StoreError, SubscriptionQuery, Unique, Write,
};
use subscription_core::{
    Amount, EventId, ExternalId, MemoryStore, Payment, PaymentId, Plan, PlanId, SessionId, Slug,
    Store, Subscription, SubscriptionId, Timestamp, UserId, Version,
};
use uuid::Uuid;

pub(super) use self::fault::Fault;

/// A [`MemoryStore`] that a fault stands in front of.
#[derive(Debug)]
pub(super) struct FaultyStore {
    fault: Option<Fault>,
    inner: MemoryStore,
    memory: Mutex<Memory>,
}

/// State that faults keep.
#[derive(Debug, Default)]
struct Memory {
    values: HashSet<(Unique, String)>,
    plans: HashMap<PlanId, Option<Arc<Plan>>>,
    slugs: HashMap<Slug, Arc<Plan>>,
    firsts: HashMap<Uuid, Write>,
    places: HashMap<Uuid, usize>,
    subscriptions: HashSet<SubscriptionId>,
    sequences: HashMap<EventId, u64>,
}

impl FaultyStore {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self { fault, inner: MemoryStore::default(), memory: Mutex::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap()
    }

    async fn stored(&self, key: &Key) -> Option<Write> {
        match key {
            Key::Plan(id) => {
                self.inner.plan(*id).await.unwrap().map(|found| Write::Plan((*found).clone()))
            }
            Key::Subscription(id) => {
                let found = self.inner.subscription(*id).await.unwrap();
                found.map(|found| Write::Subscription((*found).clone()))
            }
            Key::Payment(id) => {
                let found = self.inner.payment(*id).await.unwrap();
                found.map(|found| Write::Payment((*found).clone()))
            }
            Key::User(id) => {
                self.inner.user(*id).await.unwrap().map(|found| Write::User((*found).clone()))
            }
            Key::Session(id) => {
                let found = self.inner.session(*id).await.unwrap();
                found.map(|found| Write::Session((*found).clone()))
            }
            Key::Client(id) => {
                self.inner.client(id).await.unwrap().map(|found| Write::Client((*found).clone()))
            }
            Key::Idempotency(key) => {
                let found = self.inner.idempotency(key).await.unwrap();
                found.map(|found| Write::Idempotency((*found).clone()))
            }
        }
    }

    async fn version(&self, key: &Key) -> Version {
        self.stored(key).await.map_or(Version::NEW, |found| found.version())
    }

    fn read_subscription(&self, found: Arc<Subscription>) -> Arc<Subscription> {
        let to_millis =
            |at: Timestamp| Timestamp::from_micros(at.micros() / 1_000 * 1_000).unwrap();
        match self.fault {
            Some(Fault::LosesBlocked) => {
                Arc::new(Subscription { blocked: false, ..(*found).clone() })
            }
            Some(Fault::CutsTimesToMilliseconds) => Arc::new(Subscription {
                renews_at: found.renews_at.map(to_millis),
                ..(*found).clone()
            }),
            _ => found,
        }
    }

    fn read_plan(&self, found: Arc<Plan>) -> Arc<Plan> {
        if self.has(Fault::NormalizesPrices) {
            let price = Amount::try_from(found.price.value().normalize()).unwrap();
            return Arc::new(Plan { price, ..(*found).clone() });
        }
        found
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn plan(&self, id: PlanId) -> Result<Option<Arc<Plan>>, StoreError> {
        let found = self.inner.plan(id).await?.map(|found| self.read_plan(found));
        if self.has(Fault::ServesPlansFromAStaleCache) {
            return Ok(self.memory().plans.entry(id).or_insert(found).clone());
        }
        Ok(found)
    }

    async fn plan_by_slug(&self, slug: &Slug) -> Result<Option<Arc<Plan>>, StoreError> {
        let found = self.inner.plan_by_slug(slug).await?;
        if self.has(Fault::FindsDeletedPlansBySlug) {
            return Ok(found.or_else(|| self.memory().slugs.get(slug).cloned()));
        }
        Ok(found)
    }

    async fn plans(&self, query: &PlanQuery) -> Result<Page<Arc<Plan>>, StoreError> {
        lists::plans(self, query.clone()).await
    }

    async fn subscription(
        &self,
        id: SubscriptionId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        Ok(self.inner.subscription(id).await?.map(|found| self.read_subscription(found)))
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
        lists::subscriptions(self, query.clone()).await
    }

    async fn payment(&self, id: PaymentId) -> Result<Option<Arc<Payment>>, StoreError> {
        let found = self.inner.payment(id).await?;
        if self.has(Fault::LosesSettled) {
            return Ok(found.map(|found| Arc::new(Payment { settled: false, ..(*found).clone() })));
        }
        Ok(found)
    }

    async fn payment_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Payment>>, StoreError> {
        self.inner.payment_by_external_id(id).await
    }

    async fn payments(&self, query: &PaymentQuery) -> Result<Page<Arc<Payment>>, StoreError> {
        lists::payments(self, query.clone()).await
    }

    async fn user(&self, id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        self.inner.user(id).await
    }

    async fn user_by_identity(
        &self,
        identity: &IdentityKey,
    ) -> Result<Option<Arc<User>>, StoreError> {
        if self.has(Fault::FindsUsersBySubjectAlone) {
            for issuer in ["https://id.example.com", "https://other"] {
                let issuer = issuer.parse().unwrap();
                let identity = IdentityKey { issuer, ..identity.clone() };
                if let Some(found) = self.inner.user_by_identity(&identity).await? {
                    return Ok(Some(found));
                }
            }
        }
        self.inner.user_by_identity(identity).await
    }

    async fn closing_users(&self, limit: PageLimit) -> Result<Vec<Arc<User>>, StoreError> {
        let mut found = self.inner.closing_users(limit).await?;
        if self.has(Fault::HidesClosingUsers) {
            found.clear();
        }
        Ok(found)
    }

    async fn session(&self, id: SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        let found = self.inner.session(id).await?;
        if self.has(Fault::LosesRevocations) {
            return Ok(found.map(|found| Arc::new(Session { revoked: None, ..(*found).clone() })));
        }
        Ok(found)
    }

    async fn sessions(
        &self,
        user: UserId,
        now: Timestamp,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        let mut found = self.inner.sessions(user, now).await?;
        if self.has(Fault::ListsSessionsOldestFirst) {
            found.reverse();
        }
        if self.has(Fault::ListsEndedSessionsAsLive) {
            found.extend(self.inner.ended_sessions_of(user, now, 0, PageLimit::MAX).await?);
        }
        Ok(found)
    }

    async fn ended_sessions_of(
        &self,
        user: UserId,
        now: Timestamp,
        skip: usize,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        let skip = if self.has(Fault::SkipsNoEndedSessions) { 0 } else { skip };
        self.inner.ended_sessions_of(user, now, skip, limit).await
    }

    async fn ended_sessions(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        let mut ended = self.inner.ended_sessions(before, limit).await?;
        if self.has(Fault::ListsEndedSessionsTooLate) {
            ended.retain(|session| session.ended_at() < before);
        }
        Ok(ended)
    }

    async fn client(&self, id: &Slug) -> Result<Option<Arc<Client>>, StoreError> {
        self.inner.client(id).await
    }

    async fn clients(&self) -> Result<Vec<Arc<Client>>, StoreError> {
        let mut clients = self.inner.clients().await?;
        if self.has(Fault::HidesShutOutClients) {
            clients.retain(|client| client.revoked_at.is_none());
        }
        Ok(clients)
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
        let just_before = Timestamp::from_micros(now.micros() - 1).unwrap_or(Timestamp::MIN);
        match self.fault {
            Some(Fault::ListsUnexpiredAnswers) => {
                self.inner.expired_idempotency(Timestamp::MAX, limit).await
            }
            Some(Fault::ListsAnswersTooLate) => {
                self.inner.expired_idempotency(just_before, limit).await
            }
            Some(Fault::ListsExpiredAnswersBackwards) => {
                let mut all = self.inner.expired_idempotency(now, PageLimit::MAX).await?;
                all.reverse();
                all.truncate(limit.get());
                Ok(all)
            }
            _ => self.inner.expired_idempotency(now, limit).await,
        }
    }

    async fn events(&self, after: u64, limit: PageLimit) -> Result<Vec<RecordedEvent>, StoreError> {
        match self.fault {
            Some(Fault::ReversesTheFeed) => {
                let mut page = self.inner.events(after, limit).await?;
                page.reverse();
                Ok(page)
            }
            Some(Fault::NumbersTheFeedAnew) => {
                let all = self.inner.events(0, PageLimit::MAX).await?.into_iter().zip(1..);
                let anew = all.map(|(recorded, sequence)| RecordedEvent { sequence, ..recorded });
                Ok(anew.filter(|recorded| recorded.sequence > after).take(limit.get()).collect())
            }
            Some(Fault::RepeatsTheLastEventSeen) => {
                self.inner.events(after.saturating_sub(1), limit).await
            }
            Some(Fault::NumbersEventsBeforeLocking) => {
                let mut all = self.inner.events(0, PageLimit::MAX).await?;
                for recorded in &mut all {
                    recorded.sequence = self.memory().sequences[&recorded.event.id];
                }
                all.sort_by_key(|recorded| recorded.sequence);
                all.retain(|recorded| recorded.sequence > after);
                all.truncate(limit.get());
                Ok(all)
            }
            Some(Fault::IgnoresTheLimitOfEvents) => self.inner.events(after, PageLimit::MAX).await,
            _ => self.inner.events(after, limit).await,
        }
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.commit_faultily(changes).await
    }
}
