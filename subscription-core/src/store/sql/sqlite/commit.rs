//! Commits one change set on the writer's connection, step by step. This is done for a set that cannot be in a message
//! (see `commit_several.rs`), or that its message did not write: then these steps find the reason. There is only one
//! writer, so the records that are read here do not change until the end of the transaction.

use sqlx::sqlite::SqliteConnection;

use super::super::commit::{Refusal, write};
use super::super::dialect::SqlConnection as _;
use super::super::error::conflict;
use super::super::statement::Statement;
use super::super::table::{Table, key_values};
use super::super::value::Columns as _;
use crate::store::ChangeSet;
use crate::values::Version;

/// Checks and writes a change set. A part of a refused change set may have been written.
pub(super) async fn commit(to: &mut SqliteConnection, changes: &ChangeSet) -> Result<(), Refusal> {
    if changes.is_empty() {
        // This write changes no record, but reaches the disk like any other write. No release reads the number.
        to.execute(Statement::plain("PRAGMA user_version = 0")).await?;
        return Ok(());
    }
    for (key, version) in changes.expected() {
        let text = Table::of(&key).texts.select_version.as_str();
        let found = match to.rows(Statement::new(text, key_values(&key))).await?.first() {
            Some(row) => Version::from(row.int(0)?.unsigned_abs()),
            None => Version::NEW,
        };
        if found != version {
            return Err(conflict(&key).into());
        }
    }
    write(to, changes).await
}
