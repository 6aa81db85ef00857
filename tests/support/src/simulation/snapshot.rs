//! Everything in a store at one moment, read in every possible way.

use std::collections::BTreeSet;
use std::sync::Arc;
use subscription_core::payments::Payment;
use subscription_core::plans::Plan;
use subscription_core::store::{IdempotencyQuery, StoreExt as _, UniqueValue};
use subscription_core::subscriptions::Subscription;

use subscription_core::events::Subject;
use subscription_core::store::{
    Direction, IdempotencyRecord, PageLimit, PaymentQuery, PlanOrder, PlanQuery,
    SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use subscription_core::{Store, Timestamp};

use super::model::{self, Records};
use super::operation::{Record, subject};
use crate::rng::Rng;

/// The records of a store.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The records that were read by their ids, and those that were found in a list.
    pub names: BTreeSet<Subject>,
    /// The records of `names` that exist.
    pub records: Records,
    /// The pages of each list.
    pub walks: Vec<Walk>,
    /// The id found by slug or external id, for every record that has one.
    pub look_ups: Vec<(Subject, Option<Subject>)>,
    /// Every stored idempotency record.
    pub answers: Vec<Arc<IdempotencyRecord>>,
}

/// The pages of a list, one after the other.
#[derive(Debug)]
pub struct Walk {
    pub list: List,
    pub items: Vec<Record>,
}

/// The list that was read.
#[derive(Debug, Clone, Copy)]
pub enum List {
    Plans,
    Subscriptions,
    ActiveSubscriptions,
    Payments(subscription_core::SubscriptionId),
}

/// Reads all pages of one list.
macro_rules! walk {
    ($store:ident, $query:expr => $record:ident) => {{
        let mut query = $query;
        let mut items = Vec::new();
        loop {
            let page = $store.list_as::<$record>(query.clone()).await.expect("a list reads");
            items.extend(page.items.iter().map(|item| Record::$record((**item).clone())));
            query.after = page.next;
            if query.after.is_none() {
                break items;
            }
        }
    }};
}

impl Snapshot {
    /// Reads these records, and all records that the lists contain.
    pub async fn take(
        store: &dyn Store,
        names: BTreeSet<Subject>,
        now: Timestamp,
        rng: &Rng,
    ) -> Self {
        let mut snapshot = Self { names, ..Self::default() };
        snapshot.walk_lists(store, now, rng).await;
        let listed = snapshot.walks.iter().flat_map(|walk| walk.items.iter().map(subject));
        snapshot.names.extend(listed);
        for name in snapshot.names.clone() {
            if let Some(record) = read(store, name.clone()).await {
                snapshot.look_up(store, &record).await;
                snapshot.records.insert(name, record);
            }
        }
        snapshot.walk_payments(store, rng).await;
        let answers = store
            .list_as::<IdempotencyRecord>(IdempotencyQuery::Expired {
                by: Timestamp::MAX,
                limit: PageLimit::MAX,
            })
            .await;
        snapshot.answers = answers.expect("the kept answers read").items;
        snapshot
    }

    /// Reads the payments of every subscription in `names`, and of deleted subscriptions that a payment still names.
    async fn walk_payments(&mut self, store: &dyn Store, rng: &Rng) {
        let asked_for = self
            .names
            .iter()
            .filter_map(|name| if let Subject::Subscription(id) = name { Some(*id) } else { None });
        let paid = model::payments(&self.records).map(|payment| payment.subscription_id);
        let subscriptions: BTreeSet<_> = asked_for.chain(paid).collect();
        for id in subscriptions {
            let query = PaymentQuery::of(id).with_limit(page_limit(rng));
            let items = walk!(store, query => Payment);
            self.walks.push(Walk { list: List::Payments(id), items });
        }
    }

    async fn walk_lists(&mut self, store: &dyn Store, now: Timestamp, rng: &Rng) {
        let direction = rng.pick([Direction::Ascending, Direction::Descending]).unwrap_or_default();
        let order = rng.pick(PlanOrder::ALL).unwrap_or_default();
        let query = PlanQuery::default()
            .with_order(order)
            .with_direction(direction)
            .with_limit(page_limit(rng));
        let items = walk!(store, query => Plan);
        self.walks.push(Walk { list: List::Plans, items });

        let order = rng.pick(SubscriptionOrder::ALL).unwrap_or_default();
        let limit = page_limit(rng);
        let query = SubscriptionQuery::default()
            .with_order(order)
            .with_direction(direction)
            .with_limit(limit)
            .with_now(now);
        let filter = SubscriptionFilter::default().with_is_active(true);
        let active = query.clone().with_filter(filter);
        let items = walk!(store, query => Subscription);
        self.walks.push(Walk { list: List::Subscriptions, items });
        let items = walk!(store, active => Subscription);
        self.walks.push(Walk { list: List::ActiveSubscriptions, items });
    }

    async fn look_up(&mut self, store: &dyn Store, record: &Record) {
        let found = match record {
            Record::Plan(plan) => {
                let found = store
                    .find_as::<Plan>(UniqueValue::PlanSlug(&plan.slug))
                    .await
                    .expect("a slug is looked up");
                found.map(|found| Subject::Plan(found.id))
            }
            Record::Subscription(held) => {
                let Some(id) = &held.external_subscription_id else { return };
                let found =
                    store.find_as::<Subscription>(UniqueValue::ExternalSubscription(id)).await;
                found.expect("an id is looked up").map(|found| Subject::Subscription(found.id))
            }
            Record::Payment(payment) => {
                let Some(id) = &payment.external_payment_id else { return };
                let found = store.find_as::<Payment>(UniqueValue::ExternalPayment(id)).await;
                found.expect("an id is looked up").map(|found| Subject::Payment(found.id))
            }
        };
        self.look_ups.push((subject(record), found));
    }
}

async fn read(store: &dyn Store, name: Subject) -> Option<Record> {
    match name {
        Subject::Plan(id) => {
            let found = store.get_as::<Plan>(&id).await.expect("a plan reads");
            found.map(|plan| Record::Plan((*plan).clone()))
        }
        Subject::Subscription(id) => {
            let found = store.get_as::<Subscription>(&id).await.expect("a subscription reads");
            found.map(|held| Record::Subscription((*held).clone()))
        }
        Subject::Payment(id) => {
            let found = store.get_as::<Payment>(&id).await.expect("a payment reads");
            found.map(|payment| Record::Payment((*payment).clone()))
        }
        Subject::User(_) | Subject::Session(_) | Subject::Client(_) => {
            unreachable!("nobody signs in here")
        }
    }
}

/// A random page limit. Most are small, so that a list has many pages.
fn page_limit(rng: &Rng) -> PageLimit {
    let limit = if rng.percent(80) { 1 + rng.below(9) } else { 200 };
    PageLimit::new(limit).unwrap_or_default()
}
