//! All that a store shows at one moment, by every way of reading it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use subscription_core::events::{Change, Event, Subject};
use subscription_core::store::{
    Direction, IdempotencyRecord, PageLimit, PaymentQuery, PlanOrder, PlanQuery,
    SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use subscription_core::{Store, Timestamp};

use super::invariants::Broken;
use super::model::Records;
use super::operation::{Record, subject};
use super::rng::Rng;

/// The feed of events, as far as it was read.
#[derive(Debug, Default, Clone)]
pub(super) struct Feed {
    /// The last sequence that was read.
    pub(super) place: u64,
    /// The last event of every record that ever was.
    pub(super) latest: BTreeMap<Subject, Event>,
    /// When every record was made.
    pub(super) made_at: BTreeMap<Subject, Timestamp>,
}

impl Feed {
    /// Reads on to the end of the feed.
    pub(super) async fn read_on(&mut self, store: &dyn Store) -> Result<Vec<Event>, Broken> {
        let mut fresh = Vec::new();
        loop {
            let recorded = store.events(self.place, PageLimit::MAX).await.expect("the feed reads");
            if recorded.is_empty() {
                return Ok(fresh);
            }
            for recorded in recorded {
                if recorded.sequence <= self.place {
                    let detail = format!("{recorded:?} comes after place {}", self.place);
                    return Err(Broken::new("every_change_has_one_event", detail));
                }
                self.place = recorded.sequence;
                fresh.push(recorded.event);
            }
        }
    }

    /// Remembers what was read.
    pub(super) fn absorb(&mut self, fresh: &[Event]) {
        for event in fresh {
            if event.change == Change::Created {
                self.made_at.insert(event.subject.clone(), event.at);
            }
            self.latest.insert(event.subject.clone(), event.clone());
        }
    }
}

/// What a store holds.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// Every record, read by its id.
    pub(super) records: Records,
    /// What a walk along the pages of each list gave, and which records belong on it.
    pub(super) walks: Vec<Walk>,
    /// What was found by slug or external id, for every record that has one.
    pub(super) look_ups: Vec<(Subject, Option<Subject>)>,
    /// Every kept answer.
    pub(super) answers: Vec<Arc<IdempotencyRecord>>,
}

/// The pages of a list, one after the other.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) list: List,
    pub(super) items: Vec<Record>,
}

/// Which list was walked along.
#[derive(Debug, Clone, Copy)]
pub(super) enum List {
    Plans,
    Subscriptions,
    ActiveSubscriptions,
    Payments(subscription_core::SubscriptionId),
}

/// Walks along all pages of one list.
macro_rules! walk {
    ($store:ident.$list:ident($query:expr) as $record:path) => {{
        let mut query = $query;
        let mut items = Vec::new();
        loop {
            let page = $store.$list(&query).await.expect("a list reads");
            items.extend(page.items.iter().map(|item| $record((**item).clone())));
            query.after = page.next;
            if query.after.is_none() {
                break items;
            }
        }
    }};
}

impl Snapshot {
    /// Reads everything that the feed and the lists lead to.
    pub(super) async fn take(
        store: &dyn Store,
        feed: &Feed,
        now: Timestamp,
        rng: &mut Rng,
    ) -> Self {
        let mut snapshot = Self::default();
        snapshot.walk_lists(store, now, rng).await;
        let listed = snapshot.walks.iter().flat_map(|walk| walk.items.iter().map(subject));
        let ever: BTreeSet<Subject> = listed.chain(feed.latest.keys().cloned()).collect();
        for id in &ever {
            if let Subject::Subscription(id) = id {
                let limit = page_limit(rng);
                let query = PaymentQuery { limit, ..PaymentQuery::of(*id) };
                let items = walk!(store.payments(query) as Record::Payment);
                snapshot.walks.push(Walk { list: List::Payments(*id), items });
            }
        }
        for name in ever {
            if let Some(record) = read(store, name.clone()).await {
                snapshot.look_up(store, &record).await;
                snapshot.records.insert(name, record);
            }
        }
        let answers = store.expired_idempotency(Timestamp::MAX, PageLimit::MAX).await;
        snapshot.answers = answers.expect("the kept answers read");
        snapshot
    }

    async fn walk_lists(&mut self, store: &dyn Store, now: Timestamp, rng: &mut Rng) {
        let direction = rng.pick([Direction::Ascending, Direction::Descending]).unwrap_or_default();
        let order = rng.pick(PlanOrder::ALL).unwrap_or_default();
        let query = PlanQuery { order, direction, limit: page_limit(rng), ..PlanQuery::default() };
        let items = walk!(store.plans(query) as Record::Plan);
        self.walks.push(Walk { list: List::Plans, items });

        let order = rng.pick(SubscriptionOrder::ALL).unwrap_or_default();
        let limit = page_limit(rng);
        let query = SubscriptionQuery { order, direction, limit, now, ..Default::default() };
        let filter = SubscriptionFilter { is_active: Some(true), ..SubscriptionFilter::default() };
        let active = SubscriptionQuery { filter, ..query.clone() };
        let items = walk!(store.subscriptions(query) as Record::Subscription);
        self.walks.push(Walk { list: List::Subscriptions, items });
        let items = walk!(store.subscriptions(active) as Record::Subscription);
        self.walks.push(Walk { list: List::ActiveSubscriptions, items });
    }

    async fn look_up(&mut self, store: &dyn Store, record: &Record) {
        let found = match record {
            Record::Plan(plan) => {
                let found = store.plan_by_slug(&plan.slug).await.expect("a slug is looked up");
                found.map(|found| Subject::Plan(found.id))
            }
            Record::Subscription(held) => {
                let Some(id) = &held.external_subscription_id else { return };
                let found = store.subscription_by_external_id(id).await;
                found.expect("an id is looked up").map(|found| Subject::Subscription(found.id))
            }
            Record::Payment(payment) => {
                let Some(id) = &payment.external_payment_id else { return };
                let found = store.payment_by_external_id(id).await;
                found.expect("an id is looked up").map(|found| Subject::Payment(found.id))
            }
        };
        self.look_ups.push((subject(record), found));
    }
}

async fn read(store: &dyn Store, name: Subject) -> Option<Record> {
    match name {
        Subject::Plan(id) => {
            let found = store.plan(id).await.expect("a plan reads");
            found.map(|plan| Record::Plan((*plan).clone()))
        }
        Subject::Subscription(id) => {
            let found = store.subscription(id).await.expect("a subscription reads");
            found.map(|held| Record::Subscription((*held).clone()))
        }
        Subject::Payment(id) => {
            let found = store.payment(id).await.expect("a payment reads");
            found.map(|payment| Record::Payment((*payment).clone()))
        }
        Subject::User(_) | Subject::Session(_) | Subject::Client(_) => {
            unreachable!("nobody signs in here")
        }
    }
}

/// Mostly small pages, so that a walk has many.
fn page_limit(rng: &mut Rng) -> PageLimit {
    let limit = if rng.percent(80) { 1 + rng.below(9) } else { 200 };
    PageLimit::new(limit as usize).unwrap_or_default()
}
