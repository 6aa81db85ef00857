//! Stores that break their contract, to see that the simulation notices.

use std::sync::Arc;

use async_trait::async_trait;
use subscription_core::auth::{Client, IdentityKey, RevocationReason, Session, User};
use subscription_core::events::{Change, RecordedEvent};
use subscription_core::store::{
    ChangeSet, Guard, IdempotencyKey, IdempotencyRecord, Key, Page, PageLimit, PaymentQuery,
    PlanQuery, StoreError, SubscriptionQuery, Write,
};
use subscription_core::{
    ExternalId, MemoryStore, Payment, PaymentId, Plan, PlanId, SessionId, Slug, Store,
    Subscription, SubscriptionId, Timestamp, UserId, Version,
};

/// How a store is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakage {
    /// Events of updates never arrive.
    DropsEvents,
    /// Events arrive twice.
    RepeatsEvents,
    /// The last writer wins, whatever it had read.
    IgnoresVersions,
    /// A plan is deleted whoever refers to it.
    DeletesUsedPlans,
    /// The answer to a request is not kept with its record.
    DropsAnswers,
    /// A full page lacks its last record.
    CutsPages,
    /// A column is missing: a block on access is not kept.
    DropsBlocks,
    /// A column is missing: a moved anchor is not kept.
    DropsAnchors,
    /// A column is missing: that a payment was settled is not kept.
    DropsSettled,
    /// Deleted payments stay.
    KeepsDeletedPayments,
    /// A column is missing: that a session was revoked is not kept.
    DropsRevocations,
    /// Neither a logout nor its event is kept, as if it had never been.
    LosesLogouts,
    /// Guards are ignored.
    IgnoresGuards,
}

/// A store in memory that is broken in one way.
#[derive(Debug)]
pub struct BrokenStore {
    pub inner: MemoryStore,
    pub breakage: Breakage,
}

impl BrokenStore {
    async fn version(&self, key: &Key) -> Result<Version, StoreError> {
        let version = match key {
            Key::Plan(id) => self.inner.plan(*id).await?.map(|plan| plan.version),
            Key::Subscription(id) => self.inner.subscription(*id).await?.map(|held| held.version),
            Key::Payment(id) => self.inner.payment(*id).await?.map(|payment| payment.version),
            Key::User(id) => self.inner.user(*id).await?.map(|user| user.version),
            Key::Session(id) => self.inner.session(*id).await?.map(|session| session.version),
            Key::Client(id) => self.inner.client(id).await?.map(|client| client.version),
            Key::Idempotency(key) => self.inner.idempotency(key).await?.map(|kept| kept.version),
        };
        Ok(version.unwrap_or(Version::NEW))
    }

    /// Takes revocations out of a change set: their mark only, or logouts altogether.
    fn lose(&self, changes: &mut ChangeSet) {
        let whole = self.breakage == Breakage::LosesLogouts;
        for write in &mut changes.writes {
            if let Write::Session(session) = write {
                let logout = RevocationReason::Logout;
                session.revoked = session.revoked.filter(|by| whole && by.reason != logout);
            }
        }
        let logout = Change::Revoked { reason: RevocationReason::Logout };
        changes.events.retain(|event| !whole || event.change != logout);
    }

    /// Makes a stale change set look as if it had been made for the records as they are.
    async fn rebase(&self, changes: &mut ChangeSet) -> Result<(), StoreError> {
        for write in &mut changes.writes {
            let version = self.version(&write.key()).await?.next();
            match write {
                Write::Plan(plan) => plan.version = version,
                Write::Subscription(subscription) => subscription.version = version,
                Write::Payment(payment) => payment.version = version,
                Write::User(user) => user.version = version,
                Write::Session(session) => session.version = version,
                Write::Client(client) => client.version = version,
                Write::Idempotency(record) => record.version = version,
            }
        }
        for delete in &mut changes.deletes {
            delete.version = self.version(&delete.key).await?;
        }
        for event in &mut changes.events {
            event.version = self.version(&event.subject.clone().into()).await?.next();
        }
        Ok(())
    }
}

#[async_trait]
impl Store for BrokenStore {
    async fn commit(&self, mut changes: ChangeSet) -> Result<(), StoreError> {
        match self.breakage {
            Breakage::DropsEvents => changes.events.retain(|event| event.version == Version::FIRST),
            Breakage::RepeatsEvents => changes.events.extend(changes.events.clone()),
            Breakage::IgnoresVersions => self.rebase(&mut changes).await?,
            Breakage::DeletesUsedPlans => {
                changes.guards.retain(|guard| !matches!(guard, Guard::PlanUnused(_)));
            }
            Breakage::DropsAnswers => {
                changes.writes.retain(|write| !matches!(write, Write::Idempotency(_)));
            }
            Breakage::KeepsDeletedPayments => {
                changes.deletes.retain(|delete| !matches!(delete.key, Key::Payment(_)));
            }
            Breakage::DropsBlocks | Breakage::DropsAnchors | Breakage::DropsSettled => {
                for write in &mut changes.writes {
                    match (self.breakage, write) {
                        (Breakage::DropsBlocks, Write::Subscription(held)) => held.blocked = false,
                        (Breakage::DropsAnchors, Write::Subscription(held)) => {
                            held.anchor_at = None;
                        }
                        (Breakage::DropsSettled, Write::Payment(payment)) => {
                            payment.settled = false;
                        }
                        _ => {}
                    }
                }
            }
            Breakage::DropsRevocations | Breakage::LosesLogouts => self.lose(&mut changes),
            Breakage::IgnoresGuards => changes.guards.clear(),
            Breakage::CutsPages => {}
        }
        self.inner.commit(changes).await
    }

    async fn plans(&self, query: &PlanQuery) -> Result<Page<Arc<Plan>>, StoreError> {
        let mut page = self.inner.plans(query).await?;
        if self.breakage == Breakage::CutsPages && page.next.is_some() {
            page.items.pop();
        }
        Ok(page)
    }

    async fn plan(&self, id: PlanId) -> Result<Option<Arc<Plan>>, StoreError> {
        self.inner.plan(id).await
    }

    async fn plan_by_slug(&self, slug: &Slug) -> Result<Option<Arc<Plan>>, StoreError> {
        self.inner.plan_by_slug(slug).await
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
        self.inner.client(id).await
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
}
