//! Commits a change set as one statement: one round trip to the database, and one transaction by itself.
//!
//! ```text
//! WITH lock_0 AS (SELECT 1 FROM plans WHERE id = $1 AND version = $2 FOR SHARE),
//!      write_0 AS (INSERT INTO subscriptions (…) SELECT $3, … FROM lock_0 RETURNING 1),
//!      recorded AS (INSERT INTO events (…) SELECT … FROM write_0)
//! SELECT (SELECT count(*) FROM lock_0)
//! ```
//!
//! Each part reads the rows of the part before it. So they run in this order, a lock that finds no row
//! stops all parts after it, and an insert that finds its key or a unique value taken fails the statement.

use super::super::commit::{event_columns, event_values, takes_over};
use super::super::statement::Statement;
use super::super::table::{Table, key_values, placeholders, values};
use super::super::value::Value;
use super::notify::{CHANNEL, notifications};
use crate::store::{ChangeSet, Guard, Key, Record};
use crate::values::Version;

/// A change set with more writes or events than this is committed by a transaction.
const PARTS_MAX: usize = 8;

/// A change set as one statement.
#[derive(Debug)]
pub(super) struct OneStatement {
    pub(super) statement: Statement,
    /// The records whose versions the statement checks. Its row has a number for each: 0 where the stored
    /// record has another version.
    pub(super) checked: Vec<Key>,
}

/// A record to lock, at its version, before anything is written.
struct Lock<'c> {
    key: Key,
    version: Version,
    /// `None` if the record is only guarded.
    write: Option<&'c Record>,
}

/// The change set as one statement, if it can be one.
pub(super) fn one_statement(changes: &ChangeSet) -> Option<OneStatement> {
    let locks = locks(changes)?;
    let mut building = Building::default();
    let alone = changes.writes.len() == 1 && changes.guards.is_empty();
    if !alone {
        for lock in &locks {
            building.lock(lock);
        }
    }
    for write in in_order(&changes.writes) {
        building.write(write, alone);
    }
    building.events_and_notifications(changes);
    Some(building.finish())
}

/// True if a set writes a few records, at most one to a table, and deletes none.
pub(super) fn is_small(changes: &ChangeSet) -> bool {
    let ChangeSet { guards, writes, deletes, events, forget_events } = changes;
    let is_few = writes.len() + guards.len() <= PARTS_MAX && events.len() <= PARTS_MAX;
    is_few
        && !writes.is_empty()
        && deletes.is_empty()
        && forget_events.is_none()
        && is_one_a_table(writes)
}

/// The records to lock, in the order of their keys, so that no two commits wait for each other. `None` if
/// the change set cannot be one statement.
fn locks(changes: &ChangeSet) -> Option<Vec<Lock<'_>>> {
    if !is_small(changes) {
        return None;
    }
    let mut locks = Vec::new();
    for guard in &changes.guards {
        match guard {
            // A record that does not exist cannot be locked.
            Guard::Unchanged { version: Version::NEW, .. }
            | Guard::PlanUnused(_)
            | Guard::NoOtherLiveSubscription(_)
            | Guard::Expired { .. } => return None,
            Guard::Unchanged { key, version } => {
                locks.push(Lock { key: key.clone(), version: *version, write: None });
            }
        }
    }
    for write in changes.writes.iter().filter(|write| write.version() != Version::FIRST) {
        let version = write.version().previous();
        locks.push(Lock { key: write.key(), version, write: Some(write) });
    }
    locks.sort_by(|a, b| a.key.cmp(&b.key));
    let twice = locks.windows(2).any(|pair| matches!(pair, [a, b] if a.key == b.key));
    (!twice).then_some(locks)
}

/// True if no table has two writes, so that an error that names a table names a write, and if at most one
/// write takes unique values: it comes last, when all versions have been checked. New records may take several,
/// such as a subscription with its first payment: if one is taken, all new records are looked up again. An update of
/// a subscription is not counted: it hardly ever changes a unique value.
fn is_one_a_table(writes: &[Record]) -> bool {
    let mut tables: Vec<_> = writes.iter().map(|write| Table::of(&write.key()).name).collect();
    tables.sort_unstable();
    let distinct = tables.windows(2).all(|pair| matches!(pair, [a, b] if a != b));
    let is_update = |write: &Record| {
        matches!(write, Record::Subscription(_)) && write.version() != Version::FIRST
    };
    let taking = writes.iter().filter(|write| has_unique_values(write) && !is_update(write));
    let are_new = writes.iter().all(|write| write.version() == Version::FIRST);
    distinct && (are_new || taking.count() <= 1)
}

fn has_unique_values(write: &Record) -> bool {
    !Table::of(&write.key()).unique.is_empty()
}

/// The order in which records are written. It is the same for every set, so that no two commits wait for
/// each other to release a key or a unique value. Records without unique values come first: of two requests
/// with the same idempotency key the second then fails at that key, not at a unique value. Records that may take
/// over a value come last.
pub(super) fn in_order(writes: &[Record]) -> Vec<&Record> {
    let mut writes: Vec<_> = writes.iter().collect();
    writes.sort_by_cached_key(|write| {
        let key = write.key();
        let unique = has_unique_values(write);
        let table = Table::of(&key).name;
        (unique, table, takes_over(write), unique_value(write), key)
    });
    writes
}

fn unique_value(write: &Record) -> Option<String> {
    match write {
        Record::Plan(plan) => Some(plan.slug.to_string()),
        Record::Subscription(subscription) => {
            let live = || subscription.live_key.as_deref().map(str::to_owned);
            subscription.external_subscription_id.as_ref().map(ToString::to_string).or_else(live)
        }
        Record::Payment(payment) => {
            let period = || payment.claimed_period().map(|start| start.to_string());
            payment.external_payment_id.as_ref().map(ToString::to_string).or_else(period)
        }
        Record::User(user) => Some(user.email.key().to_owned()),
        Record::Session(_) | Record::Client(_) | Record::Idempotency(_) | Record::Document(_) => {
            None
        }
    }
}

#[derive(Default)]
struct Building {
    statement: Statement,
    parts: Vec<String>,
    checked: Vec<(Key, String)>,
    /// The part whose rows the next one reads.
    last: Option<String>,
    /// Further parts that the statement must read.
    counted: Vec<String>,
}

impl Building {
    fn lock(&mut self, lock: &Lock<'_>) {
        let table = Table::of(&lock.key);
        let named = table.named(self.statement.values.len() + 1);
        self.statement.values.extend(key_values(&lock.key));
        let version = self.statement.bind(Value::version(lock.version));
        let strength = if lock.write.is_some() { "NO KEY UPDATE" } else { "SHARE" };
        let name = table.name;
        let number = self.checked.len();
        let before = self.last.as_ref().map(|last| format!(", {last}")).unwrap_or_default();
        let part = format!("lock_{number}");
        self.parts.push(format!(
            "{part} AS (SELECT 1 AS one FROM {name}{before} \
             WHERE {named} AND version = {version} FOR {strength} OF {name})"
        ));
        self.checked.push((lock.key.clone(), part.clone()));
        self.last = Some(part);
    }

    fn write(&mut self, write: &Record, alone: bool) {
        let key = write.key();
        let table = Table::of(&key);
        let from = self.statement.values.len() + 1;
        self.statement.values.extend(values(write));
        let before = self.last.as_ref().map(|last| format!(" FROM {last}")).unwrap_or_default();
        let part = format!("write_{}", self.parts.len());
        let text = if write.version() == Version::FIRST {
            let name = table.name;
            let columns = table.columns().join(", ");
            let values = placeholders(from, table.columns().len());
            format!("INSERT INTO {name} ({columns}) SELECT {values}{before}")
        } else {
            self.statement.values.push(Value::version(write.version().previous()));
            if alone {
                self.checked.push((key, part.clone()));
            }
            // The version is compared again, though the row is locked: every update has the same text.
            table.update(from).replacen(" WHERE ", &format!("{before} WHERE "), 1)
        };
        self.parts.push(format!("{part} AS ({text} RETURNING 1)"));
        self.last = Some(part);
    }

    fn events_and_notifications(&mut self, changes: &ChangeSet) {
        let before = self.last.clone().unwrap_or_default();
        if !changes.events.is_empty() {
            let mut rows = Vec::new();
            for event in &changes.events {
                let from = self.statement.values.len() + 1;
                let values = event_values(event);
                rows.push(format!("({})", placeholders(from, values.len())));
                self.statement.values.extend(values);
            }
            let columns = event_columns();
            let rows = rows.join(", ");
            self.parts.push(format!(
                "recorded AS (INSERT INTO events ({columns}) \
                 SELECT event.* FROM (VALUES {rows}) AS event, {before})"
            ));
        }
        for notification in notifications(changes) {
            let notification = self.statement.bind(Value::text(notification));
            let part = format!("notify_{}", self.counted.len());
            self.parts.push(format!(
                "{part} AS (SELECT pg_notify('{CHANNEL}', {notification}) FROM {before})"
            ));
            // A part that nothing reads is not run.
            self.counted.push(part);
        }
    }

    fn finish(mut self) -> OneStatement {
        let parts = self.checked.iter().map(|(_, part)| part).chain(&self.counted);
        let mut counts: Vec<_> =
            parts.map(|part| format!("(SELECT count(*) FROM {part})")).collect();
        if counts.is_empty() {
            counts.push("1".to_owned());
        }
        let parts = self.parts.join(", ");
        let counts = counts.join(", ");
        self.statement.text = format!("WITH {parts} SELECT {counts}").into();
        let checked = self.checked.into_iter().map(|(key, _)| key).collect();
        OneStatement { statement: self.statement, checked }
    }
}
