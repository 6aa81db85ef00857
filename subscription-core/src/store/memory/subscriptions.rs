//! Subscriptions in memory: by id, by external id, and listed in both orders by every filter.

use std::collections::HashMap;
use std::sync::Arc;

use super::ById;
use super::access::{ClassChanges, Listed};
use super::index::{Lists, Place, SortValue, after, page};
use crate::store::access_class::{AccessClass, classes};
use crate::store::query::{
    Direction, Page, SortKey, SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::values::clock::Timestamp;
use crate::values::id::{PlanId, SubscriptionId, UserId};
use crate::values::text::ExternalId;

#[derive(Debug, Default)]
pub(super) struct SubscriptionTable {
    records: ById<SubscriptionId, Listed>,
    by_external_id: HashMap<ExternalId, SubscriptionId>,
    by_creation: Lists<List, (), Subscription>,
    by_renewal: Lists<List, i64, Subscription>,
    changes: ClassChanges,
}

/// The name of a list that a subscription stands in: its kind, and the user, plan or class that it is of.
/// Plain numbers, because names are compared often.
type List = (u8, u128);

const ALL: List = (0, 0);

/// In the order of creation only: a user has few.
const fn of_user(id: UserId) -> List {
    (1, id.uuid().as_u128())
}

const fn of_plan(id: PlanId) -> List {
    (2, id.uuid().as_u128())
}

const fn of_class(class: AccessClass) -> List {
    (3, (class.status as u128) << 8 | class.mark as u128)
}

/// The most subscriptions that move to a new class in one go: the lock must not be held for long.
const MOVED_AT_ONCE: usize = 10_000;

/// Microseconds of a renewal; a subscription that never renews comes after all others.
fn renewal(key: &SortKey) -> i64 {
    if let SortKey::RenewsAt(at) = key { at.micros() } else { i64::HIGHEST }
}

impl Listed {
    fn places(&self) -> (Place<()>, Place<i64>) {
        let id = self.record.id.uuid().as_u128();
        let renewal = self.record.renews_at.map_or(i64::HIGHEST, Timestamp::micros);
        (((), id), (renewal, id))
    }

    /// The lists in both orders.
    fn lists(&self) -> [List; 3] {
        [ALL, of_plan(self.record.subscription_plan_id), of_class(self.class)]
    }
}

impl SubscriptionTable {
    pub(super) fn get(&self, id: SubscriptionId) -> Option<&Arc<Subscription>> {
        self.records.get(&id).map(|listed| &listed.record)
    }

    pub(super) fn by_external_id(&self, id: &ExternalId) -> Option<&Arc<Subscription>> {
        self.get(*self.by_external_id.get(id)?)
    }

    /// The subscriptions to a plan.
    pub(super) fn of_plan(&self, plan: PlanId) -> impl Iterator<Item = SubscriptionId> {
        self.by_creation.all(of_plan(plan)).map(|found| found.id)
    }

    /// The subscriptions of a user that are not expired.
    pub(super) fn live_of_user(&self, user: UserId) -> impl Iterator<Item = SubscriptionId> {
        let found = self.by_creation.all(of_user(user));
        let live = found.filter(|found| found.status != SubscriptionStatus::Expired);
        live.map(|found| found.id)
    }

    pub(super) fn put(&mut self, new: Arc<Subscription>) {
        let written_at = new.updated_at;
        self.list(Listed::new(new, written_at));
    }

    pub(super) fn delete(&mut self, id: SubscriptionId) {
        let Some(old) = self.records.remove(&id) else { return };
        self.changes.replace(Some(&old), None);
        let (created, renews) = old.places();
        for list in old.lists() {
            self.by_creation.remove(list, created);
            self.by_renewal.remove(list, renews);
        }
        self.by_creation.remove(of_user(old.record.user_id), created);
        if let Some(id) = &old.record.external_subscription_id {
            self.by_external_id.remove(id);
        }
    }

    fn list(&mut self, new: Listed) {
        let Listed { record, .. } = &new;
        self.delete(record.id);
        self.changes.replace(None, Some(&new));
        let (created, renews) = new.places();
        for list in new.lists() {
            self.by_creation.insert(list, created, record);
            self.by_renewal.insert(list, renews, record);
        }
        self.by_creation.insert(of_user(record.user_id), created, record);
        let external_id = record.external_subscription_id.clone();
        self.by_external_id.extend(external_id.map(|id| (id, record.id)));
        self.records.insert(record.id, new);
    }

    /// True if access has begun or ended by `now` for a subscription that is listed otherwise.
    pub(super) fn is_behind(&self, now: Timestamp) -> bool {
        self.changes.due(now).next().is_some()
    }

    /// Lists a batch of subscriptions in the classes that they have come to by `now`.
    pub(super) fn move_due(&mut self, now: Timestamp) {
        let due: Vec<_> = self.changes.due(now).take(MOVED_AT_ONCE).collect();
        for id in due {
            if let Some(record) = self.get(id).cloned() {
                self.list(Listed::new(record, now));
            }
        }
    }

    pub(super) fn page(&self, query: &SubscriptionQuery) -> Page<Arc<Subscription>> {
        let direction = query.direction;
        let admits = |found: &&Arc<Subscription>| query.filter.admits(found, query.now);
        let position = |found: &Subscription| query.order.position(found);
        if let Some(mut few) = self.few(query) {
            few.retain(|found| admits(found) && is_after(query, found));
            few.sort_by_cached_key(|found| position(found));
            if direction == Direction::Descending {
                few.reverse();
            }
            return page(few.into_iter(), query.limit, position);
        }
        let (filters, after_position) = (self.filters(query), query.after.as_ref());
        match query.order {
            SubscriptionOrder::CreatedAt => {
                let from = after(after_position, direction, |_| ());
                let found = self.by_creation.walk(&filters, direction, from);
                page(found.map(|(_, found)| found).filter(admits), query.limit, position)
            }
            SubscriptionOrder::RenewsAt => {
                let (low, high) = window(&query.filter).unwrap_or((i64::LOWEST, i64::HIGHEST));
                let is_open = window(&query.filter).is_none();
                let from = after(after_position, direction, renewal).map(|from| match direction {
                    Direction::Ascending => from.max((low, 0)),
                    Direction::Descending if is_open => from,
                    Direction::Descending => from.min((high, 0)),
                });
                let found = self.by_renewal.walk(&filters, direction, from);
                let found = found.take_while(|(at, _)| match direction {
                    Direction::Ascending => is_open || **at < high,
                    Direction::Descending => **at >= low,
                });
                page(found.map(|(_, found)| found).filter(admits), query.limit, position)
            }
        }
    }

    /// The subscriptions that a list is about, where these are so few that they are sorted here.
    fn few(&self, query: &SubscriptionQuery) -> Option<Vec<&Arc<Subscription>>> {
        let SubscriptionQuery { filter, order, .. } = query;
        if let Some(id) = &filter.external_subscription_id {
            return Some(self.by_external_id(id).into_iter().collect());
        }
        match (filter.user_id, order) {
            (Some(user), SubscriptionOrder::RenewsAt) => {
                Some(self.by_creation.all(of_user(user)).collect())
            }
            (None, SubscriptionOrder::CreatedAt) => {
                // To sort the renewals of a window costs less than to pass by all other subscriptions.
                let (low, high) = window(filter)?;
                let few = self.records.len().saturating_mul(query.limit.get()).isqrt();
                let found = self.by_renewal.between(ALL, low, high);
                Some(found.take(few + 1).collect::<Vec<_>>()).filter(|found| found.len() <= few)
            }
            (None, SubscriptionOrder::RenewsAt) | (Some(_), SubscriptionOrder::CreatedAt) => None,
        }
    }

    /// The lists for each filter that has lists; that of all if none has.
    fn filters(&self, query: &SubscriptionQuery) -> Vec<Vec<List>> {
        let filter = &query.filter;
        if let Some(user) = filter.user_id {
            return vec![vec![of_user(user)]];
        }
        let mut filters = Vec::new();
        filters.extend(filter.subscription_plan_id.map(|plan| vec![of_plan(plan)]));
        if filter.is_active.is_some() || !filter.statuses.is_empty() {
            let held = classes(filter).filter(|(_, holds)| self.changes.allow(*holds, query.now));
            filters.push(held.map(|(class, _)| of_class(class)).collect());
        }
        if filters.is_empty() {
            filters.push(vec![ALL]);
        }
        filters
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

/// The renewals asked for, from the first to before the last. A subscription that never renews is in no window.
fn window(filter: &SubscriptionFilter) -> Option<(i64, i64)> {
    let (after, before) = (filter.renews_after, filter.renews_before);
    (after.is_some() || before.is_some()).then(|| {
        let low = after.map_or(i64::LOWEST, Timestamp::micros);
        (low, before.map_or(i64::HIGHEST, Timestamp::micros))
    })
}
