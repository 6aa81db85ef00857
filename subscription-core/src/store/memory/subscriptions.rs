//! The subscriptions in memory: by id, by external id, and in both orders by every filter.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use uuid::Uuid;

use super::ById;
use super::scan::{
    self, Bucket, Found, Gathered, Index, Intersection, Place, SortValue, Union, Walk,
};
use crate::clock::Timestamp;
use crate::id::{PlanId, SubscriptionId, UserId};
use crate::store::query::{
    Direction, Page, SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::text::ExternalId;

#[derive(Debug, Default)]
pub(super) struct SubscriptionTable {
    records: ById<SubscriptionId, Arc<Subscription>>,
    by_external_id: HashMap<ExternalId, SubscriptionId>,
    by_creation: Lists<()>,
    by_renewal: Lists<i64>,
    endings: Endings,
}

/// What decides whether access is granted.
type Standing = (SubscriptionStatus, Access);

/// What stands in the way of access, beside the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    Free,
    Blocked,
    /// Cancelled, and known to have ended.
    Ended,
}

/// A record with where it is listed.
#[derive(Clone, Copy)]
struct Listed<'a> {
    record: &'a Subscription,
    standing: Standing,
}

/// One order, by every filter.
#[derive(Debug, Default)]
struct Lists<V> {
    all: Index<(), V>,
    by_user: Index<UserId, V>,
    by_plan: Index<PlanId, V>,
    by_standing: Index<Standing, V>,
}

impl SubscriptionTable {
    pub(super) fn get(&self, id: SubscriptionId) -> Option<&Arc<Subscription>> {
        self.records.get(&id)
    }

    pub(super) fn by_external_id(&self, id: &ExternalId) -> Option<&Arc<Subscription>> {
        self.by_external_id.get(id).and_then(|id| self.records.get(id))
    }

    /// The subscriptions to a plan.
    pub(super) fn of_plan(&self, plan: PlanId) -> impl Iterator<Item = SubscriptionId> {
        let bucket = (plan, (), Uuid::nil())..=(plan, (), Uuid::max());
        self.by_creation.by_plan.range(bucket).map(|(_, (), id)| SubscriptionId::from(*id))
    }

    pub(super) fn put(&mut self, new: Subscription) {
        let old = self.records.remove(&new.id);
        self.replace(old.as_deref(), Some(&new));
        self.records.insert(new.id, Arc::new(new));
    }

    pub(super) fn delete(&mut self, id: SubscriptionId) {
        let old = self.records.remove(&id);
        self.replace(old.as_deref(), None);
    }

    fn replace(&mut self, old: Option<&Subscription>, new: Option<&Subscription>) {
        if let Some(id) = old.and_then(|old| old.external_subscription_id.as_ref()) {
            self.by_external_id.remove(id);
        }
        if let Some(new) = new
            && let Some(id) = &new.external_subscription_id
        {
            self.by_external_id.insert(id.clone(), new.id);
        }
        if let Some(ending) = old.and_then(ending) {
            self.endings.by_end.remove(&ending);
        }
        self.endings.by_end.extend(new.and_then(ending));
        let listed = |record| Listed { record, standing: self.endings.standing(record) };
        self.relist(old.map(listed), new.map(listed));
    }

    /// True if something is listed as live that has ended by `now`.
    pub(super) fn is_overdue(&self, now: Timestamp) -> bool {
        self.endings.overdue(now).next().is_some()
    }

    /// Lists a batch of what has ended by `now` as ended.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let ended: Vec<_> = self.endings.overdue(now).take(SWEPT_AT_ONCE).copied().collect();
        for ending in ended {
            let Some(record) = self.records.get(&ending.1).cloned() else { continue };
            let listed = |standing| Some(Listed { record: &record, standing });
            let before = self.endings.standing(&record);
            self.endings.swept = Some(ending);
            self.relist(listed(before), listed(self.endings.standing(&record)));
        }
    }

    fn relist(&mut self, old: Option<Listed<'_>>, new: Option<Listed<'_>>) {
        self.by_creation.relist(SubscriptionOrder::CreatedAt, old, new);
        self.by_renewal.relist(SubscriptionOrder::RenewsAt, old, new);
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
    fn page_along<'a, V: SortValue>(
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
            let found = self.by_external_id(id);
            let place = found.map(|found| (V::of(&query.order.key(found)), found.id.uuid()));
            walks.push(Box::new(Gathered::new(place.into_iter().collect(), direction)));
        }
        walks.extend(lists.walks(query, &self.endings, &from));
        let mut walk = Intersection { walks };
        let is_past = |place: &Place<V>| match (&window, direction) {
            (Some((_, high)), Direction::Ascending) => place >= high,
            (Some((low, _)), Direction::Descending) => place < low,
            (None, _) => false,
        };
        let record = |place: &Place<V>| match self.records.get(&SubscriptionId::from(place.1)) {
            _ if is_past(place) => Found::End,
            Some(found) if filter.admits(found, query.now) => Found::Item(Arc::clone(found)),
            Some(_) | None => Found::Other,
        };
        let position = |found: &Arc<Subscription>| query.order.position(found);
        scan::page(&mut walk, Some(from), direction, query.limit, record, position)
    }

    /// The subscriptions that renew in a window, if they are so few that sorting them costs less than
    /// passing by all the others in the order of creation.
    fn gather(&self, (low, high): (i64, i64), limit: usize) -> Option<Vec<Place<()>>> {
        if low >= high {
            return Some(Vec::new());
        }
        let window = ((), low, Uuid::nil())..((), high, Uuid::nil());
        let few = self.records.len().saturating_mul(limit).isqrt();
        let found = self.by_renewal.all.range(window).take(few + 1);
        let found: Vec<_> = found.map(|((), _, id)| ((), *id)).collect();
        (found.len() <= few).then_some(found)
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

impl<V: SortValue> Lists<V> {
    fn relist(
        &mut self,
        order: SubscriptionOrder,
        old: Option<Listed<'_>>,
        new: Option<Listed<'_>>,
    ) {
        let value = |listed: Listed<'_>| V::of(&order.key(listed.record));
        let id = |listed: Listed<'_>| listed.record.id.uuid();
        move_entry(&mut self.all, old, new, |l| ((), value(l), id(l)));
        move_entry(&mut self.by_user, old, new, |l| (l.record.user_id, value(l), id(l)));
        move_entry(&mut self.by_plan, old, new, |l| {
            (l.record.subscription_plan_id, value(l), id(l))
        });
        move_entry(&mut self.by_standing, old, new, |l| (l.standing, value(l), id(l)));
    }

    /// One walk for each filter that has a list; one over all if none has.
    fn walks<'a>(
        &'a self,
        query: &SubscriptionQuery,
        endings: &Endings,
        from: &Place<V>,
    ) -> Vec<Box<dyn Walk<V> + 'a>> {
        let (filter, direction) = (&query.filter, query.direction);
        let mut walks: Vec<Box<dyn Walk<V> + 'a>> = Vec::new();
        if let Some(user) = filter.user_id {
            let walk = Bucket::new(&self.by_user, user, direction, from);
            // Each record is looked at in the end, and few are sooner looked at than found in lists.
            let are_few = walk.has_at_most(FEW);
            walks.push(Box::new(walk));
            if are_few {
                return walks;
            }
        }
        if let Some(plan) = filter.subscription_plan_id {
            walks.push(Box::new(Bucket::new(&self.by_plan, plan, direction, from)));
        }
        if filter.is_active.is_some() || !filter.statuses.is_empty() {
            let standings = standings(query, endings).map(|standing| {
                let walk = Bucket::new(&self.by_standing, standing, direction, from);
                Box::new(walk) as Box<dyn Walk<V> + 'a>
            });
            walks.push(Box::new(Union { walks: standings.collect(), direction }));
        }
        if walks.is_empty() {
            walks.push(Box::new(Bucket::new(&self.all, (), direction, from)));
        }
        walks
    }
}

/// So many of a user's are looked at one by one, whatever else is asked of them.
const FEW: usize = 32;

/// How many are listed anew in one go: the lock must not be held for long.
const SWEPT_AT_ONCE: usize = 10_000;

/// When, and which.
type Ending = (Timestamp, SubscriptionId);

/// When what is cancelled ends, and how far that has been taken into the lists.
#[derive(Debug, Default)]
struct Endings {
    by_end: BTreeSet<Ending>,
    /// All up to this one are listed as ended.
    swept: Option<Ending>,
}

impl Endings {
    fn standing(&self, record: &Subscription) -> Standing {
        let is_swept = |ending| self.swept.is_some_and(|swept| ending <= swept);
        let access = if record.blocked {
            Access::Blocked
        } else if ending(record).is_some_and(is_swept) {
            Access::Ended
        } else {
            Access::Free
        };
        (record.status, access)
    }

    /// What has ended by `now` and is not listed so.
    fn overdue(&self, now: Timestamp) -> impl Iterator<Item = &Ending> {
        let from = self.swept.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_end.range((from, Bound::Unbounded)).take_while(move |(end, _)| *end <= now)
    }
}

/// When access ends, if that is a matter of time.
fn ending(record: &Subscription) -> Option<Ending> {
    let by_time = record.status == SubscriptionStatus::Cancelled && !record.blocked;
    record.ends_at.filter(|_| by_time).map(|end| (end, record.id))
}

/// The standings that may hold what is asked for. While the lists are behind the time, or ahead of a
/// clock that was turned back, there may be others among them.
fn standings(query: &SubscriptionQuery, endings: &Endings) -> impl Iterator<Item = Standing> {
    let (filter, now) = (&query.filter, query.now);
    let is_behind = endings.overdue(now).next().is_some();
    let is_ahead = endings.swept.is_some_and(|(end, _)| end > now);
    let grants = move |status: SubscriptionStatus| status.grants_access(None, now);
    let may_grant = move |(status, access)| match access {
        Access::Free => grants(status),
        Access::Blocked => false,
        Access::Ended => is_ahead,
    };
    let must_grant = move |(status, access)| {
        let ends = status == SubscriptionStatus::Cancelled;
        access == Access::Free && grants(status) && !(ends && is_behind)
    };
    SubscriptionStatus::all()
        .filter(|status| filter.statuses.is_empty() || filter.statuses.contains(status))
        .flat_map(|status| {
            [Access::Free, Access::Blocked, Access::Ended].map(|access| (status, access))
        })
        .filter(move |standing| match filter.is_active {
            None => true,
            Some(true) => may_grant(*standing),
            Some(false) => !must_grant(*standing),
        })
}

fn move_entry<B: Ord, V: Ord>(
    index: &mut Index<B, V>,
    old: Option<Listed<'_>>,
    new: Option<Listed<'_>>,
    entry: impl Fn(Listed<'_>) -> (B, V, Uuid),
) {
    let (old, new) = (old.map(&entry), new.map(&entry));
    if old == new {
        return;
    }
    if let Some(old) = old {
        index.remove(&old);
    }
    index.extend(new);
}
