//! A change set step by step, for those that cannot be one statement: all is locked first, in the order
//! of the keys, then checked, then written.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection};

use super::super::error::{conflict, refused};
use super::super::history::{EVENT_COLUMNS, event_values};
use super::super::table::{
    EXPIRED_ANSWER, LIVE_SUBSCRIPTIONS, Table, expiry_values, key_values, placeholders, values,
};
use super::super::value::{Columns as _, Value};
use super::Refusal;
use super::announce::{CHANNEL, announcements};
use super::row::bound;
use super::whole::in_order;
use crate::store::{ChangeSet, Delete, Guard, Key, Record, StoreError};
use crate::values::id::PlanId;
use crate::values::version::Version;

/// Checks and writes a change set inside a transaction.
pub(super) async fn apply(to: &mut PgConnection, changes: &ChangeSet) -> Result<(), Refusal> {
    if changes.is_empty() {
        // Writes nothing, and is refused by a database that can only be read.
        execute(to, "DELETE FROM events WHERE FALSE", Vec::new()).await?;
        return Ok(());
    }
    let stored = lock(to, changes).await?;
    for (key, version) in expected(changes) {
        if stored.get(&key).copied().unwrap_or(Version::NEW) != version {
            return Err(conflict(&key).into());
        }
    }
    expect_no_other_live(to, changes).await?;
    expect_expired(to, changes).await?;
    for delete in &changes.deletes {
        remove(to, delete).await?;
    }
    for guard in &changes.guards {
        if let Guard::PlanUnused(plan) = guard {
            expect_unused(to, *plan).await?;
        }
    }
    for write in in_order(&changes.writes) {
        put(to, write).await?;
    }
    for event in &changes.events {
        let text = format!("INSERT INTO events ({EVENT_COLUMNS}) VALUES ({})", placeholders(1, 5));
        execute(to, text, event_values(event).into()).await?;
    }
    if let Some(last) = changes.forget_events {
        execute(to, "DELETE FROM events WHERE sequence <= $1", vec![Value::count(last)]).await?;
    }
    for announcement in announcements(changes) {
        let values = vec![Value::text(CHANNEL), Value::text(announcement)];
        execute(to, "SELECT pg_notify($1, $2)", values).await?;
    }
    Ok(())
}

/// Which version each record must have.
fn expected(changes: &ChangeSet) -> impl Iterator<Item = (Key, Version)> {
    let guarded = changes.guards.iter().filter_map(|guard| match guard {
        Guard::Unchanged { key, version } => Some((key.clone(), *version)),
        Guard::PlanUnused(_) | Guard::NoOtherLiveSubscription(_) | Guard::Expired { .. } => None,
    });
    let written = changes.writes.iter().map(|write| (write.key(), write.version().previous()));
    let deleted = changes.deletes.iter().map(|delete| (delete.key.clone(), delete.version));
    guarded.chain(written).chain(deleted)
}

/// Locks all that the change set names, and tells at which version it is.
async fn lock(
    to: &mut PgConnection,
    changes: &ChangeSet,
) -> Result<BTreeMap<Key, Version>, Refusal> {
    // What is not there cannot be locked, so its table is kept as it is. The service never asks.
    let mut absent = BTreeSet::new();
    for guard in &changes.guards {
        if let Guard::Unchanged { key, version: Version::NEW } = guard {
            absent.insert(Table::of(key).name);
        }
    }
    for table in absent {
        execute(to, format!("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"), Vec::new()).await?;
    }
    let in_use = changes.guards.iter().filter_map(|guard| match guard {
        Guard::PlanUnused(plan) => Some(Key::Plan(*plan)),
        Guard::NoOtherLiveSubscription(user) => Some(Key::User(*user)),
        Guard::Expired { key, .. } => Some(Key::Idempotency(key.clone())),
        Guard::Unchanged { .. } => None,
    });
    let keys: BTreeSet<_> = expected(changes).map(|(key, _)| key).chain(in_use).collect();
    let mut stored = BTreeMap::new();
    for key in keys {
        let text = format!("{} FOR UPDATE", Table::of(&key).texts.select_version);
        if let Some(row) = fetch(to, text, key_values(&key)).await?.first() {
            stored.insert(key, Version::from(row.int(0)?.unsigned_abs()));
        }
    }
    Ok(stored)
}

async fn expect_no_other_live(to: &mut PgConnection, changes: &ChangeSet) -> Result<(), Refusal> {
    for guard in &changes.guards {
        let Guard::NoOtherLiveSubscription(user) = guard else { continue };
        let named = changes.subscriptions_named();
        for row in fetch(to, LIVE_SUBSCRIPTIONS, vec![Value::Id(user.uuid())]).await? {
            if !named.contains(&row.id(0)?.into()) {
                return Err(conflict(&Key::User(*user)).into());
            }
        }
    }
    Ok(())
}

async fn expect_expired(to: &mut PgConnection, changes: &ChangeSet) -> Result<(), Refusal> {
    for (key, values) in changes.guards.iter().filter_map(expiry_values) {
        if fetch(to, EXPIRED_ANSWER, values).await?.is_empty() {
            return Err(conflict(&key).into());
        }
    }
    Ok(())
}

async fn expect_unused(to: &mut PgConnection, plan: PlanId) -> Result<(), Refusal> {
    let text = "SELECT 1 FROM subscriptions WHERE subscription_plan_id = $1 LIMIT 1";
    let users = fetch(to, text, vec![Value::Id(plan.uuid())]).await?;
    if users.is_empty() { Ok(()) } else { Err(StoreError::PlanInUse(plan).into()) }
}

async fn remove(to: &mut PgConnection, delete: &Delete) -> Result<(), Refusal> {
    let mut values = key_values(&delete.key);
    values.push(Value::version(delete.version));
    match execute(to, Table::of(&delete.key).texts.delete.as_str(), values).await? {
        0 => Err(conflict(&delete.key).into()),
        _ => Ok(()),
    }
}

async fn put(to: &mut PgConnection, write: &Record) -> Result<(), Refusal> {
    let (key, mut values) = (write.key(), values(write));
    let texts = &Table::of(&key).texts;
    let is_new = write.version() == Version::FIRST;
    let text = if is_new { texts.insert.as_str() } else { texts.update.as_str() };
    if !is_new {
        values.push(Value::version(write.version().previous()));
    }
    match execute(to, text, values).await {
        Ok(0) => Err(conflict(&key).into()),
        Ok(_) => Ok(()),
        Err(error) if Refusal::is_transient(&error) => Err(error.into()),
        Err(error) => Err(refused(error, write).into()),
    }
}

async fn fetch(
    from: &mut PgConnection,
    text: impl Into<std::borrow::Cow<'static, str>>,
    values: Vec<Value>,
) -> Result<Vec<PgRow>, sqlx::Error> {
    bound(sqlx::query(AssertSqlSafe(text.into())), values).fetch_all(from).await
}

/// How many rows it changed.
pub(super) async fn execute(
    to: &mut PgConnection,
    text: impl Into<std::borrow::Cow<'static, str>>,
    values: Vec<Value>,
) -> Result<u64, sqlx::Error> {
    let done = bound(sqlx::query(AssertSqlSafe(text.into())), values).execute(to).await?;
    Ok(done.rows_affected())
}
