//! The simulation of actors that run at the same time, as tasks over one service.
//!
//! The order of their operations is not known in advance, so no model can predict every result. But every acknowledged
//! change must have happened exactly once, and at the end every invariant must hold.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use subscription_core::payments::Payment;
use subscription_core::plans::Plan;
use subscription_core::store::StoreExt as _;
use subscription_core::subscriptions::Subscription;

use subscription_core::events::{Change, Event, Subject};
use subscription_core::store::{IdempotencyKey, PageLimit, PlanQuery, SubscriptionQuery};
use subscription_core::{Clock, ManualClock, Store, SubscriptionService, Timestamp, Version};

use super::actors::Actor;
use super::feed::{Feed, Told};
use super::invariants::{self, Broken, View};
use super::model::{ANSWERS_KEPT, Records};
use super::operation::{Operation, Outcome, Record, Reply, made_at, subject, version};
use super::snapshot::Snapshot;
use super::world::{Failure, advance, service_over};
use crate::rng::Rng;

const ACTORS: usize = 6;

/// How often a request with an idempotency key is repeated before it must have had a response.
const REPEATS_MAX: usize = 200;

/// The results that the service returned to one actor.
#[derive(Debug, Default)]
struct Acknowledged {
    made: Vec<Record>,
    deleted: Vec<Subject>,
    by_key: Vec<Answered>,
    log: VecDeque<String>,
}

/// A request with an idempotency key, and the record that it created.
#[derive(Debug)]
struct Answered {
    key: IdempotencyKey,
    request: Operation,
    record: Record,
    replayed: bool,
    asked_at: Timestamp,
    done_at: Timestamp,
}

impl Answered {
    /// The time until which the key belongs to this record only.
    fn expires_at(&self) -> Timestamp {
        made_at(&self.record).saturating_add(ANSWERS_KEPT)
    }
}

/// Lets each actor make `steps` requests, then checks the store.
pub async fn run(store: Arc<dyn Store>, seed: u64, steps: u32) -> Result<(), Failure> {
    let (clock, faults, service) = service_over(&store, seed);
    let rng = Rng::new(seed);
    faults.draw_from(rng.fork());
    let tasks: Vec<_> = (0..ACTORS)
        .map(|nth| {
            // Two actors share each client, and so the idempotency keys of their requests.
            let actor = Actor::new(format!("client-{}", nth / 2), rng.fork());
            tokio::spawn(live(actor, service.clone(), clock.clone(), Arc::clone(&store), steps))
        })
        .collect();
    let mut acknowledged = Vec::new();
    for task in tasks {
        acknowledged.push(task.await.expect("an actor does not panic"));
    }
    check(&*store, &acknowledged, clock.now(), rng).await.map_err(|broken| Failure {
        broken,
        seed,
        log: acknowledged.into_iter().flat_map(|actor| actor.log).collect(),
    })
}

async fn live(
    mut actor: Actor,
    service: SubscriptionService,
    clock: ManualClock,
    store: Arc<dyn Store>,
    steps: u32,
) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    let mut records = Records::new();
    for step in 0..steps {
        if step % 4 == 0 {
            records = look_around(&*store).await;
        }
        let operation = actor.next(&records, clock.now(), 0);
        if let Operation::TurnClock(seconds) = operation {
            advance(&clock, seconds.unsigned_abs());
        }
        for _ in 0..REPEATS_MAX {
            let asked_at = clock.now();
            let outcome = operation.perform(&service).await;
            acknowledged.note(&operation, (asked_at, clock.now()), &outcome);
            let unanswered = outcome.is_err_and(|refusal| refusal.is_unavailable());
            if !unanswered || operation.key().is_none() {
                break;
            }
        }
    }
    acknowledged
}

/// Reads the records that an actor can see.
async fn look_around(store: &dyn Store) -> Records {
    let mut records = Records::new();
    let plans = PlanQuery::default().with_limit(PageLimit::MAX);
    let held = SubscriptionQuery::default().with_limit(PageLimit::MAX);
    let plans = store.list_as::<Plan>(plans.clone()).await.expect("plans are listed").items;
    let held =
        store.list_as::<Subscription>(held.clone()).await.expect("subscriptions are listed").items;
    for held in &held {
        let query = subscription_core::store::PaymentQuery::of(held.id);
        let paid =
            store.list_as::<Payment>(query.clone()).await.expect("payments are listed").items;
        records.extend(paid.iter().map(|paid| named(Record::Payment((**paid).clone()))));
    }
    records.extend(plans.iter().map(|plan| named(Record::Plan((**plan).clone()))));
    records.extend(held.iter().map(|held| named(Record::Subscription((**held).clone()))));
    records
}

fn named(record: Record) -> (Subject, Record) {
    (subject(&record), record)
}

impl Acknowledged {
    /// Stores the outcome of an operation, with the times of the request and of the response.
    fn note(&mut self, operation: &Operation, at: (Timestamp, Timestamp), outcome: &Outcome) {
        if let Ok(Reply::Created { record, replayed }) = outcome {
            let (record, replayed) = (record.clone(), *replayed);
            if !replayed {
                self.made.push(record.clone());
            }
            if let Some(key) = operation.key() {
                let (request, (asked_at, done_at)) = (operation.clone(), at);
                let answered = Answered { key, request, record, replayed, asked_at, done_at };
                self.by_key.push(answered);
            }
        }
        if let (Operation::DeleteSubscription(id, _), Ok(_)) = (operation, outcome) {
            self.deleted.push(Subject::Subscription(*id));
        }
        if let (Operation::DeletePayment(id, _), Ok(_)) = (operation, outcome) {
            self.deleted.push(Subject::Payment(*id));
        }
        if self.log.len() == 4 {
            self.log.pop_front();
        }
        self.log.push_back(format!("{operation:?} -> {outcome:?}").chars().take(300).collect());
    }
}

async fn check(
    store: &dyn Store,
    acknowledged: &[Acknowledged],
    now: Timestamp,
    rng: Rng,
) -> Result<(), Broken> {
    let mut feed = Feed::default();
    let fresh = feed.read_on(store).await?;
    let snapshot = Snapshot::take(store, feed.all_names(), now, &rng).await;
    let before = &Snapshot::default();
    invariants::check_store(&View { now, before, store: &snapshot, feed: &feed, fresh: &fresh })?;
    every_acknowledged_change_was_made(acknowledged, &feed, &fresh)
        .map_err(|detail| Broken::new("every_acknowledged_change_was_made", detail))?;
    a_key_has_one_record_at_a_time(acknowledged)
        .map_err(|detail| Broken::new("a_key_has_one_record_at_a_time", detail))
}

/// Checks that every acknowledged change is in the feed exactly once.
fn every_acknowledged_change_was_made(
    acknowledged: &[Acknowledged],
    feed: &Feed,
    events: &[Told],
) -> Result<(), String> {
    let name = |Event { subject, version, .. }: &Event| (subject.clone(), *version);
    let told: BTreeSet<_> = events.iter().map(|told| name(&told.event)).collect();
    let mut made = BTreeSet::new();
    for record in acknowledged.iter().flat_map(|actor| &actor.made) {
        let name = (subject(record), version(record));
        if name.1 != Version::FIRST || !told.contains(&name) || !made.insert(name) {
            return Err(format!("made twice or never: {record:?}"));
        }
    }
    let mut deleted = BTreeSet::new();
    for name in acknowledged.iter().flat_map(|actor| &actor.deleted) {
        let gone = feed.latest.get(name).is_some_and(|last| last.change == Change::Deleted);
        if !gone || !deleted.insert(name.clone()) {
            return Err(format!("deleted twice or never: {name}"));
        }
    }
    Ok(())
}

/// Checks that a key has one record until the key expires. Until then the record is returned only for the same request,
/// and no second record is created. After that it is never returned for the key.
fn a_key_has_one_record_at_a_time(acknowledged: &[Acknowledged]) -> Result<(), String> {
    let mut by_key: BTreeMap<&IdempotencyKey, BTreeMap<Subject, &Answered>> = BTreeMap::new();
    for one in acknowledged.iter().flat_map(|actor| &actor.by_key) {
        if one.replayed && one.asked_at >= one.expires_at() {
            return Err(format!("answered though it had expired: {one:?}"));
        }
        let uses = by_key.entry(&one.key).or_default();
        let first = uses.entry(subject(&one.record)).or_insert(one);
        if (&first.request, &first.record) != (&one.request, &one.record) {
            return Err(format!("one record, two answers: {one:?}\n  and {first:?}"));
        }
        if one.done_at < first.done_at {
            *first = one;
        }
    }
    for uses in by_key.values() {
        let mut uses: Vec<_> = uses.values().collect();
        uses.sort_by_key(|one| made_at(&one.record));
        for (nth, first) in uses.iter().enumerate() {
            let beside = uses.iter().skip(nth + 1);
            let mut beside = beside.take_while(|one| made_at(&one.record) < first.expires_at());
            // Days may pass between the decision about a record and its commit. Meanwhile the key of the other record
            // may have expired and been deleted.
            if let Some(second) = beside.find(|second| {
                second.done_at < first.expires_at() && first.done_at < second.expires_at()
            }) {
                return Err(format!("one key, two records: {second:?}\n  and {first:?}"));
            }
        }
    }
    Ok(())
}
