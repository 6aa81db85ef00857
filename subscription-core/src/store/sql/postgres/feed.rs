//! Numbers the events of the feed.
//!
//! Concurrent commits end in any order. So numbers that are assigned at the start of commits do not show in which order
//! the commits end. For this reason events are written without a number (`sequence`). A reader of the feed numbers the
//! events that are committed by then, and only one reader does so at a time. An event that is committed afterwards gets
//! a later number.

use std::ops::RangeInclusive;
use std::sync::Arc;

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use super::super::commit::deleted_up_to;
use super::super::dialect::SqlConnection as _;
use super::super::pool::Pool;
use super::super::statement::Statement;
use super::super::value::{Columns as _, Value};
use super::commits::Commits;
use super::groups::{Groups, Handler};

/// The number of events that are numbered at a time: more than a page has.
const NUMBERED_MAX: &str = "1000";

/// Selects the position of the newest event without a number; 0 if there is none.
pub(super) const NEWEST_WITHOUT_NUMBER: &str =
    "SELECT COALESCE(max(position), 0) FROM events WHERE sequence IS NULL";

/// Selects whether an event up to a position has no number.
pub(super) fn is_any_without_number(last: i64) -> Statement {
    let text = "SELECT EXISTS (SELECT 1 FROM events WHERE sequence IS NULL AND position <= $1)";
    Statement::new(text, vec![Value::Int(last)])
}

/// Numbers events, and reads the bounds of the feed, for all readers of this process that wait at the same time. Only one
/// connection of the process waits for the lock of the numbering. If every reader waited with its own, a process that
/// freezes with the lock would take the connections of all others away from their requests.
#[derive(Debug)]
pub(super) struct FeedBounds {
    pub(super) pool: Arc<Pool<PgConnection>>,
    pub(super) commits: Arc<Groups<Commits>>,
}

impl FeedBounds {
    /// Events get their numbers by a commit, so this commit is confirmed like any other.
    async fn read(&self) -> Result<RangeInclusive<u64>, sqlx::Error> {
        let (kept, took) = self.pool.lend_timed(1, number_and_bound).await?;
        self.commits.handler.confirmed(took).await?;
        Ok(kept)
    }
}

impl Handler for FeedBounds {
    type Request = ();
    /// The result of [`number_and_bound`], called after the request.
    type Answer = Result<RangeInclusive<u64>, Arc<sqlx::Error>>;

    const GROUPS_MAX: usize = 1;

    async fn handle(&self, callers: Vec<()>) -> Vec<Self::Answer> {
        vec![self.read().await.map_err(Arc::new); callers.len()]
    }
}

/// Numbers a batch of events if any events have no number. Returns the sequences after the last deleted event and of the
/// newest event; all events between them can be seen.
async fn number_and_bound(
    connection: &mut PgConnection,
) -> Result<RangeInclusive<u64>, sqlx::Error> {
    let mut bounds = Bounds::read(connection).await?;
    if bounds.is_waiting {
        number_batch(connection).await?;
        bounds = Bounds::read(connection).await?;
    }
    while bounds.last == 0 {
        // There are no numbered events. So the last number belongs to a deleted event or to a numbering that was rolled
        // back, unless another reader is numbering events at this moment. The events that the other reader numbers are
        // committed already, so the next read of the bounds finds them, with or without their numbers.
        let text = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM feed";
        let rows = connection.rows(Statement::plain(text)).await?;
        let last = rows.first().map_or(Ok(0), |row| row.int(0))?.unsigned_abs();
        bounds = Bounds::read(connection).await?;
        if bounds.is_waiting {
            number_batch(connection).await?;
            bounds = Bounds::read(connection).await?;
        } else if bounds.last == 0 {
            return Ok(bounds.deleted + 1..=last);
        }
    }
    Ok(bounds.deleted + 1..=bounds.last)
}

/// The sequences of the last deleted event (0 if none was deleted) and of the newest numbered event (0 if there is none).
/// `is_waiting`: an event has no number.
struct Bounds {
    is_waiting: bool,
    deleted: u64,
    last: u64,
}

impl Bounds {
    async fn read(connection: &mut PgConnection) -> Result<Self, sqlx::Error> {
        let text = concat!(
            "SELECT EXISTS (SELECT 1 FROM events WHERE sequence IS NULL), ",
            deleted_up_to!(),
            ", COALESCE((SELECT max(sequence) FROM events), 0)"
        );
        let rows = connection.rows(Statement::plain(text)).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let deleted = row.int(1)?.unsigned_abs();
        let last = row.int(2)?.unsigned_abs();
        Ok(Self { is_waiting: row.bool(0)?, deleted, last })
    }
}

/// Numbers every event whose column `position` is `last` or less.
pub(super) async fn number_up_to(
    connection: &mut PgConnection,
    last: i64,
) -> Result<(), sqlx::Error> {
    while is_waiting(connection, last).await? {
        number_batch(connection).await?;
    }
    Ok(())
}

async fn is_waiting(connection: &mut PgConnection, last: i64) -> Result<bool, sqlx::Error> {
    let rows = connection.rows(is_any_without_number(last)).await?;
    rows.first().map_or(Ok(false), |row| row.bool(0))
}

async fn number_batch(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    // The lock is a statement of its own: the next statement must see events that were committed while this one waited.
    let lock = "SELECT pg_advisory_xact_lock(hashtext('subscription feed ' || current_schema()))";
    transaction.execute(Statement::plain(lock)).await?;
    // Materialized: a join that ran the inner statement again would take new numbers, out of order.
    let text = format!(
        "WITH numbered AS MATERIALIZED (\
             SELECT position, nextval('feed') AS sequence FROM (\
                 SELECT position FROM events WHERE sequence IS NULL ORDER BY position LIMIT {NUMBERED_MAX}\
             ) AS waiting\
         ) UPDATE events SET sequence = numbered.sequence FROM numbered \
         WHERE events.sequence IS NULL AND events.position = numbered.position"
    );
    transaction.execute(Statement::plain(text)).await?;
    transaction.commit().await
}
