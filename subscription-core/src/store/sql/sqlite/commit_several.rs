//! Commits several change sets by one message to SQLite's thread.
//!
//! ```text
//! SAVEPOINT several;
//! INSERT OR FAIL INTO subscriptions (…) SELECT … WHERE EXISTS (SELECT 1 FROM plans WHERE … AND version = …);
//! INSERT OR IGNORE INTO events (id, …) VALUES (iif(changes() > 0, …, NULL), …);
//! … the same for each of the other sets …
//! RELEASE several
//! ```
//!
//! The first statement of a set checks all versions. Each further statement writes only if the previous statement has
//! written, so a set that is refused by a version writes nothing. If a key or a unique value is taken, the error undoes
//! all sets of the message. A wrong version undoes them too, if the set inserts a second record. In both cases
//! `commit.rs` finds the reason, one set after the other.
//!
//! If SQLite may have to undo a single statement, it copies the pages that the statement changes. `OR FAIL`, and
//! `VALUES` instead of `SELECT` where a function is called, show SQLite that it never has to undo a single statement.
//!
//! The sets of a message have the same text, and their number is a power of two, so that few texts are prepared.

use std::collections::HashSet;
use std::sync::LazyLock;

use sqlx::error::ErrorKind;
use sqlx::sqlite::SqliteConnection;

use super::super::commit::{event_columns, event_values, guarded, takes_over};
use super::super::dialect::SqlConnection as _;
use super::super::records::EVENTS;
use super::super::statement::Statement;
use super::super::table::{SqlRecord as _, Table, key_values, values};
use super::super::value::Value;
use super::row::{BoundQuery, query, rows_changed};
use crate::events::{Change, Event};
use crate::store::{ChangeSet, Guard, Key, Record};
use crate::subscriptions::Subscription;
use crate::values::Version;

/// The largest number of change sets in one message.
const SETS_MAX: usize = 32;

/// A change set with more records, more guards or more events than this is not put into a message, so that few
/// different texts are prepared.
const FEW: usize = 8;

/// The largest number of statements in a message.
pub(super) const STATEMENTS_MAX: usize = SETS_MAX * 2 * FEW + 2;

/// For each column of a subscription: true if it is indexed and a new period usually does not change it. The UPDATE for
/// a new period compares these columns in its WHERE and does not SET them: SQLite rewrites the index entries of every
/// column that is SET, even to the same value. If one of these columns does change, the UPDATE writes nothing, and
/// `commit.rs` commits the change set afterwards.
static STAYS: LazyLock<Vec<bool>> = LazyLock::new(|| {
    let stay = "user_id subscription_plan_id external_subscription_id status starts_at ends_at \
                blocked live_key scheduled_plan_id access_phase";
    let stays = |column: &&str| stay.split(' ').any(|name| name == *column);
    Subscription::TABLE.columns().iter().map(stays).collect()
});

/// Change sets that go into one message.
pub(super) struct SetBatch {
    /// The number of sets.
    pub(super) count: usize,
    query: BoundQuery,
}

/// A message with the first of the change sets: at most `max`, and only sets whose statements have the same text.
/// `None` if the first set cannot be in a message. A record that one set writes is neither written nor guarded by a
/// later set of the message.
pub(super) fn set_batch<'c>(
    sets: impl Iterator<Item = &'c ChangeSet>,
    max: usize,
) -> Option<SetBatch> {
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
    Some(SetBatch { count, query: query(Statement::new(text, values)) })
}

impl SetBatch {
    /// Commits the sets. Returns true for each set that was written; `None` if an error of one set undid all sets.
    pub(super) async fn commit(
        self,
        to: &mut SqliteConnection,
    ) -> Result<Option<Vec<bool>>, sqlx::Error> {
        match rows_changed(to, self.query).await {
            // The first and the last statement are SAVEPOINT and RELEASE. Between them, each set has the same number of
            // statements. A set is written if its last statement changed a row.
            Ok(rows) => {
                let each = rows.len().saturating_sub(2) / self.count;
                let last = rows.iter().skip(each).step_by(each.max(1)).take(self.count);
                Ok(Some(last.map(|rows| *rows > 0).collect()))
            }
            Err(error) if is_refusal(&error) => {
                let undo = "ROLLBACK TO several; RELEASE several";
                to.execute(Statement::plain(undo)).await?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// True if a key or a unique value is taken, or if the first column of a row is NULL because the previous statement
/// wrote nothing.
fn is_refusal(error: &sqlx::Error) -> bool {
    let kind = error.as_database_error().map(sqlx::error::DatabaseError::kind);
    matches!(kind, Some(ErrorKind::UniqueViolation | ErrorKind::NotNullViolation))
}

/// Adds to `named` the records that a set writes. Returns false if an earlier set of the message writes one of these
/// records, or writes a record that this set guards.
fn names(changes: &ChangeSet, named: &mut HashSet<Key>) -> bool {
    !guarded(changes).any(|key| named.contains(key))
        && changes.writes.iter().all(|write| named.insert(write.key()))
}

/// The statements of one set; `None` if the set cannot be in a message.
fn part(changes: &ChangeSet) -> Option<Statement> {
    let ChangeSet { guards, writes, deletes, events, forget_events } = changes;
    let is_few = writes.len() <= FEW && guards.len() <= FEW && events.len() <= FEW;
    if !is_few || !deletes.is_empty() || forget_events.is_some() {
        return None;
    }
    let mut writes: Vec<_> = writes.iter().collect();
    writes.sort_by_key(|write| takes_over(write));
    let mut part = Part::default();
    let (first, others) = writes.split_first()?;
    let is_period = |event: &Event| matches!(event.change, Change::PeriodStarted { .. });
    let is_period = events.iter().any(is_period);
    part.write(first, false, is_period);
    for guard in guards {
        let Guard::Unchanged { key, version } = guard else { return None };
        part.check(key, *version);
    }
    // Only updates of further records need a check here. An INSERT fails if the key exists, and the UPDATE of the first
    // record compares the version of that record itself.
    for other in others.iter().filter(|other| other.version() != Version::FIRST) {
        part.check(&other.key(), other.version().previous());
    }
    part.text.push_str("; ");
    for other in others {
        part.write(other, true, is_period);
    }
    for event in events {
        part.text.push_str(&EVENT);
        part.values.extend(event_values(event));
    }
    Some(Statement::new(part.text, part.values))
}

/// Inserts an event if the previous statement has changed a row.
static EVENT: LazyLock<String> =
    LazyLock::new(|| insert_next("IGNORE", "events", &event_columns(), EVENTS.columns().len() - 1));

/// Inserts a row if the previous statement has changed a row. Otherwise the first column of the new row is NULL, which
/// no table allows: with `IGNORE` the row is left out, with `FAIL` the statement fails.
fn insert_next(or: &str, table: &str, columns: &str, count: usize) -> String {
    let others = ", ?".repeat(count - 1);
    format!(
        "INSERT OR {or} INTO {table} ({columns}) VALUES (iif(changes() > 0, ?, NULL){others}); "
    )
}

/// The statements of one change set. Their placeholders have no numbers, so that the text for several sets is the text
/// for one set, repeated.
#[derive(Default)]
struct Part {
    text: String,
    values: Vec<Value>,
}

impl Part {
    /// Adds the statement that writes a record; `other` is false for the first record of the set. The statement of the
    /// first record has no semicolon at its end, so that conditions can follow. The statement of any other record
    /// writes only if the previous statement has changed a row. If the set starts a new period, its subscription is
    /// updated only if the columns of [`STAYS`] stay the same.
    fn write(&mut self, write: &Record, other: bool, is_period: bool) {
        let table = Table::of(&write.key());
        let name = table.name;
        let mut values = values(write);
        let text = if write.version() == Version::FIRST {
            let columns = table.columns().join(", ");
            if other {
                insert_next("FAIL", name, &columns, values.len())
            } else {
                let places = vec!["?"; values.len()].join(", ");
                format!("INSERT OR FAIL INTO {name} ({columns}) SELECT {places} WHERE 1")
            }
        } else {
            let columns = table.columns().iter().zip(values).enumerate();
            let is_period = is_period && matches!(write, Record::Subscription(_));
            let stays = |nth: usize| is_period && STAYS.get(nth) == Some(&true);
            let (found, set): (Vec<_>, Vec<_>) =
                columns.partition(|(nth, _)| *nth < table.key || stays(*nth));
            let texts = |columns: &[(usize, (&&str, Value))], end: &str| {
                columns.iter().flat_map(|(_, (column, _))| [**column, end]).collect::<String>()
            };
            let assigned = texts(&set, " = ?, ");
            let same = texts(&found, " IS ? AND ");
            let assigned = assigned.trim_end_matches(", ");
            let end = if other { " AND changes() > 0; " } else { "" };
            values = set.into_iter().chain(found).map(|(_, (_, value))| value).collect();
            values.push(Value::version(write.version().previous()));
            format!("UPDATE OR FAIL {name} SET {assigned} WHERE {same}version = ?{end}")
        };
        self.text.push_str(&text);
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
