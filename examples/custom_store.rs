//! A store of your own, and the test suite that checks it.
//!
//!     cargo run --example custom_store       # a service over it
//!     cargo test --example custom_store      # the contract, case by case
//!
//! This store is as simple as possible: one map of records behind one lock, and lists that sort all records.
//! A store over a database does the same with transactions and indexes.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use subscription_core::accounts::{Client, Session, User};
use subscription_core::events::RecordedEvent;
use subscription_core::store::{
    ChangeSet, ClientQuery, Direction, Document, DocumentFilter, DuePayments, DueSubscriptions,
    EventPage, EventQuery, Guard, IdempotencyQuery, IdempotencyRecord, Key, Kind, Page, PageLimit,
    PaymentQuery, PlanQuery, Position, Query, Record, SessionQuery, StoreError, UniqueValue,
    UserQuery,
};
use subscription_core::{
    BillingCycle, NewPlan, Payment, Plan, Store, Subscription, SubscriptionService,
    SubscriptionStatus, Version,
};

#[derive(Debug, Default)]
struct SimpleStore(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    records: BTreeMap<Key, Record>,
    events: Vec<RecordedEvent>,
    last_sequence: u64,
}

impl SimpleStore {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for SimpleStore {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        Ok(self.contents().records.get(key).cloned())
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        let contents = self.contents();
        let mut records = contents.records.values();
        Ok(records.find(|record| record.unique_values().any(|found| found == value)).cloned())
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.contents().list(query)
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        let contents = self.contents();
        let later = contents.events.iter().filter(|recorded| recorded.sequence > query.after);
        let later = later.map(|recorded| (recorded.sequence, Cow::Borrowed(&recorded.event)));
        let last = contents.last_sequence;
        let first_kept = contents.events.first().map_or(last + 1, |oldest| oldest.sequence);
        Ok(EventPage::select(query, later, first_kept..=last))
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let mut contents = self.contents();
        contents.check(&changes)?;
        for delete in changes.deletes {
            contents.records.remove(&delete.key);
        }
        for write in changes.writes {
            contents.records.insert(write.key(), write);
        }
        for event in changes.events {
            contents.last_sequence += 1;
            let sequence = contents.last_sequence;
            contents.events.push(RecordedEvent { sequence, event });
        }
        let forgotten = changes.forget_events.unwrap_or(0);
        contents.events.retain(|recorded| recorded.sequence > forgotten);
        Ok(())
    }
}

impl Contents {
    /// All records of one kind, by key.
    fn all<K: Kind>(&self) -> impl Iterator<Item = Arc<K>> {
        self.records.values().cloned().filter_map(K::from_record)
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each kind of list")]
    fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        Ok(match query {
            Query::Plan(query) => {
                let found = self.all::<Plan>().filter(|plan| query.filter.admits(plan));
                let found = found.map(|plan| (query.order.position(&plan), plan));
                page(found, query.direction, query.after.as_ref(), query.limit)
            }
            Query::Subscription(query) => {
                let found = self.all::<Subscription>();
                let found = found.filter(|found| query.filter.admits(found, query.now));
                let found = found.map(|found| (query.order.position(&found), found));
                page(found, query.direction, query.after.as_ref(), query.limit)
            }
            Query::Payment(query) => {
                let found = self.all::<Payment>();
                let of = query.subscription_id;
                let found = found.filter(|paid| of.is_none_or(|id| paid.subscription_id == id));
                let is_theirs = |user, paid: &Payment| {
                    let mut held = self.all::<Subscription>();
                    held.any(|held| held.id == paid.subscription_id && held.user_id == user)
                };
                let found =
                    found.filter(|paid| query.user_id.is_none_or(|user| is_theirs(user, paid)));
                let found = found.map(|payment| (PaymentQuery::position(&payment), payment));
                page(found, query.direction, query.after.as_ref(), query.limit)
            }
            Query::DueSubscriptions(query) => {
                let found = self.all::<Subscription>();
                let found = found.filter(|one| one.next_action_at() <= Some(query.until));
                let found = found.filter_map(|one| Some((DueSubscriptions::position(&one)?, one)));
                page(found, Direction::Ascending, query.after.as_ref(), query.limit)
            }
            Query::DuePayments(query) => {
                let found = self.all::<Payment>().filter(|paid| paid.status == query.status);
                let found = found.filter(|paid| paid.action_at() <= Some(query.until));
                let found = found.filter_map(|paid| Some((DuePayments::position(&paid)?, paid)));
                page(found, Direction::Ascending, query.after.as_ref(), query.limit)
            }
            Query::Document(query) => {
                let found = self.all::<Document>().filter(|found| {
                    found.key.collection == query.collection
                        && match &query.filter {
                            DocumentFilter::All => true,
                            DocumentFilter::Owner(owner) => found.owner == Some(*owner),
                            DocumentFilter::Label(label) => found.label.as_ref() == Some(label),
                            DocumentFilter::DueBy(by) => found.due_at.is_some_and(|at| at <= *by),
                        }
                });
                let found = found.map(|document| (query.position(&document), document));
                page(found, Direction::Ascending, query.after.as_ref(), query.limit)
            }
            Query::User(UserQuery::Closing { limit }) => {
                whole(self.all::<User>().filter(|user| user.closing).take(limit.get()))
            }
            Query::User(UserQuery::Open { filter, after, limit }) => {
                let found = self.all::<User>().filter(|user| filter.admits(user));
                let found = found.map(|user| (filter.position(&user), user));
                page(found, filter.direction(), after.as_ref(), *limit)
            }
            Query::Session(SessionQuery::LiveOf { user, now }) => {
                let live = self.all::<Session>();
                let live = live.filter(|one| one.user_id == *user && one.ended_at() > *now);
                whole(sorted(live, |session| Reverse(session.id)))
            }
            Query::Session(SessionQuery::EndedOf { user, now, skip, limit }) => {
                let ended = self.all::<Session>();
                let ended = ended.filter(|one| one.user_id == *user && one.ended_at() <= *now);
                let ended = sorted(ended, |one| Reverse((one.ended_at(), one.id)));
                whole(ended.skip(*skip).take(limit.get()))
            }
            Query::Session(SessionQuery::Ended { by, limit }) => {
                let ended = self.all::<Session>().filter(|session| session.ended_at() <= *by);
                whole(sorted(ended, Session::ended_at).take(limit.get()))
            }
            Query::Client(ClientQuery::All) => whole(self.all::<Client>()),
            Query::Idempotency(IdempotencyQuery::Expired { by, limit }) => {
                let expired = self.all::<IdempotencyRecord>();
                let expired = expired.filter(|record| record.expires_at <= *by);
                whole(sorted(expired, |record| record.expires_at).take(limit.get()))
            }
            // Another list, which a newer version of the library may have added.
            Query::User(_) | Query::Session(_) | Query::Client(_) | Query::Idempotency(_) => {
                return Err(StoreError::Damaged("this store does not know the list".into()));
            }
        })
    }

    /// Checks all rules before anything is written.
    fn check(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        changes.check().map_err(StoreError::BadChangeSet)?;
        let writes = changes.writes.iter().map(|write| (write.key(), write.version().previous()));
        let deletes = changes.deletes.iter().map(|delete| (delete.key.clone(), delete.version));
        let guards = changes.guards.iter().filter_map(|guard| match guard {
            Guard::Unchanged { key, version } => Some((key.clone(), *version)),
            Guard::PlanUnused(_) | Guard::NoOtherLiveSubscription(_) | Guard::Expired { .. } => {
                None
            }
        });
        for (key, version) in guards.chain(writes).chain(deletes) {
            if self.records.get(&key).map_or(Version::NEW, Record::version) != version {
                return Err(StoreError::Conflict(key));
            }
        }
        for guard in &changes.guards {
            self.check_guard(guard, changes)?;
        }
        let is_deleted = |key: &Key| changes.deletes.iter().any(|delete| delete.key == *key);
        let is_written = |key: &Key| changes.writes.iter().any(|write| write.key() == *key);
        for (nth, write) in changes.writes.iter().enumerate() {
            let stored =
                self.records.iter().filter(|(other, _)| !is_written(other) && !is_deleted(other));
            let others = stored.map(|(_, record)| record).chain(changes.writes.iter().take(nth));
            let taken: Vec<_> = others.flat_map(Record::unique_values).collect();
            if let Some(value) = write.unique_values().find(|value| taken.contains(value)) {
                return Err(StoreError::Taken(value.rule()));
            }
        }
        Ok(())
    }

    fn check_guard(&self, guard: &Guard, changes: &ChangeSet) -> Result<(), StoreError> {
        let (holds, error) = match guard {
            Guard::Unchanged { .. } => return Ok(()),
            Guard::PlanUnused(plan) => {
                let deleted = |id| changes.deletes.iter().any(|d| d.key == Key::Subscription(id));
                let mut all = self.all::<Subscription>().filter(|one| !deleted(one.id));
                let uses = |one: &Subscription| {
                    one.subscription_plan_id == *plan || one.scheduled_plan_id() == Some(*plan)
                };
                (!all.any(|one| uses(&one)), StoreError::PlanInUse(*plan))
            }
            Guard::NoOtherLiveSubscription(user) => {
                let named = changes.subscriptions_named();
                let mut others = self.all::<Subscription>().filter(|one| !named.contains(&one.id));
                let live = |one: &Subscription| {
                    one.user_id == *user && one.status != SubscriptionStatus::Expired
                };
                (!others.any(|one| live(&one)), StoreError::Conflict(Key::User(*user)))
            }
            Guard::Expired { key, by } => {
                let mut records = self.all::<IdempotencyRecord>();
                let holds = records.any(|record| record.key == *key && record.expires_at <= *by);
                (holds, StoreError::Conflict(Key::Idempotency(key.clone())))
            }
        };
        if holds { Ok(()) } else { Err(error) }
    }
}

/// Sorts records by their position, and returns those after a position, up to the limit.
fn page<K: Kind>(
    found: impl Iterator<Item = (Position, Arc<K>)>,
    direction: Direction,
    after: Option<&Position>,
    limit: PageLimit,
) -> Page<Record> {
    let mut found: Vec<_> = found.collect();
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    if direction == Direction::Descending {
        found.reverse();
    }
    found.retain(|(position, _)| match (after, direction) {
        (None, _) => true,
        (Some(after), Direction::Ascending) => position > after,
        (Some(after), Direction::Descending) => position < after,
    });
    let more = found.len() > limit.get();
    found.truncate(limit.get());
    let next = found.last().filter(|_| more).map(|(position, _)| position.clone());
    Page { next, ..whole(found.into_iter().map(|(_, record)| record)) }
}

fn whole<K: Kind>(found: impl Iterator<Item = Arc<K>>) -> Page<Record> {
    Page::new(found.map(K::into_record).collect(), None)
}

fn sorted<K, O: Ord>(
    found: impl Iterator<Item = Arc<K>>,
    by: impl Fn(&K) -> O,
) -> impl Iterator<Item = Arc<K>> {
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|record| by(record));
    found.into_iter()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = SubscriptionService::new(SimpleStore::default());
    for (name, slug, price) in [("Pro", "pro", "19.90"), ("Basic", "basic", "4.90")] {
        let cycle = BillingCycle::MONTHLY;
        let new = NewPlan::new(name.parse()?, slug.parse()?, price.parse()?, cycle);
        service.create_plan(new).await?;
    }
    for plan in service.plans(PlanQuery::default()).await?.items {
        println!("{:8} {:>6} {}", plan.name, plan.price, plan.billing_cycle);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::SimpleStore;

    subscription_core::store_conformance!(async { SimpleStore::default() });
}
