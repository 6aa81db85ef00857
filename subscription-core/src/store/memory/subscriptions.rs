//! The subscriptions in memory: by id, by external id, and in both orders by every filter.

use std::sync::Arc;

use uuid::Uuid;

use super::access::{ClassChanges, Listed};
use super::index::{Index, ReadOff};
use super::records::{Record, Records, Slot};
use super::scan::{
    self, Bucket, Found, Gathered, Intersection, Place, SortValue, Stop, Union, Walk,
};
use crate::store::access_class::{AccessClass, classes};
use crate::store::query::{
    Direction, Page, SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::values::clock::Timestamp;
use crate::values::id::{PlanId, SubscriptionId, UserId};
use crate::values::text::ExternalId;

#[derive(Debug, Default)]
pub(super) struct SubscriptionTable {
    records: Records<Listed>,
    by_creation: Lists<()>,
    by_renewal: Lists<i64>,
    changes: ClassChanges,
}

impl Record for Listed {
    fn id(&self) -> Uuid {
        self.record.id.uuid()
    }

    fn name(&self) -> Option<&str> {
        self.record.external_subscription_id.as_ref().map(ExternalId::as_str)
    }
}

impl ReadOff<Listed> for UserId {
    fn read_off(listed: &Listed) -> Self {
        listed.record.user_id
    }
}

impl ReadOff<Listed> for PlanId {
    fn read_off(listed: &Listed) -> Self {
        listed.record.subscription_plan_id
    }
}

impl ReadOff<Listed> for AccessClass {
    fn read_off(listed: &Listed) -> Self {
        listed.class
    }
}

/// The renewal.
impl ReadOff<Listed> for i64 {
    fn read_off(listed: &Listed) -> Self {
        listed.record.renews_at.map_or(Self::HIGHEST, Timestamp::micros)
    }
}

/// One order, by every filter.
#[derive(Debug, Default)]
struct Lists<V> {
    all: Index<(), V>,
    by_user: Index<UserId, V>,
    by_plan: Index<PlanId, V>,
    by_class: Index<AccessClass, V>,
}

impl SubscriptionTable {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn get(&self, id: SubscriptionId) -> Option<&Arc<Subscription>> {
        self.records.by_id(id.uuid()).map(|(_, found)| &found.record)
    }

    pub(super) fn by_external_id(&self, id: &ExternalId) -> Option<&Arc<Subscription>> {
        self.records.by_name(id.as_str()).map(|(_, found)| &found.record)
    }

    /// The subscriptions to a plan.
    pub(super) fn of_plan(&self, plan: PlanId) -> impl Iterator<Item = SubscriptionId> {
        let (direction, from) = (Direction::Ascending, scan::start(Direction::Ascending));
        let stops = self.by_creation.by_plan.along(&self.records, plan, direction, &from);
        stops.map(|Stop { place: ((), id), .. }| SubscriptionId::from(id))
    }

    /// The subscriptions of a user that are not expired.
    pub(super) fn live_of_user(&self, user: UserId) -> impl Iterator<Item = SubscriptionId> {
        let (direction, from) = (Direction::Ascending, scan::start(Direction::Ascending));
        let stops = self.by_creation.by_user.along(&self.records, user, direction, &from);
        let ids = stops.map(|Stop { place: ((), id), .. }| SubscriptionId::from(id));
        ids.filter(|id| {
            self.get(*id).is_some_and(|found| found.status != SubscriptionStatus::Expired)
        })
    }

    pub(super) fn put(&mut self, new: Arc<Subscription>) {
        let written_at = new.updated_at;
        let (slot, old) = self.records.put(Listed::new(new, written_at));
        self.replaced(slot, old.as_ref());
    }

    pub(super) fn delete(&mut self, id: SubscriptionId) {
        let Some((slot, old)) = self.records.remove(id.uuid()) else { return };
        self.replaced(slot, Some(&old));
    }

    /// Takes in what a slot has now in place of `old`.
    fn replaced(&mut self, slot: Slot, old: Option<&Listed>) {
        self.changes.replace(old, self.records.at(slot));
        self.by_creation.relist(&self.records, slot, old);
        self.by_renewal.relist(&self.records, slot, old);
    }

    /// True if access has begun or ended by `now` for a subscription that is listed otherwise.
    pub(super) fn is_behind(&self, now: Timestamp) -> bool {
        self.changes.due(now).next().is_some()
    }

    /// Lists a batch of subscriptions in the classes that they have come to by `now`.
    pub(super) fn move_due(&mut self, now: Timestamp) {
        let due: Vec<_> = self.changes.due(now).take(MOVED_AT_ONCE).collect();
        for id in due {
            let Some((_, listed)) = self.records.by_id(id.uuid()) else { continue };
            let moved = Listed::new(Arc::clone(&listed.record), now);
            let (slot, old) = self.records.put(moved);
            self.replaced(slot, old.as_ref());
        }
    }

    pub(super) fn page(&self, query: &SubscriptionQuery) -> Page<Arc<Subscription>> {
        let window = window(&query.filter);
        match query.order {
            SubscriptionOrder::CreatedAt => {
                let few = window.and_then(|window| self.gather(window, query.limit.get()));
                let walk = few.map(|few| Gathered::new(few, query.direction));
                let walks = walk.into_iter().map(|walk| Box::new(walk) as Box<dyn Walk<()>>);
                self.page_along(&self.by_creation, walks.collect(), query, None)
            }
            SubscriptionOrder::RenewsAt => {
                self.page_along(&self.by_renewal, Vec::new(), query, window)
            }
        }
    }

    /// Walks along one order, inside a window of it; `walks` narrow it down further.
    fn page_along<'a, V: SortValue + ReadOff<Listed>>(
        &'a self,
        lists: &'a Lists<V>,
        mut walks: Vec<Box<dyn Walk<V> + 'a>>,
        query: &SubscriptionQuery,
        window: Option<(V, V)>,
    ) -> Page<Arc<Subscription>> {
        let (filter, direction) = (&query.filter, query.direction);
        let window = window.map(|(low, high)| ((low, Uuid::nil()), (high, Uuid::nil())));
        let from = scan::after(query.after.as_ref(), direction).map(|from| {
            match (window.clone(), direction) {
                (Some((low, _)), Direction::Ascending) => from.max(low),
                (Some((_, high)), Direction::Descending) => from.min(high),
                (None, _) => from,
            }
        });
        let Some(from) = from else { return Page { items: Vec::new(), next: None } };
        if let Some(id) = &filter.external_subscription_id {
            let stop = self.records.by_name(id.as_str()).map(|(slot, found)| {
                let place = (V::read_off(found), found.id());
                Stop { place, slot }
            });
            walks.push(Box::new(Gathered::new(stop.into_iter().collect(), direction)));
        }
        walks.extend(lists.walks(self, query, &from));
        let mut walk = Intersection { walks };
        let is_past = |place: &Place<V>| match (&window, direction) {
            (Some((_, high)), Direction::Ascending) => place >= high,
            (Some((low, _)), Direction::Descending) => place < low,
            (None, _) => false,
        };
        let record = |stop: &Stop<V>| match self.records.at(stop.slot) {
            _ if is_past(&stop.place) => Found::End,
            Some(Listed { record, .. }) if filter.admits(record, query.now) => {
                Found::Item(Arc::clone(record))
            }
            Some(_) | None => Found::Other,
        };
        let position = |found: &Arc<Subscription>| query.order.position(found);
        scan::page(&mut walk, Some(from), direction, query.limit, record, position)
    }

    /// The subscriptions that renew in a window, if they are so few that sorting them costs less than
    /// passing by all the others in the order of creation.
    fn gather(&self, (low, high): (i64, i64), limit: usize) -> Option<Vec<Stop<()>>> {
        if low >= high {
            return Some(Vec::new());
        }
        let few = self.records.len().saturating_mul(limit).isqrt();
        let window = ((), low, Uuid::nil())..((), high, Uuid::nil());
        if self.by_renewal.all.has_more_than(few, window) {
            return None;
        }
        let (direction, from) = (Direction::Ascending, (low, Uuid::nil()));
        let found = self.by_renewal.all.along(&self.records, (), direction, &from);
        let found = found.take_while(|stop| stop.place.0 < high);
        Some(found.map(|Stop { place: (_, id), slot }| Stop { place: ((), id), slot }).collect())
    }
}

/// The renewals asked for, from the first to before the last. What never renews is in no window.
fn window(filter: &SubscriptionFilter) -> Option<(i64, i64)> {
    let (after, before) = (filter.renews_after, filter.renews_before);
    (after.is_some() || before.is_some()).then(|| {
        let low = after.map_or(i64::LOWEST, Timestamp::micros);
        (low, before.map_or(i64::HIGHEST, Timestamp::micros))
    })
}

impl<V: SortValue + ReadOff<Listed>> Lists<V> {
    fn relist(&mut self, records: &Records<Listed>, slot: Slot, old: Option<&Listed>) {
        self.all.relist(records, slot, old);
        self.by_user.relist(records, slot, old);
        self.by_plan.relist(records, slot, old);
        self.by_class.relist(records, slot, old);
    }

    /// One walk for each filter that has a list; one over all if none has.
    fn walks<'a>(
        &'a self,
        table: &'a SubscriptionTable,
        query: &SubscriptionQuery,
        from: &Place<V>,
    ) -> Vec<Box<dyn Walk<V> + 'a>> {
        let (filter, direction, records) = (&query.filter, query.direction, &table.records);
        let mut walks: Vec<Box<dyn Walk<V> + 'a>> = Vec::new();
        if let Some(user) = filter.user_id {
            let along = move |from: &_| self.by_user.along(records, user, direction, from);
            let walk = Bucket::new(direction, from, along);
            // Each record is looked at in the end, and few are sooner looked at than found in lists.
            let are_few = walk.has_at_most(FEW);
            walks.push(Box::new(walk));
            if are_few {
                return walks;
            }
        }
        if let Some(plan) = filter.subscription_plan_id {
            let along = move |from: &_| self.by_plan.along(records, plan, direction, from);
            walks.push(Box::new(Bucket::new(direction, from, along)));
        }
        if filter.is_active.is_some() || !filter.statuses.is_empty() {
            let held = classes(filter).filter(|(_, holds)| table.changes.allow(*holds, query.now));
            let along_classes = held.map(|(class, _)| {
                let along = move |from: &_| self.by_class.along(records, class, direction, from);
                Box::new(Bucket::new(direction, from, along)) as Box<dyn Walk<V> + 'a>
            });
            walks.push(Box::new(Union { walks: along_classes.collect(), direction }));
        }
        if walks.is_empty() {
            let along = move |from: &_| self.all.along(records, (), direction, from);
            walks.push(Box::new(Bucket::new(direction, from, along)));
        }
        walks
    }
}

/// So many of a user's are looked at one by one, whatever else is asked of them.
const FEW: usize = 32;

/// How many are listed anew in one go: the lock must not be held for long.
const MOVED_AT_ONCE: usize = 10_000;
