//! Commits several change sets by one message to SQLite's thread.
//!
//! ```text
//! SAVEPOINT several;
//! INSERT INTO subscriptions (…) SELECT … WHERE EXISTS (SELECT 1 FROM plans WHERE … AND version = …);
//! INSERT INTO events (…) SELECT … WHERE changes() > 0;
//! SELECT changes() > 0;
//! … the same for each of the other sets …
//! RELEASE several
//! ```
//!
//! The first statement of a set checks all versions, and each of the others writes only if the one before it has written:
//! a set that is refused by a version writes nothing. A key or a unique value that is taken is an error, and undoes
//! all sets of the message. Either way `commit.rs` finds the reason, one set after the other.
//!
//! The sets of a message have the same text, and their number is a power of two, so that few texts are prepared.

use std::collections::HashSet;
use std::sync::LazyLock;

use sqlx::sqlite::SqliteConnection;

use super::super::commit::{event_columns, event_values, guarded, takes_over};
use super::super::dialect::SqlConnection as _;
use super::super::error::is_duplicate;
use super::super::page::Statement;
use super::super::records::EVENTS;
use super::super::table::{Table, key_values, values};
use super::super::value::{Columns as _, Value};
use crate::store::{ChangeSet, Guard, Key, Record};
use crate::values::version::Version;

/// The largest number of change sets in one message.
const SETS_MAX: usize = 16;

/// The largest number of records, of guards and of events of a set: sets of these sizes have few different texts.
const FEW: usize = 8;

/// Change sets that go into one message.
#[derive(Debug)]
pub(super) struct Several {
    /// The number of sets.
    pub(super) count: usize,
    statement: Statement,
}

/// The first of some change sets, as many as can be one message and at most `max`; `None` if the first of all has
/// another form. A record that one of them writes is neither written nor guarded by a later one.
pub(super) fn several<'c>(
    sets: impl Iterator<Item = &'c ChangeSet>,
    max: usize,
) -> Option<Several> {
    let mut named = HashSet::new();
    let mut parts: Vec<Statement> = Vec::new();
    for changes in sets.take(max.min(SETS_MAX)) {
        let Some(part) = part(changes) else { break };
        let is_like_the_first = parts.first().is_none_or(|first| first.text == part.text);
        if !is_like_the_first || !names(changes, &mut named) {
            break;
        }
        parts.push(part);
    }
    let count = parts.len().checked_ilog2().map(|power| 1 << power)?;
    parts.truncate(count);
    let text = parts.first()?.text.repeat(count);
    let text = format!("SAVEPOINT several; {text}RELEASE several");
    let values = parts.into_iter().flat_map(|part| part.values).collect();
    Some(Several { count, statement: Statement::new(text, values) })
}

impl Several {
    /// Commits the sets. Returns for each whether it was written; `None` if a key or a unique value is taken, and
    /// nothing was written.
    pub(super) async fn commit(
        self,
        to: &mut SqliteConnection,
    ) -> Result<Option<Vec<bool>>, sqlx::Error> {
        match to.rows(self.statement).await {
            Ok(rows) => rows.iter().map(|row| row.bool(0)).collect::<Result<_, _>>().map(Some),
            Err(error) if is_duplicate(&error) => {
                let undo = "ROLLBACK TO several; RELEASE several";
                to.execute(Statement::new(undo, Vec::new())).await?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Adds the records that a set writes; false if a set before it names one of them, or writes one that this set guards.
fn names(changes: &ChangeSet, named: &mut HashSet<Key>) -> bool {
    !guarded(changes).any(|key| named.contains(key))
        && changes.writes.iter().all(|write| named.insert(write.key()))
}

/// The statements of one set; `None` if it has another form.
fn part(changes: &ChangeSet) -> Option<Statement> {
    let ChangeSet { guards, writes, deletes, events, forget_events } = changes;
    let is_few = writes.len() <= FEW && guards.len() <= FEW && events.len() <= FEW;
    if !is_few || writes.is_empty() || !deletes.is_empty() || forget_events.is_some() {
        return None;
    }
    let mut writes: Vec<_> = writes.iter().collect();
    writes.sort_by_key(|write| takes_over(write));
    let mut part = Part::default();
    for (nth, write) in writes.iter().enumerate() {
        part.write(write);
        if nth > 0 {
            part.text.push_str(WRITTEN);
            continue;
        }
        part.text.push('1');
        for guard in guards {
            let Guard::Unchanged { key, version } = guard else { return None };
            part.check(key, *version);
        }
        // A new record whose key exists is an error, and the update that comes first checks its own version.
        for other in writes.iter().skip(1).filter(|other| other.version() != Version::FIRST) {
            part.check(&other.key(), other.version().previous());
        }
        part.text.push_str("; ");
    }
    for event in events {
        part.text.push_str(&EVENT);
        part.text.push_str(WRITTEN);
        part.values.extend(event_values(event));
    }
    part.text.push_str("SELECT changes() > 0; ");
    Some(Statement::new(part.text, part.values))
}

/// Ends a statement that writes only if the one before it has written.
const WRITTEN: &str = "changes() > 0; ";

/// Inserts an event, up to its condition.
static EVENT: LazyLock<String> = LazyLock::new(|| {
    let places = placeholders(EVENTS.columns().len() - 1);
    format!("INSERT INTO events ({}) SELECT {places} WHERE ", event_columns())
});

/// The text of a set. Placeholders have no numbers, so that the text of several sets is a repetition.
#[derive(Default)]
struct Part {
    text: String,
    values: Vec<Value>,
}

impl Part {
    /// Writes a record, up to the condition.
    fn write(&mut self, write: &Record) {
        let table = Table::of(&write.key());
        let mut values = values(write);
        if write.version() == Version::FIRST {
            let (columns, places) = (table.columns().join(", "), placeholders(values.len()));
            let text = format!("INSERT INTO {} ({columns}) SELECT {places} WHERE ", table.name);
            self.text.push_str(&text);
        } else {
            let (key, others) = table.columns().split_at_checked(table.key).unwrap_or_default();
            let (others, key) = (others.join(" = ?, "), key.join(" = ? AND "));
            let (name, reset) = (table.name, table.reset);
            let text = format!(
                "UPDATE {name} SET {others} = ?{reset} WHERE {key} = ? AND version = ? AND "
            );
            self.text.push_str(&text);
            // In the order of the text: the key comes last.
            values.rotate_left(table.key);
            values.push(Value::version(write.version().previous()));
        }
        self.values.extend(values);
    }

    /// Adds the condition that a record has a version.
    fn check(&mut self, key: &Key, version: Version) {
        let table = Table::of(key);
        let not = if version == Version::NEW { "NOT " } else { "" };
        let named = table.key_columns().join(" = ? AND ");
        let text = format!(" AND {not}EXISTS (SELECT 1 FROM {} WHERE {named} = ?", table.name);
        self.text.push_str(&text);
        self.values.extend(key_values(key));
        if version == Version::NEW {
            self.text.push(')');
        } else {
            self.text.push_str(" AND version = ?)");
            self.values.push(Value::version(version));
        }
    }
}

/// `?, ?, ?`
fn placeholders(count: usize) -> String {
    vec!["?"; count].join(", ")
}
