//! `impl Store` for both SQL stores.

use std::borrow::Cow;

use async_trait::async_trait;

use super::dialect::Decoded;
use super::error::{failed, unavailable};
use super::lists::{self, List};
use super::statement::Statement;
use super::table::{SqlRecord as _, Table};
use super::value::{Cells, Columns as _, Value};
use super::{Dialect, SqlStore, access};
use crate::events::RecordedEvent;
use crate::store::access_class::is_by_access;
use crate::store::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, SessionQuery, Store, StoreError,
    SubscriptionOrder, UniqueValue,
};
use crate::values::Timestamp;

/// A page with a larger limit than this is decoded in a task of its own. A caller that reads several lists at the same
/// time, such as the computation of the figures (`crate::figures`), then decodes on several threads.
const LONG: usize = 100;
/// The number of events that one statement reads if the query filters by type.
const EVENTS_A_BATCH: usize = 500;

#[async_trait]
impl<D: Dialect> Store for SqlStore<D> {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let table = Table::of(key);
        let rows = self.database.rows_shared(D::encode_select(table, Statement::one(key))).await?;
        Ok(D::decode_rows(&rows, table.read)?.pop())
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        let List { table, statement } = lists::find(value);
        let rows = self.database.rows(statement).await?;
        rows.first().map(|row| (table.read)(row)).transpose().map_err(StoreError::Damaged)
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        if let Query::Subscription(query) = query
            && is_by_access(&query.filter)
        {
            refresh_access_classes(&self.database, query.now).await?;
        }
        let found = decoded(&self.database, query).await?;
        if found.damaged.is_empty() {
            return Ok(query.page(found.records));
        }
        beyond_damaged(&self.database, query, found).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        let mut kept = self.database.kept_events().await?;
        if query.after > *kept.end() {
            // The caller asks for the end of the feed, which must not be an event before those that wait for a number.
            kept = self.database.feed_end().await?;
        }
        let mut following: Vec<RecordedEvent> = Vec::new();
        // A filter by type leaves events out, so batches are read until the page is full.
        let batch = if query.types.is_empty() { query.limit.get() } else { EVENTS_A_BATCH };
        let mut after = query.after;
        let mut admitted = 0;
        // At the end of the feed no events are read: a reader that waits for events repeats only `kept_events`.
        while after < *kept.end() {
            let statement = events_after(query, after, batch);
            let rows =
                self.database.rows(D::encode_select(RecordedEvent::TABLE, statement)).await?;
            let events = D::decode_rows(&rows, |row| RecordedEvent::read(&mut Cells::new(row)))?;
            let found = events.len();
            for event in events {
                after = event.sequence;
                admitted += usize::from(query.admits(&event.event));
                following.push(event);
            }
            let is_enough =
                admitted >= query.limit.get() || following.len() >= EventQuery::SCANNED_MAX;
            if is_enough || found < batch {
                break;
            }
        }
        let following = following.into_iter();
        let following = following.map(|found| (found.sequence, Cow::Owned(found.event)));
        Ok(EventPage::select(query, following, kept))
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        changes.check().map_err(StoreError::BadChangeSet)?;
        self.database.commit(changes).await
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let mut sound = Vec::new();
        let mut outcomes = Vec::new();
        for changes in sets {
            outcomes.push(changes.check().map_err(StoreError::BadChangeSet));
            if let Some(Ok(())) = outcomes.last() {
                sound.push(changes);
            }
        }
        if sound.is_empty() {
            return outcomes;
        }
        let committed = self.database.commit_each(sound).await;
        for (outcome, committed) in outcomes.iter_mut().filter(|it| it.is_ok()).zip(committed) {
            *outcome = committed;
        }
        outcomes
    }
}

/// A page some of whose rows are damaged records. They do not count towards the limit, so further records are read in
/// their place.
async fn beyond_damaged(
    database: &impl Dialect,
    query: &Query,
    mut found: Decoded,
) -> Result<Page<Record>, StoreError> {
    let mut asked = query.clone();
    let wanted = query.doubled().map(|(found_max, _)| found_max);
    // If there are so many damaged records that the limit cannot be doubled any more, the page has what was found.
    while let Some((found_max, doubled)) = asked.doubled()
        && found.records.len() + found.damaged.len() >= found_max
        && wanted.is_some_and(|wanted| found.records.len() < wanted)
    {
        found = decoded(database, &doubled).await?;
        asked = doubled;
    }
    let Decoded { mut records, damaged } = found;
    records.truncate(wanted.unwrap_or(usize::MAX));
    Ok(Page { damaged, ..query.page(records) })
}

/// The rows of a list.
async fn decoded<D: Dialect>(database: &D, query: &Query) -> Result<Decoded, StoreError> {
    let Some(List { table, statement }) = lists::list::<D>(query) else {
        return Ok(Decoded::default());
    };
    let statement = D::encode_select(table, statement);
    if is_of_one(query) {
        let rows = database.rows_shared(statement).await?;
        return D::decode_list(&rows, table);
    }
    let rows = if is_unordered(query) {
        database.slow_rows(statement).await?
    } else {
        database.rows(statement).await?
    };
    if query.limit().is_some_and(|limit| limit.get() > LONG) {
        let decoded = tokio::spawn(async move { D::decode_list(&rows, table) });
        decoded.await.map_err(unavailable)?
    } else {
        D::decode_list(&rows, table)
    }
}

/// Selects the next events. If the query names a record, the index of events by record is used.
fn events_after(query: &EventQuery, after: u64, batch: usize) -> Statement {
    let mut values = vec![Value::count(after), Value::count(batch as u64)];
    let of_subject = query.subject.map_or("", |id| {
        values.push(Value::text(id.to_string()));
        "subject ->> 'id' = $3 AND "
    });
    let rest = format!("WHERE {of_subject}sequence > $1 ORDER BY sequence LIMIT $2");
    Statement::select::<RecordedEvent>(&rest, values)
}

/// True for a list of one user or one subscription.
const fn is_of_one(query: &Query) -> bool {
    match query {
        Query::Subscription(query) => query.filter.user_id.is_some(),
        Query::Payment(query) => query.subscription_id.is_some() || query.user_id.is_some(),
        Query::Session(SessionQuery::LiveOf { .. }) => true,
        Query::Plan(_)
        | Query::User(_)
        | Query::Session(_)
        | Query::Client(_)
        | Query::Idempotency(_)
        | Query::Document(_)
        | Query::DueSubscriptions(_)
        | Query::DuePayments(_) => false,
    }
}

/// True for a list whose order has no index: subscriptions in the order of creation, filtered by their renewal time.
fn is_unordered(query: &Query) -> bool {
    let Query::Subscription(query) = query else { return false };
    let filter = &query.filter;
    query.order == SubscriptionOrder::CreatedAt
        && (filter.renews_before.is_some() || filter.renews_after.is_some())
}

/// Moves subscriptions whose access has begun or ended to their new class.
async fn refresh_access_classes(database: &impl Dialect, now: Timestamp) -> Result<(), StoreError> {
    let rows = database.rows(access::is_behind(now)).await?;
    let is_behind = rows.first().map_or(Ok(false), |row| row.bool(0)).map_err(failed)?;
    if is_behind && let Err(error) = database.refresh_access_classes(now).await {
        // Lists are correct without the move, so a full or read-only database must not make them fail.
        tracing::warn!(%error, "the index of subscriptions by access was not updated; lists are still correct");
    }
    Ok(())
}
