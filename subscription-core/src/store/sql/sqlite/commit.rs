//! Commits a change set on the writer's connection, step by step: one that `commit_several.rs` cannot write, or whose
//! reason to be refused is looked for. There is one writer, so the records that are read here stay as they are until
//! the end of the transaction.

use sqlx::sqlite::SqliteConnection;

use super::super::commit::{Refusal, check_before_deletes, delete, takes_over, write_events};
use super::super::dialect::SqlConnection as _;
use super::super::error::{conflict, refused};
use super::super::statement::Statement;
use super::super::table::{Table, key_values, values};
use super::super::value::{Columns as _, Value};
use crate::store::{ChangeSet, Guard, Key, Record};
use crate::values::Version;

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
    for write in &changes.writes {
        expect_version(to, &write.key(), write.version().previous()).await?;
    }
    for delete in &changes.deletes {
        expect_version(to, &delete.key, delete.version).await?;
    }
    delete(to, changes).await?;
    let mut writes: Vec<_> = changes.writes.iter().collect();
    writes.sort_by_key(|write| takes_over(write));
    for write in writes {
        put(to, write).await?;
    }
    Ok(write_events(to, changes).await?)
}

async fn expect_version(
    to: &mut SqliteConnection,
    key: &Key,
    version: Version,
) -> Result<(), Refusal> {
    let text = Table::of(key).texts.select_version.as_str();
    let found = match to.rows(Statement::new(text, key_values(key))).await?.first() {
        Some(row) => Version::from(row.int(0)?.unsigned_abs()),
        None => Version::NEW,
    };
    if found == version { Ok(()) } else { Err(conflict(key).into()) }
}

async fn put(to: &mut SqliteConnection, write: &Record) -> Result<(), Refusal> {
    let key = write.key();
    let mut values = values(write);
    let texts = &Table::of(&key).texts;
    let is_new = write.version() == Version::FIRST;
    let text = if is_new { texts.insert.as_str() } else { &texts.update };
    if !is_new {
        values.push(Value::version(write.version().previous()));
    }
    match to.execute(Statement::new(text, values)).await {
        Ok(0) => Err(conflict(&key).into()),
        Ok(_) => Ok(()),
        Err(error) => Err(refused(error, write).into()),
    }
}
