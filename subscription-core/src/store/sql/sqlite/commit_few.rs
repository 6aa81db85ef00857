//! Commits a set of a few records by one message to SQLite's thread.
//!
//! ```text
//! SAVEPOINT one_set;
//! INSERT INTO documents (…) SELECT … WHERE EXISTS (SELECT 1 FROM plans WHERE … AND version = …) AND …;
//! UPDATE subscriptions SET … WHERE … AND changes() > 0;
//! INSERT INTO events (…) SELECT … WHERE changes() > 0;
//! RELEASE one_set;
//! SELECT changes()
//! ```
//!
//! The first statement checks all versions, and each of the others writes only if the one before it has written: a set
//! that is refused by a version writes nothing. A key or a unique value that is taken is an error, and undoes all.
//! Either way, `commit.rs` finds the reason.

use std::fmt::Write as _;

use sqlx::sqlite::SqliteConnection;

use super::super::commit::{event_columns, event_values, takes_over};
use super::super::dialect::SqlConnection as _;
use super::super::error::is_duplicate;
use super::super::page::Statement;
use super::super::table::{Table, key_values, placeholders, values};
use super::super::value::{Columns as _, Value};
use crate::store::{ChangeSet, Guard, Key};
use crate::values::version::Version;

/// The largest number of records, of guards and of events: sets of these sizes have few different texts.
const FEW: usize = 8;

/// Commits a change set; false if it has another form or is refused, and nothing was written.
pub(super) async fn commit(
    to: &mut SqliteConnection,
    changes: &ChangeSet,
) -> Result<bool, sqlx::Error> {
    let Some(statement) = statement(changes) else { return Ok(false) };
    match to.rows(statement).await {
        Ok(rows) => Ok(rows.last().map_or(Ok(0), |row| row.int(0))? > 0),
        Err(error) if is_duplicate(&error) => {
            let undo = "ROLLBACK TO one_set; RELEASE one_set";
            to.execute(Statement::new(undo, Vec::new())).await?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The statements of a set; `None` if it has another form.
fn statement(changes: &ChangeSet) -> Option<Statement> {
    let ChangeSet { guards, writes, deletes, events, forget_events } = changes;
    let is_few = writes.len() <= FEW && guards.len() <= FEW && events.len() <= FEW;
    if !is_few || writes.len() < 2 || !deletes.is_empty() || forget_events.is_some() {
        return None;
    }
    let mut statement = Statement::new("SAVEPOINT one_set", Vec::new());
    let mut checks = Vec::new();
    for guard in guards {
        let Guard::Unchanged { key, version } = guard else { return None };
        checks.push(check(&mut statement, key, *version));
    }
    // A new record whose key exists is an error.
    for write in writes.iter().filter(|write| write.version() != Version::FIRST) {
        checks.push(check(&mut statement, &write.key(), write.version().previous()));
    }
    let mut condition = checks.join(" AND ");
    if condition.is_empty() {
        condition.push('1');
    }
    let mut writes: Vec<_> = writes.iter().collect();
    writes.sort_by_key(|write| takes_over(write));
    for write in writes {
        let (table, from) = (Table::of(&write.key()), statement.values.len() + 1);
        statement.values.extend(values(write));
        let text = if write.version() == Version::FIRST {
            let (columns, count) = (table.columns().join(", "), table.columns().len());
            let places = placeholders(from, count);
            format!("INSERT INTO {} ({columns}) SELECT {places} WHERE", table.name)
        } else {
            statement.values.push(Value::version(write.version().previous()));
            format!("{} AND", table.update(from))
        };
        write!(statement.text.to_mut(), "; {text} {condition}").ok();
        "changes() > 0".clone_into(&mut condition);
    }
    for event in events {
        let (columns, event) = (event_columns(), event_values(event));
        let places = placeholders(statement.values.len() + 1, event.len());
        let text = format!("INSERT INTO events ({columns}) SELECT {places} WHERE");
        statement.values.extend(event);
        write!(statement.text.to_mut(), "; {text} {condition}").ok();
    }
    statement.text.to_mut().push_str("; RELEASE one_set; SELECT changes()");
    Some(statement)
}

/// The condition that a record has a version.
fn check(statement: &mut Statement, key: &Key, version: Version) -> String {
    let table = Table::of(key);
    let named = table.named(statement.values.len() + 1);
    statement.values.extend(key_values(key));
    let rows = format!("EXISTS (SELECT 1 FROM {} WHERE {named}", table.name);
    if version == Version::NEW {
        return format!("NOT {rows})");
    }
    format!("{rows} AND version = {})", statement.bind(Value::version(version)))
}
