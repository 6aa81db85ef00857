//! The model of the service: plain maps of the records that must exist.
//!
//! For every operation it predicts the result and the changes. If the result was lost, the feed of events shows whether
//! the change took effect: completely or not at all.

pub mod lists;
pub mod payments;
pub mod plans;
pub mod rules;
pub mod subscriptions;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::IdempotencyKey;
use subscription_core::{Payment, Plan, Subscription, Timestamp, Version};

use super::faults::Disturbance;
use super::invariants::Broken;
use super::operation::{Operation, Outcome, Record, Refusal, Reply, subject, version};

/// How long the result of a request with an idempotency key is stored.
pub const ANSWERS_KEPT: Duration = Duration::from_hours(24);

/// Records by their names.
pub type Records = BTreeMap<Subject, Record>;

/// The records that must exist.
#[derive(Debug, Default)]
pub struct Model {
    pub records: Records,
    pub answers: BTreeMap<IdempotencyKey, Kept>,
}

/// The stored result of a request with an idempotency key.
#[derive(Debug, Clone)]
pub struct Kept {
    request: Operation,
    pub record: Record,
    pub expires_at: Timestamp,
    pub version: Version,
}

/// The result that an operation must have.
#[derive(Debug)]
pub enum Expected {
    /// A result, and no change.
    Answer(Outcome),
    /// A new record, whose id is not known yet.
    Create(Record),
    /// The new state of a record.
    Update(Record, Change),
    /// A record that is deleted.
    Delete(Record),
    /// The deletion of expired idempotency records, without an event.
    Forget,
}

/// An operation with its observed outcome.
#[derive(Debug)]
pub struct Seen<'a> {
    pub operation: &'a Operation,
    pub at: Timestamp,
    pub outcome: &'a Outcome,
    /// The fault that the store injected.
    pub disturbance: Disturbance,
    /// True if the store has no expired idempotency records.
    pub swept: bool,
}

impl Model {
    /// Applies an operation to the model. Fails if its result or its change differs from the prediction.
    ///
    /// Removes the event of the operation from the front of `feed`.
    pub fn accept(&mut self, seen: &Seen<'_>, feed: &mut VecDeque<Event>) -> Result<(), Broken> {
        let expected = self.expect(seen.operation, seen.at);
        let answered = seen.disturbance == Disturbance::None;
        if !answered {
            told_so(seen, &expected)?;
        }
        let took_effect = match &expected {
            Expected::Answer(_) => true,
            Expected::Forget => answered || seen.swept,
            Expected::Create(_) | Expected::Update(..) | Expected::Delete(_) => {
                answered || (seen.disturbance == Disturbance::Unavailable && !feed.is_empty())
            }
        };
        if !took_effect {
            return Ok(());
        }
        let mut next_event = || {
            feed.pop_front().ok_or_else(|| {
                let detail = format!("{:?}: no event, answered {:?}", seen.operation, seen.outcome);
                Broken::new("every_change_has_one_event", detail)
            })
        };
        let (reply, events) = match expected {
            Expected::Answer(outcome) => (outcome, None),
            Expected::Forget => (Ok(self.forget(seen.at)), None),
            Expected::Create(record) => {
                let event = next_event()?;
                let record = named(record, event.subject.clone());
                let told = told(&event, &record, version(&record), Change::Created, seen.at);
                (Ok(self.keep(record, seen)), Some((event, told)))
            }
            Expected::Update(record, change) => {
                let event = next_event()?;
                let told = told(&event, &record, version(&record), change, seen.at);
                self.records.insert(subject(&record), record.clone());
                (Ok(Reply::Found(record)), Some((event, told)))
            }
            Expected::Delete(record) => {
                let event = next_event()?;
                let gone = version(&record).next();
                let told = told(&event, &record, gone, Change::Deleted, seen.at);
                self.records.remove(&subject(&record));
                (Ok(Reply::Done), Some((event, told)))
            }
        };
        if answered && reply != *seen.outcome {
            return Err(Broken::new(
                "answers_agree_with_the_model",
                format!(
                    "{:?}\n  answered {:?}\n  expected {reply:?}",
                    seen.operation, seen.outcome
                ),
            ));
        }
        match events {
            Some((event, told)) if event != told => Err(Broken::new(
                "events_tell_what_changed",
                format!("{:?}\n  told {event:?}\n  expected {told:?}", seen.operation),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn expect(&self, operation: &Operation, now: Timestamp) -> Expected {
        if let Some(known) = self.known(operation, now) {
            return Expected::Answer(known);
        }
        let expected = match operation {
            Operation::CreatePlan(new, _) => self.create_plan(new, now),
            Operation::UpdatePlan(slug, changes, version) => {
                self.update_plan(slug, changes, *version, now)
            }
            Operation::DeletePlan(slug, version) => self.delete_plan(slug, *version),
            Operation::ReadPlan(slug) => self.read_plan(slug),
            Operation::CreateSubscription(new, _) => self.create_subscription(new, now),
            Operation::UpdateSubscription(id, changes, version) => {
                self.update_subscription(*id, changes, *version, now)
            }
            Operation::Cancel(id, user) => self.cancel(*id, *user, now),
            Operation::Resume(id, user) => self.resume(*id, *user, now),
            Operation::DeleteSubscription(id, version) => self.delete_subscription(*id, *version),
            Operation::ReadSubscription(id) => self.read_subscription(*id, now),
            Operation::CreatePayment(new, _) => self.create_payment(new, now),
            Operation::UpdatePayment(id, changes, version) => {
                self.update_payment(*id, changes, *version, now)
            }
            Operation::DeletePayment(id, version) => self.delete_payment(*id, *version),
            Operation::ReadPayment(id) => self.read_payment(*id),
            Operation::ListPlans(query) => Ok(self.list_plans(query)),
            Operation::ListSubscriptions(query) => Ok(self.list_subscriptions(query, now)),
            Operation::ListPayments(query) => Ok(self.list_payments(query)),
            Operation::LookUpEntitlement(user) => Ok(self.entitlement(*user, now)),
            Operation::ForgetExpiredIdempotency => Ok(Expected::Forget),
            Operation::ForgetEvents(_) | Operation::TurnClock(_) => {
                Ok(Expected::Answer(Ok(Reply::Done)))
            }
        };
        expected.unwrap_or_else(|refusal| Expected::Answer(Err(refusal)))
    }

    /// The result of a request whose idempotency key was used before.
    fn known(&self, operation: &Operation, now: Timestamp) -> Option<Outcome> {
        let kept = self.answers.get(&operation.key()?).filter(|kept| now < kept.expires_at)?;
        Some(if kept.request == *operation {
            Ok(Reply::Created { record: kept.record.clone(), replayed: true })
        } else {
            Err(Refusal::new("idempotency_key_reused"))
        })
    }

    fn keep(&mut self, record: Record, seen: &Seen<'_>) -> Reply {
        if let Some(key) = seen.operation.key() {
            let used = self.answers.get(&key).map_or(Version::NEW, |kept| kept.version);
            let kept = Kept {
                request: seen.operation.clone(),
                record: record.clone(),
                expires_at: seen.at.saturating_add(ANSWERS_KEPT),
                version: used.next(),
            };
            self.answers.insert(key, kept);
        }
        self.records.insert(subject(&record), record.clone());
        Reply::Created { record, replayed: false }
    }

    fn forget(&mut self, now: Timestamp) -> Reply {
        let before = self.answers.len();
        self.answers.retain(|_, kept| now < kept.expires_at);
        Reply::Forgotten(before - self.answers.len())
    }
}

pub fn plans(records: &Records) -> impl Iterator<Item = &Plan> {
    records.values().filter_map(|record| match record {
        Record::Plan(plan) => Some(plan),
        Record::Subscription(_) | Record::Payment(_) => None,
    })
}

pub fn subscriptions(records: &Records) -> impl Iterator<Item = &Subscription> {
    records.values().filter_map(|record| match record {
        Record::Subscription(subscription) => Some(subscription),
        Record::Plan(_) | Record::Payment(_) => None,
    })
}

pub fn payments(records: &Records) -> impl Iterator<Item = &Payment> {
    records.values().filter_map(|record| match record {
        Record::Payment(payment) => Some(payment),
        Record::Plan(_) | Record::Subscription(_) => None,
    })
}

fn not_found() -> Refusal {
    Refusal::new("not_found")
}

/// Refuses the operation if the caller had read another version.
fn fresh(current: Version, wanted: Option<Version>) -> Result<(), Refusal> {
    match wanted {
        Some(wanted) if wanted != current => Err(Refusal::about("precondition_failed", [current])),
        Some(_) | None => Ok(()),
    }
}

/// The expectation of an update. If nothing changes, the result is the unchanged record.
fn update(current: Record, next: Record, change: Change) -> Expected {
    if current == next {
        return Expected::Answer(Ok(Reply::Found(current)));
    }
    Expected::Update(next, change)
}

/// The change of an updated record: the names of all fields whose value in its JSON has changed.
fn updated(current: &impl Serialize, next: &impl Serialize) -> Change {
    let text = serde_json::to_string(next).unwrap();
    let before = serde_json::to_string(current).unwrap();
    let values =
        |text: &str| -> BTreeMap<String, Box<RawValue>> { serde_json::from_str(text).unwrap() };
    let before = values(&before);
    let mut names: Vec<_> = values(&text)
        .into_iter()
        .filter(|(name, _)| !["version", "updated_at"].contains(&name.as_str()))
        .filter(|(name, value)| before[name].get() != value.get())
        .map(|(name, _)| name)
        .collect();
    names.sort_by_key(|name| text.find(&format!("\"{name}\":")));
    serde_json::from_value(serde_json::json!({"change": "updated", "fields": names})).unwrap()
}

/// The record with the id that its event has.
fn named(record: Record, name: Subject) -> Record {
    match (record, name) {
        (Record::Plan(plan), Subject::Plan(id)) => Record::Plan(Plan { id, ..plan }),
        (Record::Subscription(subscription), Subject::Subscription(id)) => {
            Record::Subscription(Subscription { id, ..subscription })
        }
        (Record::Payment(payment), Subject::Payment(id)) => {
            Record::Payment(Payment { id, ..payment })
        }
        (other, _) => other,
    }
}

/// The event that a change must have. The id is copied from the observed event, because it cannot be predicted.
fn told(event: &Event, record: &Record, version: Version, change: Change, at: Timestamp) -> Event {
    let actor = Actor::Library;
    Event { id: event.id, at, subject: subject(record), version, change, actor }
}

/// Checks that the service reports a failure of the store, and no other error.
fn told_so(seen: &Seen<'_>, expected: &Expected) -> Result<(), Broken> {
    // Invalid input may be reported instead, even if the rest of the input could not be checked.
    let invalid = |refusal: &Refusal| {
        refusal.code == "validation_failed"
            && matches!(expected, Expected::Answer(Err(expected)) if expected.code == refusal.code)
    };
    let told = seen.outcome.as_ref().is_err_and(|refusal| match seen.disturbance {
        Disturbance::Unavailable => refusal.is_unavailable() || invalid(refusal),
        Disturbance::Busy => refusal.is_busy(),
        Disturbance::None => true,
    });
    if told {
        return Ok(());
    }
    let detail = format!("{:?} under {:?}: {:?}", seen.operation, seen.disturbance, seen.outcome);
    Err(Broken::new("failures_of_the_store_are_told", detail))
}
