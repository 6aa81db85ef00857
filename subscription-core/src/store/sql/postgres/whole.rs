//! A change set as one statement: one round trip to the database, and one transaction by itself.
//!
//! ```text
//! WITH lock_0 AS (SELECT 1 FROM plans WHERE id = $1 AND version = $2 FOR SHARE),
//!      write_0 AS (INSERT INTO subscriptions (…) SELECT $3, … FROM lock_0 RETURNING 1),
//!      told AS (INSERT INTO events (…) SELECT … FROM write_0)
//! SELECT (SELECT count(*) FROM lock_0)
//! ```
//!
//! Each part takes its rows from the one before it. So they run in this order, a lock that finds
//! nothing stops all that follows, and an insert that finds its key or a value taken fails the whole.

use super::super::history::{EVENT_COLUMNS, event_values};
use super::super::page::Statement;
use super::super::table::{Table, key_values, placeholders, values};
use super::super::value::Value;
use super::announce::{CHANNEL, announcements};
use crate::store::{ChangeSet, Guard, Key, Record};
use crate::values::version::Version;

/// More writes or events than these go step by step.
const PARTS_MAX: usize = 8;

/// A change set as one statement.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) statement: Statement,
    /// Whose version each number of the answer is about: 0 where it is another.
    pub(super) checked: Vec<Key>,
}

/// What must be locked, at which version, before anything is written.
struct Lock<'c> {
    key: Key,
    version: Version,
    /// `None` for what is only guarded.
    write: Option<&'c Record>,
}

/// The change set as one statement, if it can be one.
pub(super) fn whole(changes: &ChangeSet) -> Option<Whole> {
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
    building.tell(changes);
    Some(building.finish())
}

/// What is to be locked, in the order of the keys, so that no two commits wait for each other. `None` if
/// the change set is not one for one statement.
fn locks(changes: &ChangeSet) -> Option<Vec<Lock<'_>>> {
    let parts = changes.writes.len() + changes.guards.len();
    let few = parts <= PARTS_MAX && changes.events.len() <= PARTS_MAX;
    if !few || changes.writes.is_empty() || !changes.deletes.is_empty() {
        return None;
    }
    if changes.forget_events.is_some() || !is_one_a_table(&changes.writes) {
        return None;
    }
    let mut locks = Vec::new();
    for guard in &changes.guards {
        match guard {
            // What is not there cannot be locked.
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

/// True if an error that names a table tells which write it is about, and no more than one of them can
/// find a value taken: that one comes last, when all versions are known to be right.
fn is_one_a_table(writes: &[Record]) -> bool {
    let mut tables: Vec<_> = writes.iter().map(|write| Table::of(&write.key()).name).collect();
    tables.sort_unstable();
    let distinct = tables.windows(2).all(|pair| matches!(pair, [a, b] if a != b));
    distinct && writes.iter().filter(|write| has_unique_values(write)).count() <= 1
}

fn has_unique_values(write: &Record) -> bool {
    !Table::of(&write.key()).unique.is_empty()
}

/// In which order records are written: the same for every set, so that no two wait for each other to
/// let go of a key or of a value. What is named by its key alone comes first, so that of two requests
/// that are twins the second finds that it was answered.
pub(super) fn in_order(writes: &[Record]) -> Vec<&Record> {
    let mut writes: Vec<_> = writes.iter().collect();
    writes.sort_by_cached_key(|write| {
        let key = write.key();
        (has_unique_values(write), Table::of(&key).name, unique_value(write), key)
    });
    writes
}

fn unique_value(write: &Record) -> Option<String> {
    match write {
        Record::Plan(plan) => Some(plan.slug.to_string()),
        Record::Subscription(subscription) => {
            subscription.external_subscription_id.as_ref().map(ToString::to_string)
        }
        Record::Payment(payment) => payment.external_payment_id.as_ref().map(ToString::to_string),
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
    /// The part that the next one takes its rows from.
    last: Option<String>,
    also: Vec<String>,
}

impl Building {
    fn lock(&mut self, lock: &Lock<'_>) {
        let table = Table::of(&lock.key);
        let named = table.named(self.statement.values.len() + 1);
        self.statement.values.extend(key_values(&lock.key));
        let version = self.statement.bind(Value::version(lock.version));
        let strength = if lock.write.is_some() { "NO KEY UPDATE" } else { "SHARE" };
        let (name, number) = (table.name, self.checked.len());
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
            let (name, columns) = (table.name, table.columns.join(", "));
            let values = placeholders(from, table.columns.len());
            format!("INSERT INTO {name} ({columns}) SELECT {values}{before}")
        } else {
            self.statement.values.push(Value::version(write.version().previous()));
            if alone {
                self.checked.push((key, part.clone()));
            }
            // Once more, though it is locked at it: the words of an update are the same everywhere.
            table.update(from).replacen(" WHERE ", &format!("{before} WHERE "), 1)
        };
        self.parts.push(format!("{part} AS ({text} RETURNING 1)"));
        self.last = Some(part);
    }

    fn tell(&mut self, changes: &ChangeSet) {
        let before = self.last.clone().unwrap_or_default();
        if !changes.events.is_empty() {
            let rows: Vec<_> =
                changes.events.iter().map(|event| self.row(event_values(event))).collect();
            let rows = rows.join(", ");
            self.parts.push(format!(
                "told AS (INSERT INTO events ({EVENT_COLUMNS}) \
                 SELECT event.* FROM (VALUES {rows}) AS event, {before})"
            ));
        }
        for announcement in announcements(changes) {
            let announcement = self.statement.bind(Value::text(announcement));
            let number = self.also.len();
            self.parts.push(format!(
                "announced_{number} AS (SELECT pg_notify('{CHANNEL}', {announcement}) FROM {before})"
            ));
            // Else nobody would look, and it would not be done.
            self.also.push(format!("(SELECT count(*) FROM announced_{number})"));
        }
    }

    fn row<const N: usize>(&mut self, values: [Value; N]) -> String {
        let from = self.statement.values.len() + 1;
        self.statement.values.extend(values);
        format!("({})", placeholders(from, N))
    }

    fn finish(mut self) -> Whole {
        let counts = self.checked.iter().map(|(_, part)| format!("(SELECT count(*) FROM {part})"));
        let mut answer: Vec<_> = counts.chain(self.also).collect();
        if answer.is_empty() {
            answer.push("1".to_owned());
        }
        let (parts, answer) = (self.parts.join(", "), answer.join(", "));
        self.statement.text = format!("WITH {parts} SELECT {answer}").into();
        let checked = self.checked.into_iter().map(|(key, _)| key).collect();
        Whole { statement: self.statement, checked }
    }
}
