//! Kept answers and events as rows.

use serde::{Deserialize, Serialize};

use super::table::{ANSWERS, EVENTS, Kept, Table};
use super::value::{Cells, Columns, Value};
use crate::events::{Event, RecordedEvent};
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{Answer, IdempotencyKey, IdempotencyRecord, StoreError};
use crate::subscriptions::Subscription;
use crate::values::clock::Timestamp;

/// An answer with what its JSON for callers leaves out.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptAnswer {
    Plan(Plan),
    Subscription { shown: Subscription, blocked: bool, anchor_at: Option<Timestamp> },
    Payment { shown: Payment, settled: bool },
}

impl From<&Answer> for KeptAnswer {
    fn from(answer: &Answer) -> Self {
        match answer {
            Answer::Plan(plan) => Self::Plan(Plan::clone(plan)),
            Answer::Subscription(shown) => Self::Subscription {
                shown: Subscription::clone(shown),
                blocked: shown.blocked,
                anchor_at: shown.anchor_at,
            },
            Answer::Payment(shown) => {
                Self::Payment { shown: Payment::clone(shown), settled: shown.settled }
            }
        }
    }
}

impl From<KeptAnswer> for Answer {
    fn from(answer: KeptAnswer) -> Self {
        match answer {
            KeptAnswer::Plan(plan) => Self::Plan(plan.into()),
            KeptAnswer::Subscription { shown, blocked, anchor_at } => {
                Self::Subscription(Subscription { blocked, anchor_at, ..shown }.into())
            }
            KeptAnswer::Payment { shown, settled } => {
                Self::Payment(Payment { settled, ..shown }.into())
            }
        }
    }
}

impl Kept for IdempotencyRecord {
    const TABLE: &'static Table = &ANSWERS;

    fn values(&self) -> Vec<Value> {
        vec![
            Value::text(self.key.operation.as_str()),
            Value::text(&self.key.client),
            Value::text(self.key.key.as_str()),
            Value::version(self.version),
            Value::Bytes(self.fingerprint.to_vec()),
            Value::json(&KeptAnswer::from(&self.answer)),
            Value::time(self.expires_at),
        ]
    }

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError> {
        Ok(Self {
            key: IdempotencyKey {
                operation: cells.parsed()?,
                client: cells.text()?.to_owned(),
                key: cells.parsed()?,
            },
            version: cells.version()?,
            fingerprint: cells.bytes()?,
            answer: cells.json::<KeptAnswer>()?.into(),
            expires_at: cells.time()?,
        })
    }
}

/// What an event has besides its place.
pub(super) const EVENT_COLUMNS: &str = "id, at, subject, version, change";

pub(super) fn event_values(event: &Event) -> [Value; 5] {
    [
        Value::Id(event.id.uuid()),
        Value::time(event.at),
        Value::json(&event.subject),
        Value::version(event.version),
        Value::json(&event.change),
    ]
}

/// Reads a place and the columns of its event.
pub(super) fn recorded_event<R: Columns>(row: &R) -> Result<RecordedEvent, StoreError> {
    RecordedEvent::read(&mut Cells::new(row))
}

impl Kept for RecordedEvent {
    const TABLE: &'static Table = &EVENTS;

    fn values(&self) -> Vec<Value> {
        let sequence = Value::count(self.sequence);
        std::iter::once(sequence).chain(event_values(&self.event)).collect()
    }

    fn read<R: Columns>(cells: &mut Cells<'_, R>) -> Result<Self, StoreError> {
        Ok(Self {
            sequence: cells.count()?,
            event: Event {
                id: cells.id()?,
                at: cells.time()?,
                subject: cells.json()?,
                version: cells.version()?,
                change: cells.json()?,
            },
        })
    }
}
