//! Subscriptions in memory: by id, by external id, and listed in both orders by every filter.

use std::collections::HashMap;
use std::sync::Arc;

use super::access::{ClassChanges, Listed};
use super::index::{ALL, Filter, IndexKey, Lists, SortValue, after, due, first, walk};
use super::{ById, free};
use crate::store::access_class::{AccessClass, classes};
use crate::store::due::DueSubscriptions;
use crate::store::query::{Direction, SortKey};
use crate::store::subscription_query::{SubscriptionFilter, SubscriptionOrder, SubscriptionQuery};
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::values::{ExternalId, PlanId, SubscriptionId, Timestamp, UserId};

#[derive(Debug, Default)]
pub(super) struct SubscriptionTable {
    records: ById<SubscriptionId, Listed>,
    by_external_id: HashMap<ExternalId, SubscriptionId>,
    by_creation: Order<()>,
    by_renewal: Order<i64>,
    /// The subscriptions of each user, in the order of creation only: a user has few subscriptions, so they are sorted
    /// when a list in another order is read.
    by_user: Lists<(), Subscription>,
    by_live_key: HashMap<Box<str>, SubscriptionId>,
    due: Lists<i64, Subscription>,
    /// The subscriptions that are scheduled to change to each plan.
    to_plan: Lists<(), Subscription>,
    changes: ClassChanges,
}

/// The lists in one sort order: of all subscriptions, of each plan, and of each access class.
#[derive(Debug, Default)]
struct Order<V: SortValue> {
    all: Lists<V, Subscription>,
    by_plan: Lists<V, Subscription>,
    by_class: Lists<V, Subscription>,
}

const fn class_name(class: AccessClass) -> u128 {
    (class.status as u128) << 8 | class.mark as u128
}

fn plan_name(listed: &Listed) -> u128 {
    listed.record.subscription_plan_id.uuid().as_u128()
}

fn user_name(listed: &Listed) -> u128 {
    listed.record.user_id.uuid().as_u128()
}

impl<V: SortValue> Order<V> {
    fn insert(&mut self, listed: &Listed, place: &IndexKey<V>) {
        let record = &listed.record;
        self.all.insert(ALL, place.clone(), record);
        self.by_plan.insert(plan_name(listed), place.clone(), record);
        self.by_class.insert(class_name(listed.class), place.clone(), record);
    }

    fn remove(&mut self, listed: &Listed, place: &IndexKey<V>) {
        self.all.remove(ALL, place.clone());
        self.by_plan.remove(plan_name(listed), place.clone());
        self.by_class.remove(class_name(listed.class), place.clone());
    }

    /// The lists that are searched for a query: the list of its plan and the lists of its access classes, if it filters
    /// by them; otherwise the list of all subscriptions.
    fn filters(
        &self,
        query: &SubscriptionQuery,
        changes: &ClassChanges,
    ) -> Vec<Filter<'_, V, Subscription>> {
        let filter = &query.filter;
        let mut filters = Vec::new();
        let plan = filter.subscription_plan_id.map(|plan| vec![plan.uuid().as_u128()]);
        filters.extend(plan.map(|plan| (&self.by_plan, plan)));
        if filter.is_active.is_some() || !filter.statuses.is_empty() {
            let held =
                classes(filter).filter(|(_, may_contain)| changes.allow(*may_contain, query.now));
            let names = held.map(|(class, _)| class_name(class)).collect();
            filters.push((&self.by_class, names));
        }
        if filters.is_empty() {
            filters.push((&self.all, vec![ALL]));
        }
        filters
    }
}

/// The largest number of subscriptions that move to a new class at once: the lock must not be held for long.
const MOVED_AT_ONCE: usize = 10_000;

/// The time of a renewal in microseconds; a subscription that never renews comes after all others.
fn renewal(key: &SortKey) -> i64 {
    if let SortKey::RenewsAt(at) = key { at.micros() } else { i64::HIGHEST }
}

impl Listed {
    fn places(&self) -> (IndexKey<()>, IndexKey<i64>) {
        let id = self.record.id.uuid().as_u128();
        let renewal = self.record.renews_at.map_or(i64::HIGHEST, Timestamp::micros);
        (((), id), (renewal, id))
    }
}

impl SubscriptionTable {
    pub(super) fn get(&self, id: SubscriptionId) -> Option<&Arc<Subscription>> {
        self.records.get(&id).map(|listed| &listed.record)
    }

    pub(super) fn by_external_id(&self, id: &ExternalId) -> Option<&Arc<Subscription>> {
        self.get(*self.by_external_id.get(id)?)
    }

    pub(super) fn by_live_key(&self, key: &str) -> Option<&Arc<Subscription>> {
        self.get(*self.by_live_key.get(key)?)
    }

    pub(super) fn due(&self, query: &DueSubscriptions) -> Vec<Arc<Subscription>> {
        first(due(&self.due, ALL, query.until, query.after.as_ref()), query.limit)
    }

    /// The subscriptions that have a plan, or are scheduled to change to it.
    pub(super) fn with_plan(&self, plan: PlanId) -> impl Iterator<Item = SubscriptionId> {
        let plan = plan.uuid().as_u128();
        self.by_creation.by_plan.all(plan).chain(self.to_plan.all(plan)).map(|found| found.id)
    }

    /// The ids of a user's subscriptions, as numbers.
    pub(super) fn of_user(&self, user: UserId) -> impl Iterator<Item = u128> {
        self.by_user.all(user.uuid().as_u128()).map(|found| found.id.uuid().as_u128())
    }

    /// The subscriptions of a user that are not expired.
    pub(super) fn live_of_user(&self, user: UserId) -> impl Iterator<Item = SubscriptionId> {
        let found = self.by_user.all(user.uuid().as_u128());
        let live = found.filter(|found| found.status != SubscriptionStatus::Expired);
        live.map(|found| found.id)
    }

    pub(super) fn put(&mut self, new: Arc<Subscription>) {
        let written_at = new.updated_at;
        self.list(Listed::new(new, written_at));
    }

    pub(super) fn delete(&mut self, id: SubscriptionId) {
        let Some(old) = self.records.remove(&id) else { return };
        let (created, renews) = old.places();
        self.by_creation.remove(&old, &created);
        self.by_renewal.remove(&old, &renews);
        self.by_user.remove(user_name(&old), created);
        self.changes.remove(&old);
        if let Some(id) = &old.record.external_subscription_id {
            free(&mut self.by_external_id, id, old.record.id);
        }
        if let Some(key) = &old.record.live_key {
            free(&mut self.by_live_key, &**key, id);
        }
        if let Some(at) = old.record.next_action_at() {
            self.due.remove(ALL, (at.micros(), id.uuid().as_u128()));
        }
        if let Some(plan) = old.record.scheduled_plan_id() {
            self.to_plan.remove(plan.uuid().as_u128(), created);
        }
    }

    fn list(&mut self, new: Listed) {
        let Listed { record, .. } = &new;
        self.delete(record.id);
        let (created, renews) = new.places();
        self.by_creation.insert(&new, &created);
        self.by_renewal.insert(&new, &renews);
        self.by_user.insert(user_name(&new), created, record);
        self.changes.insert(&new);
        let external_id = record.external_subscription_id.clone();
        self.by_external_id.extend(external_id.map(|id| (id, record.id)));
        self.by_live_key.extend(record.live_key.clone().map(|key| (key, record.id)));
        if let Some(at) = record.next_action_at() {
            self.due.insert(ALL, (at.micros(), record.id.uuid().as_u128()), record);
        }
        if let Some(plan) = record.scheduled_plan_id() {
            self.to_plan.insert(plan.uuid().as_u128(), created, record);
        }
        self.records.insert(record.id, new);
    }

    /// True if a subscription is listed in a class that it has left by `now`.
    pub(super) fn is_behind(&self, now: Timestamp) -> bool {
        self.changes.due(now).next().is_some()
    }

    /// Moves a batch of subscriptions to the classes that they have by `now`.
    pub(super) fn refresh_access_classes(&mut self, now: Timestamp) {
        let due: Vec<_> = self.changes.due(now).take(MOVED_AT_ONCE).collect();
        for id in due {
            if let Some(record) = self.get(id).cloned() {
                self.list(Listed::new(record, now));
            }
        }
    }

    pub(super) fn page(&self, query: &SubscriptionQuery) -> Vec<Arc<Subscription>> {
        let direction = query.direction;
        let admits = |found: &&Arc<Subscription>| query.filter.admits(found, query.now);
        if let Some(mut few) = self.few(query) {
            few.retain(|found| admits(found) && is_after(query, found));
            few.sort_by_cached_key(|found| query.order.position(found));
            if direction == Direction::Descending {
                few.reverse();
            }
            return first(few.into_iter(), query.limit);
        }
        let after_position = query.after.as_ref();
        match query.order {
            SubscriptionOrder::CreatedAt => {
                let from = after(after_position, direction, |_| ());
                let filters = match query.filter.user_id {
                    Some(user) => vec![(&self.by_user, vec![user.uuid().as_u128()])],
                    None => self.by_creation.filters(query, &self.changes),
                };
                let found = walk(&filters, direction, from);
                first(found.map(|((), found)| found).filter(admits), query.limit)
            }
            SubscriptionOrder::RenewsAt => {
                let (low, high) = window(&query.filter).unwrap_or((i64::LOWEST, i64::HIGHEST));
                let is_open = window(&query.filter).is_none();
                let from = after(after_position, direction, renewal).map(|from| match direction {
                    Direction::Ascending => from.max((low, 0)),
                    Direction::Descending if is_open => from,
                    Direction::Descending => from.min((high, 0)),
                });
                let filters = self.by_renewal.filters(query, &self.changes);
                let found = walk(&filters, direction, from);
                let found = found.take_while(|(at, _)| match direction {
                    Direction::Ascending => is_open || **at < high,
                    Direction::Descending => **at >= low,
                });
                first(found.map(|(_, found)| found).filter(admits), query.limit)
            }
        }
    }

    /// The candidates for a list, if they are few enough to be sorted here; `None` if the list must be read in its
    /// order.
    fn few(&self, query: &SubscriptionQuery) -> Option<Vec<&Arc<Subscription>>> {
        let SubscriptionQuery { filter, order, .. } = query;
        if let Some(id) = &filter.external_subscription_id {
            return Some(self.by_external_id(id).into_iter().collect());
        }
        match (filter.user_id, order) {
            (Some(user), SubscriptionOrder::RenewsAt) => {
                Some(self.by_user.all(user.uuid().as_u128()).collect())
            }
            (None, SubscriptionOrder::CreatedAt) => {
                // If the window contains the renewal times of few subscriptions, sorting these subscriptions costs less
                // than reading all subscriptions in the order of creation.
                let (low, high) = window(filter)?;
                let few = self.records.len().saturating_mul(query.limit.get()).isqrt();
                let found = self.by_renewal.all.between(ALL, low, high);
                Some(found.take(few + 1).collect::<Vec<_>>()).filter(|found| found.len() <= few)
            }
            (None, SubscriptionOrder::RenewsAt) | (Some(_), SubscriptionOrder::CreatedAt) => None,
        }
    }
}

/// True if a subscription comes after the position that a page begins after.
fn is_after(query: &SubscriptionQuery, found: &Subscription) -> bool {
    let position = query.order.position(found);
    query.after.as_ref().is_none_or(|after| match query.direction {
        Direction::Ascending => position > *after,
        Direction::Descending => position < *after,
    })
}

/// The start (included) and the end (not included) of the renewal times that the filter admits, in microseconds. `None`
/// if the filter does not limit the renewal time. A subscription that never renews is in no such window.
fn window(filter: &SubscriptionFilter) -> Option<(i64, i64)> {
    let after = filter.renews_after;
    let before = filter.renews_before;
    (after.is_some() || before.is_some()).then(|| {
        let low = after.map_or(i64::LOWEST, Timestamp::micros);
        (low, before.map_or(i64::HIGHEST, Timestamp::micros))
    })
}
