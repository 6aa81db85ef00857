//! The steps of a commit that are the same in both databases, inside a transaction.

use super::dialect::SqlConnection;
use super::error::{conflict, failed, refused};
use super::field::Field as _;
use super::records::EVENTS;
use super::statement::Statement;
use super::table::{Table, key_values, placeholders, values};
use super::value::{Columns as _, Value};
use crate::events::Event;
use crate::store::{ChangeSet, Collection, Guard, Key, Record, StoreError, UniqueValue};
use crate::values::Version;

/// The reason why a change set was not committed.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The store refuses the change set, and the caller gets this error.
    Store(StoreError),
    /// The database failed. Another attempt may succeed.
    Sql(sqlx::Error),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Store(error) => error,
            Refusal::Sql(error) => failed(error),
        }
    }
}

/// The records whose versions a set checks without changing them.
pub(super) fn guarded(changes: &ChangeSet) -> impl Iterator<Item = &Key> {
    changes.guards.iter().filter_map(|guard| match guard {
        Guard::Unchanged { key, .. } => Some(key),
        Guard::NoOtherLiveSubscription(_) | Guard::Expired { .. } | Guard::PlanUnused(_) => None,
    })
}

/// Writes a change set after its versions were checked. If the change set is refused, some of its writes may already be
/// done: the caller must roll them back.
pub(super) async fn write<C: SqlConnection>(
    to: &mut C,
    changes: &ChangeSet,
) -> Result<(), Refusal> {
    check_before_deletes(to, changes).await?;
    delete(to, changes).await?;
    let mut writes: Vec<_> = changes.writes.iter().collect();
    sort_writes(&mut writes, |write| *write);
    for write in writes {
        put(to, write).await?;
    }
    Ok(write_events(to, changes).await?)
}

/// Checks [`Guard::NoOtherLiveSubscription`] and [`Guard::Expired`].
async fn check_before_deletes<C: SqlConnection>(
    to: &mut C,
    changes: &ChangeSet,
) -> Result<(), Refusal> {
    for guard in &changes.guards {
        match guard {
            Guard::NoOtherLiveSubscription(user) => {
                let text =
                    "SELECT id FROM subscriptions WHERE user_id = $1 AND status <> 'expired'";
                let live = to.rows(Statement::new(text, vec![Value::Id(user.uuid())])).await?;
                let named = changes.subscriptions_named();
                for row in &live {
                    if !named.contains(&row.id(0)?.into()) {
                        return Err(conflict(&Key::User(*user)).into());
                    }
                }
            }
            Guard::Expired { key, by } => {
                let text = "SELECT 1 FROM answers WHERE operation = $1 AND client = $2 \
                            AND request_key = $3 AND expires_at <= $4";
                let key = Key::Idempotency(key.clone());
                let mut values = key_values(&key);
                values.push(Value::time(*by));
                if to.rows(Statement::new(text, values)).await?.is_empty() {
                    return Err(conflict(&key).into());
                }
            }
            Guard::Unchanged { .. } | Guard::PlanUnused(_) => {}
        }
    }
    Ok(())
}

/// Deletes records, and then checks [`Guard::PlanUnused`].
async fn delete<C: SqlConnection>(to: &mut C, changes: &ChangeSet) -> Result<(), Refusal> {
    for delete in &changes.deletes {
        let mut values = key_values(&delete.key);
        values.push(Value::version(delete.version));
        let text = Table::of(&delete.key).texts.delete.as_str();
        if to.execute(Statement::new(text, values)).await? == 0 {
            return Err(conflict(&delete.key).into());
        }
    }
    for guard in &changes.guards {
        if let Guard::PlanUnused(plan) = guard {
            // The check is one statement. If a scheduled change to the plan happens at the same time, one of the two
            // parts still finds the subscription; two separate statements could both miss it.
            let text = "SELECT 1 FROM subscriptions WHERE subscription_plan_id = $1 UNION ALL \
                        SELECT 1 FROM subscriptions WHERE scheduled_plan_id = $1 LIMIT 1";
            let users = to.rows(Statement::new(text, vec![Value::Id(plan.uuid())])).await?;
            if !users.is_empty() {
                return Err(StoreError::PlanInUse(*plan).into());
            }
        }
    }
    Ok(())
}

/// True if the record has a unique value of a kind that may move from one record to another in the same change set: a
/// live key, or the period of a payment. Such records are written after the other records of their table, one of which
/// may give up the value.
pub(super) fn takes_over(write: &Record) -> bool {
    let moves = |value| matches!(value, UniqueValue::LiveKey(_) | UniqueValue::PaymentPeriod(..));
    write.unique_values().any(moves)
}

/// Sorts writes into an order that is the same for every commit, so that no two commits wait for each other to release
/// a key or a unique value. Records without unique values come first: if two requests have the same idempotency key,
/// the second request then fails at that key, not at a unique value. Within each table, records that may take over a
/// value come last.
pub(super) fn sort_writes<T>(writes: &mut [T], record: impl Fn(&T) -> &Record) {
    writes.sort_by_cached_key(|write| {
        let write = record(write);
        let key = write.key();
        let table = Table::of(&key).name;
        (has_unique_values(write), table, takes_over(write), unique_value(write), key)
    });
}

fn unique_value(write: &Record) -> Option<String> {
    match write {
        Record::Plan(plan) => Some(plan.slug.to_string()),
        Record::Subscription(subscription) => {
            let live = || subscription.live_key.as_deref().map(str::to_owned);
            subscription.external_subscription_id.as_ref().map(ToString::to_string).or_else(live)
        }
        Record::Payment(payment) => {
            let period = || payment.claimed_period().map(|start| start.to_string());
            payment.external_payment_id.as_ref().map(ToString::to_string).or_else(period)
        }
        Record::User(user) => Some(user.email.key().to_owned()),
        Record::Session(_) | Record::Client(_) | Record::Idempotency(_) | Record::Document(_) => {
            None
        }
    }
}

pub(super) fn has_unique_values(write: &Record) -> bool {
    !Table::of(&write.key()).unique.is_empty()
}

async fn put<C: SqlConnection>(to: &mut C, write: &Record) -> Result<(), Refusal> {
    let key = write.key();
    let mut values = values(write);
    let texts = &Table::of(&key).texts;
    let is_new = write.version() == Version::FIRST;
    let text = if is_new { texts.insert.as_str() } else { texts.update.as_str() };
    if !is_new {
        values.push(Value::version(write.version().previous()));
    }
    match to.execute(Statement::new(text, values)).await {
        Ok(0) => Err(conflict(&key).into()),
        Ok(_) => Ok(()),
        Err(error) => Err(refusal(error, [write])),
    }
}

/// Converts the error of a statement that makes these writes. If the database refused one of the writes, the result is
/// the store's error for that write.
pub(super) fn refusal<'w>(
    error: sqlx::Error,
    writes: impl IntoIterator<Item = &'w Record>,
) -> Refusal {
    let refused = writes.into_iter().find_map(|write| refused(&error, write));
    refused.map_or_else(|| error.into(), Refusal::Store)
}

/// Appends events to the feed, and deletes the events that the set removes from it.
async fn write_events<C: SqlConnection>(
    to: &mut C,
    changes: &ChangeSet,
) -> Result<(), sqlx::Error> {
    for event in &changes.events {
        let values = event_values(event);
        let places = placeholders(1, values.len());
        let text = format!("INSERT INTO events ({}) VALUES ({places})", event_columns());
        to.execute(Statement::new(text, values)).await?;
    }
    if let Some(last) = changes.forget_events {
        delete_events(to, last).await?;
    }
    Ok(())
}

/// The collection of the document with the sequence of the last deleted event.
pub(in crate::store) const FEED: Collection = Collection::named("feed");

/// The sequence of the last deleted event, in SQL; 0 if no event was deleted.
///
/// It is stored in a document. The first stored event does not show it: a numbering that is rolled back leaves a gap,
/// and the numbers of a gap do not belong to deleted events.
macro_rules! deleted_up_to {
    () => {
        "COALESCE((SELECT CAST(body AS BIGINT) FROM documents \
                   WHERE collection = 'feed' AND id = 'deleted'), 0)"
    };
}
pub(super) use deleted_up_to;

/// Deletes the events up to a sequence, and stores the sequence of the last of them.
async fn delete_events<C: SqlConnection>(to: &mut C, up_to: u64) -> Result<(), sqlx::Error> {
    let text = "SELECT COALESCE(max(sequence), 0) FROM events WHERE sequence <= $1";
    let found = to.rows(Statement::new(text, vec![Value::count(up_to)])).await?;
    let last = found.first().map_or(Ok(0), |row| row.int(0))?;
    if last == 0 {
        return Ok(());
    }
    let text = "DELETE FROM events WHERE sequence <= $1";
    to.execute(Statement::new(text, vec![Value::Int(last)])).await?;
    // If two callers delete events at the same time, the higher sequence stays.
    let text = "INSERT INTO documents (collection, id, version, body) \
                VALUES ('feed', 'deleted', 1, $1) \
                ON CONFLICT (collection, id) DO UPDATE \
                SET version = documents.version + 1, body = excluded.body \
                WHERE CAST(documents.body AS BIGINT) < CAST(excluded.body AS BIGINT)";
    to.execute(Statement::new(text, vec![Value::text(last.to_string())])).await.map(drop)
}

/// The columns of an event without its sequence, which a new event does not have yet.
pub(super) fn event_columns() -> String {
    EVENTS.columns().get(1..).unwrap_or_default().join(", ")
}

pub(super) fn event_values(event: &Event) -> Vec<Value> {
    let mut values = Vec::new();
    event.write(&mut values);
    values
}
