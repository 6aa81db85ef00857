//! A change set as statements. There is one writer, so what is read here stays so until the end of the
//! transaction.

use std::borrow::Cow;
use std::fmt::Write as _;

use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::super::error::{conflict, failed, is_duplicate, refused};
use super::super::history::{EVENT_COLUMNS, event_values};
use super::super::table::{
    EXPIRED_ANSWER, LIVE_SUBSCRIPTIONS, Table, expiry_values, key_values, placeholders, values,
};
use super::super::value::{Columns as _, Value};
use super::row::bound;
use crate::events::Event;
use crate::store::{ChangeSet, Delete, Guard, Key, Record, StoreError};
use crate::values::id::PlanId;
use crate::values::version::Version;

/// Checks and writes a change set. A refused one may have been written in part.
pub(super) async fn apply(
    to: &mut SqliteConnection,
    changes: &ChangeSet,
) -> Result<(), StoreError> {
    if changes.is_empty() {
        // Nobody reads this number, but it is written to the disk as records are.
        execute(to, "PRAGMA user_version = 0", Vec::new()).await.map_err(failed)?;
        return Ok(());
    }
    for guard in &changes.guards {
        if let Guard::Unchanged { key, version } = guard {
            expect_version(to, key, *version).await?;
        }
    }
    expect_no_other_live(to, changes).await?;
    expect_expired(to, changes).await?;
    if let ([write], [event], [], None) =
        (&*changes.writes, &*changes.events, &*changes.deletes, changes.forget_events)
    {
        expect_all_unused(to, changes).await?;
        return put(to, write, Some(event)).await;
    }
    // Versions come before values: with one record its own statement sees to that.
    if changes.writes.len() + changes.deletes.len() > 1 {
        for write in &changes.writes {
            expect_version(to, &write.key(), write.version().previous()).await?;
        }
        for delete in &changes.deletes {
            expect_version(to, &delete.key, delete.version).await?;
        }
    }
    for delete in &changes.deletes {
        remove(to, delete).await?;
    }
    expect_all_unused(to, changes).await?;
    for write in &changes.writes {
        put(to, write, None).await?;
    }
    for event in &changes.events {
        let text = format!("INSERT INTO events ({EVENT_COLUMNS}) VALUES ({})", placeholders(1, 5));
        execute(to, text, event_values(event).into()).await.map_err(failed)?;
    }
    if let Some(last) = changes.forget_events {
        let text = "DELETE FROM events WHERE sequence <= $1".to_owned();
        execute(to, text, vec![Value::count(last)]).await.map_err(failed)?;
    }
    Ok(())
}

async fn expect_version(
    to: &mut SqliteConnection,
    key: &Key,
    version: Version,
) -> Result<(), StoreError> {
    let found = version_of(to, key).await?;
    if found == version { Ok(()) } else { Err(conflict(key)) }
}

async fn version_of(to: &mut SqliteConnection, key: &Key) -> Result<Version, StoreError> {
    let text = Table::of(key).texts.select_version.as_str();
    let rows = fetch(to, text, key_values(key)).await.map_err(failed)?;
    let Some(row) = rows.first() else { return Ok(Version::NEW) };
    row.int(0).map(|version| Version::from(version.unsigned_abs())).map_err(failed)
}

async fn expect_all_unused(
    to: &mut SqliteConnection,
    changes: &ChangeSet,
) -> Result<(), StoreError> {
    for guard in &changes.guards {
        if let Guard::PlanUnused(plan) = guard {
            expect_unused(to, *plan).await?;
        }
    }
    Ok(())
}

async fn expect_no_other_live(
    to: &mut SqliteConnection,
    changes: &ChangeSet,
) -> Result<(), StoreError> {
    for guard in &changes.guards {
        let Guard::NoOtherLiveSubscription(user) = guard else { continue };
        let live = fetch(to, LIVE_SUBSCRIPTIONS, vec![Value::Id(user.uuid())]).await;
        let live = live.map_err(failed)?;
        let named = changes.subscriptions_named();
        for row in &live {
            if !named.contains(&row.id(0).map_err(failed)?.into()) {
                return Err(conflict(&Key::User(*user)));
            }
        }
    }
    Ok(())
}

async fn expect_expired(to: &mut SqliteConnection, changes: &ChangeSet) -> Result<(), StoreError> {
    for (key, values) in changes.guards.iter().filter_map(expiry_values) {
        if fetch(to, EXPIRED_ANSWER, values).await.map_err(failed)?.is_empty() {
            return Err(conflict(&key));
        }
    }
    Ok(())
}

async fn expect_unused(to: &mut SqliteConnection, plan: PlanId) -> Result<(), StoreError> {
    let text = "SELECT 1 FROM subscriptions WHERE subscription_plan_id = $1 LIMIT 1";
    let users = fetch(to, text, vec![Value::Id(plan.uuid())]).await.map_err(failed)?;
    if users.is_empty() { Ok(()) } else { Err(StoreError::PlanInUse(plan)) }
}

async fn remove(to: &mut SqliteConnection, delete: &Delete) -> Result<(), StoreError> {
    let mut values = key_values(&delete.key);
    values.push(Value::version(delete.version));
    let text = Table::of(&delete.key).texts.delete.as_str();
    match execute(to, text, values).await.map_err(failed)? {
        0 => Err(conflict(&delete.key)),
        _ => Ok(()),
    }
}

/// Writes a record, and in the same breath the event that tells of it: each statement is a trip to the
/// thread that SQLite works on.
async fn put(
    to: &mut SqliteConnection,
    write: &Record,
    event: Option<&Event>,
) -> Result<(), StoreError> {
    let (key, mut values) = (write.key(), values(write));
    let texts = &Table::of(&key).texts;
    let is_new = write.version() == Version::FIRST;
    let mut text = Cow::Borrowed(if is_new { texts.insert.as_str() } else { &texts.update });
    if !is_new {
        values.push(Value::version(write.version().previous()));
    }
    if let Some(event) = event {
        let places = placeholders(values.len() + 1, 5);
        // Only if there was something to write.
        let text = text.to_mut();
        write!(text, "; INSERT INTO events ({EVENT_COLUMNS}) SELECT {places} WHERE changes() > 0")
            .ok();
        values.extend(event_values(event));
    }
    match execute(to, text, values).await {
        Ok(0) => Err(conflict(&key)),
        Ok(_) => Ok(()),
        // SQLite looks at the newest index first, which is not that of the key.
        Err(error) if is_new && is_duplicate(&error) => match version_of(to, &key).await? {
            Version::NEW => Err(refused(error, write)),
            _ => Err(conflict(&key)),
        },
        Err(error) => Err(refused(error, write)),
    }
}

async fn fetch(
    from: &mut SqliteConnection,
    text: &'static str,
    values: Vec<Value>,
) -> Result<Vec<SqliteRow>, sqlx::Error> {
    bound(sqlx::query(text), values).fetch_all(from).await
}

/// How many rows it changed.
pub(super) async fn execute(
    to: &mut SqliteConnection,
    text: impl Into<Cow<'static, str>>,
    values: Vec<Value>,
) -> Result<u64, sqlx::Error> {
    let done = bound(sqlx::query(AssertSqlSafe(text.into())), values).execute(to).await?;
    Ok(done.rows_affected())
}
