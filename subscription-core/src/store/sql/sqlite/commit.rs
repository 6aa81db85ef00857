//! Commits a change set on the writer's connection. There is one writer, so the records that are read here
//! stay as they are until the end of the transaction.

use std::borrow::Cow;
use std::fmt::Write as _;

use sqlx::sqlite::SqliteConnection;

use super::super::commit::{
    Refusal, check_before_deletes, delete, event_columns, event_values, takes_over, write_events,
};
use super::super::dialect::SqlConnection as _;
use super::super::error::{conflict, is_duplicate, refused};
use super::super::page::Statement;
use super::super::table::{Table, key_values, placeholders, values};
use super::super::value::{Columns as _, Value};
use crate::events::Event;
use crate::store::{ChangeSet, Guard, Key, Record};
use crate::values::version::Version;

/// Checks and writes a change set. A part of a refused change set may have been written.
pub(super) async fn commit(to: &mut SqliteConnection, changes: &ChangeSet) -> Result<(), Refusal> {
    if changes.is_empty() {
        // A write that changes no record, but reaches the disk like one. No release reads this number.
        to.execute(Statement::new("PRAGMA user_version = 0", Vec::new())).await?;
        return Ok(());
    }
    for guard in &changes.guards {
        if let Guard::Unchanged { key, version } = guard {
            expect_version(to, key, *version).await?;
        }
    }
    check_before_deletes(to, changes).await?;
    // The statement of a single record checks its version itself.
    if changes.writes.len() + changes.deletes.len() > 1 {
        for write in &changes.writes {
            expect_version(to, &write.key(), write.version().previous()).await?;
        }
        for delete in &changes.deletes {
            expect_version(to, &delete.key, delete.version).await?;
        }
    }
    delete(to, changes).await?;
    if let ([write], [event], None) = (&*changes.writes, &*changes.events, changes.forget_events) {
        return put(to, write, Some(event)).await;
    }
    let mut writes: Vec<_> = changes.writes.iter().collect();
    writes.sort_by_key(|write| takes_over(write));
    for write in writes {
        put(to, write, None).await?;
    }
    Ok(write_events(to, changes).await?)
}

async fn expect_version(
    to: &mut SqliteConnection,
    key: &Key,
    version: Version,
) -> Result<(), Refusal> {
    let found = version_of(to, key).await?;
    if found == version { Ok(()) } else { Err(conflict(key).into()) }
}

async fn version_of(to: &mut SqliteConnection, key: &Key) -> Result<Version, sqlx::Error> {
    let text = Table::of(key).texts.select_version.as_str();
    match to.rows(Statement::new(text, key_values(key))).await?.first() {
        Some(row) => row.int(0).map(|version| Version::from(version.unsigned_abs())),
        None => Ok(Version::NEW),
    }
}

/// Writes a record and its only event by one statement: each statement is a round trip to SQLite's thread.
async fn put(
    to: &mut SqliteConnection,
    write: &Record,
    event: Option<&Event>,
) -> Result<(), Refusal> {
    let (key, mut values) = (write.key(), values(write));
    let texts = &Table::of(&key).texts;
    let is_new = write.version() == Version::FIRST;
    let mut text = Cow::Borrowed(if is_new { texts.insert.as_str() } else { &texts.update });
    if !is_new {
        values.push(Value::version(write.version().previous()));
    }
    if let Some(event) = event {
        let (columns, event) = (event_columns(), event_values(event));
        let places = placeholders(values.len() + 1, event.len());
        // Only if the record was written.
        let condition = "WHERE changes() > 0";
        write!(text.to_mut(), "; INSERT INTO events ({columns}) SELECT {places} {condition}").ok();
        values.extend(event);
    }
    match to.execute(Statement::new(text, values)).await {
        Ok(0) => Err(conflict(&key).into()),
        Ok(_) => Ok(()),
        // SQLite checks the newest index first, and that of the key is the oldest.
        Err(error) if is_new && is_duplicate(&error) => match version_of(to, &key).await? {
            Version::NEW => Err(refused(error, write).into()),
            _ => Err(conflict(&key).into()),
        },
        Err(error) => Err(refused(error, write).into()),
    }
}
