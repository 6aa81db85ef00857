//! Commits a change set that cannot be one statement: as a transaction of several statements. All records are first
//! locked in the order of their keys, then checked, then written.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::PgConnection;

use super::super::commit::{Refusal, write};
use super::super::dialect::SqlConnection as _;
use super::super::error::conflict;
use super::super::statement::Statement;
use super::super::table::{Table, key_values};
use super::super::value::{Columns as _, Value};
use super::commit_statement::Locked;
use super::notify::{CHANNEL, notifications};
use crate::store::{ChangeSet, Guard, Key, Record};
use crate::values::Version;

/// With synchronous replication, writes a short message to the write-ahead log. Nobody reads this message, but without
/// it a commit that writes nothing would not wait for a stand-by.
const WAIT_FOR_STANDBY: &str = "SELECT CASE WHEN current_setting('synchronous_standby_names') = '' THEN NULL \
     ELSE pg_logical_emit_message(true, 'subscription', '') END";

/// Writes some hundred kilobytes to a temporary file of the database, because the rows have no room in this memory: a full
/// disk refuses that. The log alone does not show that a disk is full, because its files are made in advance.
const NEED_ROOM: [&str; 2] = [
    "SELECT set_config('work_mem', '64kB', true)",
    "SELECT count(*) FROM generate_series(1, 10000)",
];

/// Checks and writes a change set inside a transaction.
pub(super) async fn commit(
    to: &mut PgConnection,
    changes: &ChangeSet,
    locked: Locked,
) -> Result<(), Refusal> {
    if changes.is_empty() {
        // This statement writes nothing, but a database that can only be read refuses it.
        to.execute(Statement::plain("DELETE FROM events WHERE FALSE")).await?;
        for text in NEED_ROOM {
            to.execute(Statement::plain(text)).await?;
        }
        to.execute(Statement::plain(WAIT_FOR_STANDBY)).await?;
        return Ok(());
    }
    let stored = lock(to, changes, locked).await?;
    for (key, version) in changes.expected() {
        if stored.get(&key).copied().unwrap_or(Version::NEW) != version {
            return Err(conflict(&key).into());
        }
    }
    write(to, changes).await?;
    for notification in notifications(changes) {
        let values = vec![Value::text(CHANNEL), Value::text(notification)];
        to.execute(Statement::new("SELECT pg_notify($1, $2)", values)).await?;
    }
    Ok(())
}

/// Locks every record that the change set names, in the order of their keys, and returns their versions. With
/// [`Locked::Refuse`], a record that is locked is an error at once.
async fn lock(
    to: &mut PgConnection,
    changes: &ChangeSet,
    locked: Locked,
) -> Result<BTreeMap<Key, Version>, sqlx::Error> {
    // A record that does not exist cannot be locked, so its whole table is locked. The service never sends such a
    // guard.
    let mut absent = BTreeSet::new();
    for guard in &changes.guards {
        if let Guard::Unchanged { key, version: Version::NEW } = guard {
            absent.insert(Table::of(key).name);
        }
    }
    for table in absent {
        let text = format!("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE");
        to.execute(Statement::plain(text)).await?;
    }
    let in_use = changes.guards.iter().filter_map(|guard| match guard {
        Guard::PlanUnused(plan) => Some(Key::Plan(*plan)),
        Guard::NoOtherLiveSubscription(user) => Some(Key::User(*user)),
        Guard::Expired { key, .. } => Some(Key::Idempotency(key.clone())),
        Guard::Unchanged { .. } => None,
    });
    // Records that are only guarded get a shared lock, so that other commits that guard them do not wait.
    let written = changes.writes.iter().map(Record::key);
    let written = written.chain(changes.deletes.iter().map(|delete| delete.key.clone()));
    let written: BTreeSet<_> = written.chain(in_use).collect();
    let mut keys: BTreeSet<_> = changes.expected().map(|(key, _)| key).collect();
    keys.extend(written.iter().cloned());
    let mut stored = BTreeMap::new();
    for key in keys {
        let lock = if written.contains(&key) { "UPDATE" } else { "SHARE" };
        let wait = if locked == Locked::Wait { "" } else { " NOWAIT" };
        let text = format!("{} FOR {lock}{wait}", Table::of(&key).texts.select_version);
        if let Some(row) = to.rows(Statement::new(text, key_values(&key))).await?.first() {
            stored.insert(key, Version::from(row.int(0)?.unsigned_abs()));
        }
    }
    Ok(stored)
}
