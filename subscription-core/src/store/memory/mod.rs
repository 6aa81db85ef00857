//! A store in the memory of the process.
//!
//! One lock protects hash maps that find records and ordered maps that list them. A commit is checked as a whole before
//! any part of it is applied, so a refused commit has nothing to undo. Read this store before you write your own.

mod access;
mod accounts;
mod documents;
mod idempotency;
mod index;
mod payments;
mod plans;
mod subscriptions;

use std::borrow::{Borrow, Cow};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;

use self::accounts::{ClientTable, SessionTable, UserTable};
use self::documents::DocumentTable;
use self::idempotency::IdempotencyTable;
use self::payments::PaymentTable;
use self::plans::PlanTable;
use self::subscriptions::SubscriptionTable;
use super::Store;
use super::access_class::is_by_access;
use super::change_set::{ChangeSet, Guard};
use super::error::StoreError;
use super::event_query::{EventPage, EventQuery};
use super::query::{ClientQuery, IdempotencyQuery, Page, SessionQuery};
use super::record::{Key, Kind, Query, Record};
use super::unique::UniqueValue;
use super::user_query::UserQuery;
use crate::events::Event;
use crate::values::{SubscriptionId, Version};

/// Records by their ids. A caller cannot choose an id, so a fast hash without protection against chosen keys is safe.
type ById<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// A store in memory, for tests and for services that need no other store.
///
/// A read returns a shared pointer to a record and copies no record. Lists use indexes by their filters and orders; a
/// list of plans with a filter reads all plans. The records are lost when the process ends.
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
    documents: DocumentTable,
    events: VecDeque<Event>,
    /// The sequence of the last event that was deleted from the front of `events`; 0 if no event was deleted.
    forgotten: u64,
}

impl MemoryStore {
    // A commit is checked first, and applying it cannot fail. So a panic cannot leave a commit half applied, and the
    // tables are correct even if the lock is poisoned.
    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn get(&self, key: &Key) -> Option<Record> {
        match key {
            Key::Plan(id) => record(self.plans.get(*id)),
            Key::Subscription(id) => record(self.subscriptions.get(*id)),
            Key::Payment(id) => record(self.payments.get(*id)),
            Key::User(id) => record(self.users.get(*id)),
            Key::Session(id) => record(self.sessions.get(*id)),
            Key::Client(id) => record(self.clients.get(id)),
            Key::Idempotency(key) => record(self.idempotency.get(key)),
            Key::Document(key) => record(self.documents.get(key)),
        }
    }

    fn find(&self, value: UniqueValue<'_>) -> Option<Record> {
        match value {
            UniqueValue::PlanSlug(slug) => record(self.plans.by_slug(slug)),
            UniqueValue::ExternalSubscription(id) => record(self.subscriptions.by_external_id(id)),
            UniqueValue::ExternalPayment(id) => record(self.payments.by_external_id(id)),
            UniqueValue::LiveKey(key) => record(self.subscriptions.by_live_key(key)),
            UniqueValue::PaymentPeriod(of, start) => record(self.payments.by_period(of, start)),
            UniqueValue::UserIdentity(identity) => record(self.users.by_identity(identity)),
            UniqueValue::UserEmail(email) => record(self.users.by_email(email)),
        }
    }

    fn list(&self, query: &Query) -> Page<Record> {
        query.page(match query {
            Query::Plan(query) => records(self.plans.page(query)),
            Query::Subscription(query) => records(self.subscriptions.page(query)),
            Query::Payment(query) => {
                let of_user = query.user_id.map(|user| self.subscriptions.of_user(user).collect());
                records(self.payments.page(query, of_user))
            }
            Query::User(UserQuery::Closing { limit }) => records(self.users.closing(limit.get())),
            Query::User(UserQuery::Open { filter, after, limit }) => {
                records(self.users.page(filter, after.as_ref(), *limit))
            }
            Query::Session(query) => records(match query {
                SessionQuery::LiveOf { user, now } => self.sessions.live(*user, *now),
                SessionQuery::EndedOf { user, now, skip, limit } => {
                    self.sessions.ended_of(*user, *now, *skip, limit.get())
                }
                SessionQuery::Ended { by, limit } => self.sessions.ended(*by, limit.get()),
            }),
            Query::Client(ClientQuery::All) => records(self.clients.values().cloned().collect()),
            Query::Idempotency(IdempotencyQuery::Expired { by, limit }) => {
                records(self.idempotency.expired(*by, limit.get()))
            }
            Query::Document(query) => records(self.documents.page(query)),
            Query::DueSubscriptions(query) => records(self.subscriptions.due(query)),
            Query::DuePayments(query) => records(self.payments.due(query)),
        })
    }

    fn check(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        changes.check().map_err(StoreError::BadChangeSet)?;
        for (key, version) in changes.expected() {
            if self.get(&key).map_or(Version::NEW, |record| record.version()) != version {
                return Err(StoreError::Conflict(key));
            }
        }
        self.check_guards(changes)?;
        self.check_unique(changes)
    }

    fn check_guards(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        for guard in &changes.guards {
            match guard {
                Guard::Unchanged { .. } => {}
                Guard::PlanUnused(plan) => {
                    let deleted = |id: SubscriptionId| {
                        changes.deletes.iter().any(|delete| delete.key == Key::Subscription(id))
                    };
                    if !self.subscriptions.with_plan(*plan).all(deleted) {
                        return Err(StoreError::PlanInUse(*plan));
                    }
                }
                Guard::NoOtherLiveSubscription(user) => {
                    let named = changes.subscriptions_named();
                    if !self.subscriptions.live_of_user(*user).all(|id| named.contains(&id)) {
                        return Err(StoreError::Conflict(Key::User(*user)));
                    }
                }
                Guard::Expired { key, by } => {
                    if self.idempotency.get(key).is_none_or(|record| record.expires_at > *by) {
                        return Err(StoreError::Conflict(Key::Idempotency(key.clone())));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_unique(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        let mut values = HashSet::new();
        let deleted = |key: &Key| changes.deletes.iter().any(|delete| delete.key == *key);
        // A record that this change set writes may give up its stored value, so its stored value does not count as
        // taken. The values that it will have are compared through `values`.
        let written = |key: &Key| changes.writes.iter().any(|write| write.key() == *key);
        for write in &changes.writes {
            for value in write.unique_values() {
                let holder = self.find(value).map(|holder| holder.key());
                let other = holder.filter(|holder| *holder != write.key());
                let other = other.filter(|holder| !deleted(holder) && !written(holder));
                if other.is_some() || (changes.writes.len() > 1 && !values.insert(value)) {
                    return Err(StoreError::Taken(value.rule()));
                }
            }
        }
        Ok(())
    }

    /// Checks the whole change set before anything is written: a half-applied set would leave an event about a
    /// change that never happened.
    fn commit(&mut self, changes: ChangeSet) -> Result<(), StoreError> {
        self.check(&changes)?;
        self.apply(changes);
        Ok(())
    }

    fn apply(&mut self, changes: ChangeSet) {
        for delete in changes.deletes {
            self.remove(&delete.key);
        }
        for write in changes.writes {
            match write {
                Record::Plan(plan) => self.plans.put(plan),
                Record::Subscription(subscription) => self.subscriptions.put(subscription),
                Record::Payment(payment) => self.payments.put(payment),
                Record::User(user) => self.users.put(user),
                Record::Session(session) => self.sessions.put(session),
                Record::Client(client) => {
                    self.clients.insert(client.id.clone(), client);
                }
                Record::Idempotency(record) => self.idempotency.put(record),
                Record::Document(document) => self.documents.put(document),
            }
        }
        self.events.extend(changes.events);
        if let Some(last) = changes.forget_events {
            while self.forgotten < last && self.events.pop_front().is_some() {
                self.forgotten += 1;
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        match key {
            Key::Plan(id) => self.plans.delete(*id),
            Key::Subscription(id) => self.subscriptions.delete(*id),
            Key::Payment(id) => self.payments.delete(*id),
            Key::User(id) => self.users.delete(*id),
            Key::Session(id) => self.sessions.delete(*id),
            Key::Client(id) => drop(self.clients.remove(id)),
            Key::Idempotency(key) => self.idempotency.delete(key),
            Key::Document(key) => self.documents.delete(key),
        }
    }
}

/// Frees a unique value of a record, unless another record of the same change set has taken it over.
fn free<K, Q, V>(values: &mut HashMap<K, V>, value: &Q, holder: V)
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ?Sized,
    V: PartialEq + Copy,
{
    if values.get(value) == Some(&holder) {
        values.remove(value);
    }
}

fn record<K: Kind>(found: Option<&Arc<K>>) -> Option<Record> {
    found.cloned().map(K::into_record)
}

fn records<K: Kind>(found: Vec<Arc<K>>) -> Vec<Record> {
    found.into_iter().map(K::into_record).collect()
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        Ok(self.read().get(key))
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        Ok(self.read().find(value))
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        // Before a list by access, the subscriptions that began or ended since the last such list move to their new
        // class. Otherwise this list and each later one would have to skip them.
        if let Query::Subscription(query) = query
            && is_by_access(&query.filter)
            && self.read().subscriptions.is_behind(query.now)
        {
            self.write().subscriptions.refresh_access_classes(query.now);
        }
        Ok(self.read().list(query))
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        let tables = self.read();
        let forgotten = tables.forgotten;
        let skipped = query.after.saturating_sub(forgotten);
        let from = usize::try_from(skipped).unwrap_or(usize::MAX).min(tables.events.len());
        // The events come first in the `zip`: when no event is left, `zip` takes no further number from the range of
        // sequences. The step to a further number could overflow.
        let following =
            tables.events.range(from..).zip(forgotten.max(query.after).saturating_add(1)..);
        let following = following.map(|(event, sequence)| (sequence, Cow::Borrowed(event)));
        let last = forgotten + tables.events.len() as u64;
        Ok(EventPage::select(query, following, forgotten + 1..=last))
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.write().commit(changes)
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let mut tables = self.write();
        sets.into_iter().map(|changes| tables.commit(changes)).collect()
    }
}
