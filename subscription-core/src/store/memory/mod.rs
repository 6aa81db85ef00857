//! A store in the memory of the process.
//!
//! One lock over records in slots, hash tables to find them by and ordered indexes for the lists. A
//! commit is checked as a whole before anything of it is applied, so a refused one has nothing to undo.

mod access;
mod accounts;
mod idempotency;
mod index;
mod payments;
mod plans;
mod records;
mod scan;
mod subscriptions;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;

use self::accounts::{ClientTable, SessionTable, UserTable};
use self::idempotency::IdempotencyTable;
use self::payments::PaymentTable;
use self::plans::PlanTable;
use self::subscriptions::SubscriptionTable;
use super::Store;
use super::access_class::is_by_access;
use super::change_set::{ChangeSet, Guard, Key, Write};
use super::error::{StoreError, Unique};
use super::idempotency::{IdempotencyKey, IdempotencyRecord};
use super::query::{Page, PageLimit, PaymentQuery, PlanQuery, SubscriptionQuery};
use crate::accounts::{Client, IdentityKey, Session, User};
use crate::events::{Event, RecordedEvent};
use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
use crate::values::clock::Timestamp;
use crate::values::id::{PaymentId, PlanId, SessionId, SubscriptionId, UserId};
use crate::values::text::{ExternalId, Slug};
use crate::values::version::Version;

/// Records by their ids, which callers cannot choose: a hash that is quick will do.
type ById<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Keeps everything in memory, for tests and for services that need no more.
///
/// Reads share the records and copy none. Every list walks an index that matches its filter and its
/// order. What is in it ends with the process.
#[derive(Debug, Default)]
pub struct MemoryStore(RwLock<Tables>);

#[derive(Debug, Default)]
struct Tables {
    plans: PlanTable,
    subscriptions: SubscriptionTable,
    payments: PaymentTable,
    users: UserTable,
    sessions: SessionTable,
    clients: ClientTable,
    idempotency: IdempotencyTable,
    events: VecDeque<Event>,
    /// The sequence of the last event that is gone from the front of `events`.
    forgotten: u64,
}

impl MemoryStore {
    // A panic cannot leave a commit half applied: it is checked first, and applying cannot fail. So
    // a poisoned lock holds sound tables.
    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn version(&self, key: &Key) -> Version {
        match key {
            Key::Plan(id) => self.plans.get(*id).map(|plan| plan.version),
            Key::Subscription(id) => self.subscriptions.get(*id).map(|found| found.version),
            Key::Payment(id) => self.payments.get(*id).map(|payment| payment.version),
            Key::User(id) => self.users.get(*id).map(|user| user.version),
            Key::Session(id) => self.sessions.get(*id).map(|session| session.version),
            Key::Client(id) => self.clients.get(id).map(|client| client.version),
            Key::Idempotency(key) => self.idempotency.get(key).map(|record| record.version),
        }
        .unwrap_or(Version::NEW)
    }

    fn check(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        changes.check().map_err(StoreError::BadChangeSet)?;
        self.check_room(changes)?;
        let unchanged = |key: &Key, version: Version| {
            if self.version(key) == version {
                Ok(())
            } else {
                Err(StoreError::Conflict(key.clone()))
            }
        };
        for guard in &changes.guards {
            if let Guard::Unchanged { key, version } = guard {
                unchanged(key, *version)?;
            }
        }
        for write in &changes.writes {
            unchanged(&write.key(), write.version().previous())?;
        }
        for delete in &changes.deletes {
            unchanged(&delete.key, delete.version)?;
        }
        self.check_unused(changes)?;
        self.check_live(changes)?;
        self.check_expired(changes)?;
        self.check_unique(changes)
    }

    /// Slots have numbers of 32 bits.
    fn check_room(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        let (plans, most) = (self.plans.len(), self.subscriptions.len().max(self.payments.len()));
        let after = plans.max(most).saturating_add(changes.writes.len());
        u32::try_from(after).map(|_| ()).map_err(|full| StoreError::Unavailable(full.into()))
    }

    fn check_unused(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        let deleted = |id: SubscriptionId| {
            changes.deletes.iter().any(|delete| delete.key == Key::Subscription(id))
        };
        for guard in &changes.guards {
            if let Guard::PlanUnused(plan) = guard
                && self.subscriptions.of_plan(*plan).any(|id| !deleted(id))
            {
                return Err(StoreError::PlanInUse(*plan));
            }
        }
        Ok(())
    }

    fn check_live(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        for guard in &changes.guards {
            let Guard::NoOtherLiveSubscription(user) = guard else { continue };
            let named = changes.subscriptions_named();
            if self.subscriptions.live_of_user(*user).any(|id| !named.contains(&id)) {
                return Err(StoreError::Conflict(Key::User(*user)));
            }
        }
        Ok(())
    }

    fn check_expired(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        for guard in &changes.guards {
            let Guard::Expired { key, by } = guard else { continue };
            if self.idempotency.get(key).is_none_or(|record| record.expires_at > *by) {
                return Err(StoreError::Conflict(Key::Idempotency(key.clone())));
            }
        }
        Ok(())
    }

    fn check_unique(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        let mut values = HashSet::new();
        let deleted = |key: &Key| changes.deletes.iter().any(|delete| delete.key == *key);
        for write in &changes.writes {
            for (unique, value) in unique_values(write) {
                let holder = self.holder(write, unique).filter(|holder| *holder != write.key());
                let twice = changes.writes.len() > 1 && !values.insert((unique, value));
                if twice || holder.is_some_and(|holder| !deleted(&holder)) {
                    return Err(StoreError::Taken(unique));
                }
            }
        }
        Ok(())
    }

    /// The record that has a unique value of the one to be written.
    fn holder(&self, write: &Write, unique: Unique) -> Option<Key> {
        match write {
            Write::Plan(plan) => self.plans.by_slug(&plan.slug).map(|found| Key::Plan(found.id)),
            Write::Subscription(subscription) => {
                let id = subscription.external_subscription_id.as_ref()?;
                self.subscriptions.by_external_id(id).map(|found| Key::Subscription(found.id))
            }
            Write::Payment(payment) => {
                let id = payment.external_payment_id.as_ref()?;
                self.payments.by_external_id(id).map(|found| Key::Payment(found.id))
            }
            Write::User(user) => {
                let holder = if unique == Unique::UserEmail {
                    self.users.by_email(&user.email)
                } else {
                    self.users.by_identity(&user.identity)
                };
                holder.map(|found| Key::User(found.id))
            }
            Write::Session(_) | Write::Client(_) | Write::Idempotency(_) => None,
        }
    }

    fn apply(&mut self, changes: ChangeSet) {
        for delete in changes.deletes {
            match delete.key {
                Key::Plan(id) => self.plans.delete(id),
                Key::Subscription(id) => self.subscriptions.delete(id),
                Key::Payment(id) => self.payments.delete(id),
                Key::User(id) => self.users.delete(id),
                Key::Session(id) => self.sessions.delete(id),
                Key::Client(id) => {
                    self.clients.remove(&id);
                }
                Key::Idempotency(key) => self.idempotency.delete(&key),
            }
        }
        for write in changes.writes {
            match write {
                Write::Plan(plan) => self.plans.put(plan),
                Write::Subscription(subscription) => self.subscriptions.put(subscription),
                Write::Payment(payment) => self.payments.put(payment),
                Write::User(user) => self.users.put(user),
                Write::Session(session) => self.sessions.put(session),
                Write::Client(client) => {
                    self.clients.insert(client.id.clone(), Arc::new(client));
                }
                Write::Idempotency(record) => self.idempotency.put(record),
            }
        }
        self.events.extend(changes.events);
        if let Some(last) = changes.forget_events {
            while self.forgotten < last && self.events.pop_front().is_some() {
                self.forgotten += 1;
            }
        }
    }
}

/// What no other record may have.
fn unique_values(write: &Write) -> impl Iterator<Item = (Unique, Cow<'_, str>)> {
    let values = match write {
        Write::Plan(plan) => [Some((Unique::PlanSlug, plan.slug.as_str().into())), None],
        Write::Subscription(Subscription { external_subscription_id: id, .. }) => {
            [id.as_ref().map(|id| (Unique::ExternalSubscription, id.as_str().into())), None]
        }
        Write::Payment(Payment { external_payment_id: id, .. }) => {
            [id.as_ref().map(|id| (Unique::ExternalPayment, id.as_str().into())), None]
        }
        Write::User(User { identity: IdentityKey { issuer, subject }, email, .. }) => [
            // Neither part has a control character.
            Some((Unique::UserIdentity, format!("{issuer}\0{subject}").into())),
            Some((Unique::UserEmail, email.key().into())),
        ],
        Write::Session(_) | Write::Client(_) | Write::Idempotency(_) => [None, None],
    };
    values.into_iter().flatten()
}

#[async_trait]
impl Store for MemoryStore {
    async fn plan(&self, id: PlanId) -> Result<Option<Arc<Plan>>, StoreError> {
        Ok(self.read().plans.get(id).cloned())
    }

    async fn plan_by_slug(&self, slug: &Slug) -> Result<Option<Arc<Plan>>, StoreError> {
        Ok(self.read().plans.by_slug(slug).cloned())
    }

    async fn plans(&self, query: &PlanQuery) -> Result<Page<Arc<Plan>>, StoreError> {
        Ok(self.read().plans.page(query))
    }

    async fn subscription(
        &self,
        id: SubscriptionId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        Ok(self.read().subscriptions.get(id).cloned())
    }

    async fn subscription_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        Ok(self.read().subscriptions.by_external_id(id).cloned())
    }

    async fn subscriptions(
        &self,
        query: &SubscriptionQuery,
    ) -> Result<Page<Arc<Subscription>>, StoreError> {
        // Subscriptions that began or ended since the last such list move to their new class once,
        // instead of being passed by each time.
        if is_by_access(&query.filter) && self.read().subscriptions.is_behind(query.now) {
            self.write().subscriptions.move_due(query.now);
        }
        Ok(self.read().subscriptions.page(query))
    }

    async fn payment(&self, id: PaymentId) -> Result<Option<Arc<Payment>>, StoreError> {
        Ok(self.read().payments.get(id).cloned())
    }

    async fn payment_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Payment>>, StoreError> {
        Ok(self.read().payments.by_external_id(id).cloned())
    }

    async fn payments(&self, query: &PaymentQuery) -> Result<Page<Arc<Payment>>, StoreError> {
        Ok(self.read().payments.page(query))
    }

    async fn user(&self, id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        Ok(self.read().users.get(id).cloned())
    }

    async fn user_by_identity(
        &self,
        identity: &IdentityKey,
    ) -> Result<Option<Arc<User>>, StoreError> {
        Ok(self.read().users.by_identity(identity).cloned())
    }

    async fn closing_users(&self, limit: PageLimit) -> Result<Vec<Arc<User>>, StoreError> {
        Ok(self.read().users.closing(limit.get()))
    }

    async fn session(&self, id: SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        Ok(self.read().sessions.get(id).cloned())
    }

    async fn sessions(
        &self,
        user: UserId,
        now: Timestamp,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        Ok(self.read().sessions.live(user, now))
    }

    async fn ended_sessions_of(
        &self,
        user: UserId,
        now: Timestamp,
        skip: usize,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        Ok(self.read().sessions.ended_of(user, now, skip, limit.get()))
    }

    async fn ended_sessions(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        Ok(self.read().sessions.ended(before, limit.get()))
    }

    async fn client(&self, id: &Slug) -> Result<Option<Arc<Client>>, StoreError> {
        Ok(self.read().clients.get(id).cloned())
    }

    async fn clients(&self) -> Result<Vec<Arc<Client>>, StoreError> {
        Ok(self.read().clients.values().cloned().collect())
    }

    async fn idempotency(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<Arc<IdempotencyRecord>>, StoreError> {
        Ok(self.read().idempotency.get(key).cloned())
    }

    async fn expired_idempotency(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<IdempotencyRecord>>, StoreError> {
        Ok(self.read().idempotency.expired(now, limit.get()))
    }

    async fn events(&self, after: u64, limit: PageLimit) -> Result<Vec<RecordedEvent>, StoreError> {
        let tables = self.read();
        let forgotten = tables.forgotten;
        let skipped = usize::try_from(after.saturating_sub(forgotten)).unwrap_or(usize::MAX);
        let from = skipped.min(tables.events.len());
        let events = tables.events.range(from..).zip(forgotten.max(after).saturating_add(1)..);
        let recorded =
            |(event, sequence): (&Event, u64)| RecordedEvent { sequence, event: event.clone() };
        Ok(events.take(limit.get()).map(recorded).collect())
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let mut tables = self.write();
        // Checked for the whole change set before anything is written: a half-applied set would
        // leave an event about a change that never happened.
        tables.check(&changes)?;
        tables.apply(changes);
        Ok(())
    }
}
