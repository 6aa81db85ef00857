//! A store in the memory of the process.
//!
//! One lock over hash maps for the records and ordered sets for the lists. A commit is checked as a
//! whole before anything of it is applied, so a refused one has nothing to undo.

mod idempotency;
mod payments;
mod plans;
mod scan;
mod subscriptions;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;

use self::idempotency::IdempotencyTable;
use self::payments::PaymentTable;
use self::plans::PlanTable;
use self::subscriptions::SubscriptionTable;
use super::Store;
use super::change_set::{ChangeSet, Guard, Key, Write};
use super::error::{StoreError, Unique};
use super::idempotency::{IdempotencyKey, IdempotencyRecord};
use super::query::{Page, PageLimit, PaymentQuery, PlanQuery, SubscriptionQuery};
use crate::clock::Timestamp;
use crate::events::{Event, RecordedEvent};
use crate::id::{PaymentId, PlanId, SubscriptionId};
use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
use crate::text::{ExternalId, Slug};
use crate::version::Version;

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
            Key::Idempotency(key) => self.idempotency.get(key).map(|record| record.version),
        }
        .unwrap_or(Version::NEW)
    }

    fn check(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        changes.check().map_err(StoreError::BadChangeSet)?;
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
        self.check_unique(changes)
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

    fn check_unique(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        let mut values = HashSet::new();
        for write in &changes.writes {
            let (unique, value, holder) = match write {
                Write::Plan(plan) => {
                    let holder = self.plans.by_slug(&plan.slug).map(|plan| Key::Plan(plan.id));
                    (Unique::PlanSlug, plan.slug.as_str(), holder)
                }
                Write::Subscription(Subscription {
                    external_subscription_id: Some(id), ..
                }) => {
                    let holder = self.subscriptions.by_external_id(id);
                    let holder = holder.map(|found| Key::Subscription(found.id));
                    (Unique::ExternalSubscription, id.as_str(), holder)
                }
                Write::Payment(Payment { external_payment_id: Some(id), .. }) => {
                    let holder = self.payments.by_external_id(id);
                    (
                        Unique::ExternalPayment,
                        id.as_str(),
                        holder.map(|found| Key::Payment(found.id)),
                    )
                }
                Write::Subscription(_) | Write::Payment(_) | Write::Idempotency(_) => continue,
            };
            let other = holder.filter(|holder| *holder != write.key());
            let deleted = |key: &Key| changes.deletes.iter().any(|delete| delete.key == *key);
            let twice = changes.writes.len() > 1 && !values.insert((unique, value));
            if twice || other.is_some_and(|holder| !deleted(&holder)) {
                return Err(StoreError::Taken(unique));
            }
        }
        Ok(())
    }

    fn apply(&mut self, changes: ChangeSet) {
        for delete in changes.deletes {
            match delete.key {
                Key::Plan(id) => self.plans.delete(id),
                Key::Subscription(id) => self.subscriptions.delete(id),
                Key::Payment(id) => self.payments.delete(id),
                Key::Idempotency(key) => self.idempotency.delete(&key),
            }
        }
        for write in changes.writes {
            match write {
                Write::Plan(plan) => self.plans.put(plan),
                Write::Subscription(subscription) => self.subscriptions.put(subscription),
                Write::Payment(payment) => self.payments.put(payment),
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
