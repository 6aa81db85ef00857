//! Actors that run at once, as tasks over one service.
//!
//! Nobody knows beforehand in which order things happen, so there is no model of everything. What is
//! known: what was acknowledged did happen, once, and at the end every invariant holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use subscription_core::events::{Event, Subject};
use subscription_core::store::{IdempotencyKey, PageLimit, PlanQuery, SubscriptionQuery};
use subscription_core::{Clock, ManualClock, Store, SubscriptionService, Timestamp, Version};

use super::actors::Actor;
use super::invariants::{self, Broken, View};
use super::model::Records;
use super::operation::{Operation, Outcome, Record, Reply, subject, version};
use super::rng::Rng;
use super::snapshot::{Feed, Snapshot};
use super::world::{Failure, service_over};

const ACTORS: usize = 6;

/// How often a request under a key is repeated before it must have been answered.
const REPEATS_MAX: usize = 200;

/// What the service acknowledged to one actor.
#[derive(Debug, Default)]
struct Acknowledged {
    made: Vec<Record>,
    deleted: Vec<Subject>,
    /// The record that each request under a key led to.
    by_key: Vec<(IdempotencyKey, Operation, Record)>,
    log: VecDeque<String>,
}

/// Lets all actors ask so many times, then checks what is left behind.
pub(super) async fn run(store: Arc<dyn Store>, seed: u64, steps: u32) -> Result<(), Failure> {
    let (clock, faults, service) = service_over(&store, seed);
    let mut rng = Rng::new(seed);
    faults.draw_from(rng.fork());
    let tasks: Vec<_> = (0..ACTORS)
        .map(|nth| {
            // Two of each: they share a client, and with it the keys of their requests.
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
            // Not by days: a key that expires between two repetitions may make a second record.
            clock.advance(Duration::from_secs(seconds.unsigned_abs() % 60));
        }
        for _ in 0..REPEATS_MAX {
            let outcome = operation.perform(&service).await;
            acknowledged.note(&operation, &outcome);
            let unanswered = outcome.is_err_and(|refusal| refusal.is_unavailable());
            if !unanswered || operation.key().is_none() {
                break;
            }
        }
    }
    acknowledged
}

/// What an actor can see of the records.
async fn look_around(store: &dyn Store) -> Records {
    let mut records = Records::new();
    let plans = PlanQuery { limit: PageLimit::MAX, ..PlanQuery::default() };
    let held = SubscriptionQuery { limit: PageLimit::MAX, ..SubscriptionQuery::default() };
    let plans = store.plans(&plans).await.expect("plans are listed").items;
    let held = store.subscriptions(&held).await.expect("subscriptions are listed").items;
    for held in &held {
        let query = subscription_core::store::PaymentQuery::of(held.id);
        let paid = store.payments(&query).await.expect("payments are listed").items;
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
    fn note(&mut self, operation: &Operation, outcome: &Outcome) {
        if let Ok(Reply::Created { record, replayed }) = outcome {
            if !replayed {
                self.made.push(record.clone());
            }
            if let Some(key) = operation.key() {
                self.by_key.push((key, operation.clone(), record.clone()));
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
    mut rng: Rng,
) -> Result<(), Broken> {
    let mut feed = Feed::default();
    let fresh = feed.read_on(store).await?;
    feed.absorb(&fresh);
    let snapshot = Snapshot::take(store, &feed, now, &mut rng).await;
    invariants::check_store(&View {
        now,
        before: &Snapshot::default(),
        store: &snapshot,
        feed_before: &Feed::default(),
        feed: &feed,
        fresh: &fresh,
    })?;
    every_acknowledged_change_was_made(acknowledged, &fresh)
        .map_err(|detail| Broken::new("every_acknowledged_change_was_made", detail))
}

/// What was acknowledged stands in the feed, once; and one key never led to two records.
fn every_acknowledged_change_was_made(
    acknowledged: &[Acknowledged],
    events: &[Event],
) -> Result<(), String> {
    let told: BTreeSet<_> =
        events.iter().map(|event| (event.subject.clone(), event.version)).collect();
    let mut made = BTreeSet::new();
    for record in acknowledged.iter().flat_map(|actor| &actor.made) {
        let name = (subject(record), version(record));
        if name.1 != Version::FIRST || !told.contains(&name) || !made.insert(name) {
            return Err(format!("made twice or never: {record:?}"));
        }
    }
    let mut deleted = BTreeSet::new();
    for name in acknowledged.iter().flat_map(|actor| &actor.deleted) {
        let gone = events.iter().rfind(|event| event.subject == *name);
        let gone =
            gone.is_some_and(|event| event.change == subscription_core::events::Change::Deleted);
        if !gone || !deleted.insert(name.clone()) {
            return Err(format!("deleted twice or never: {name}"));
        }
    }
    let mut by_key: BTreeMap<&IdempotencyKey, (&Operation, &Record)> = BTreeMap::new();
    for (key, operation, record) in acknowledged.iter().flat_map(|actor| &actor.by_key) {
        let first = by_key.entry(key).or_insert((operation, record));
        if *first != (operation, record) {
            return Err(format!("one key, two answers: {record:?}\n  and {:?}", first.1));
        }
    }
    Ok(())
}
