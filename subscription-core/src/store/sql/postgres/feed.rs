//! The feed of events.
//!
//! Commits that run side by side end in any order, and a number taken at the start of one says nothing
//! about its end. So events are written without a place. Whoever reads the feed first gives a place to
//! what is committed by then, one reader at a time: what is not seen yet gets a later one.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection as _, Row as _};

use super::super::event_rows::EVENT_COLUMNS;
use super::super::value::Value;
use super::commit_transaction::execute;
use super::row::bound;
use crate::store::PageLimit;

/// Events that get a place at a time; more than a page has.
const PLACES: &str = "1000";

pub(super) async fn read(
    from: &mut PgConnection,
    after: u64,
    limit: PageLimit,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let waiting = "SELECT EXISTS (SELECT 1 FROM events WHERE sequence IS NULL)";
    if sqlx::query(waiting).fetch_one(&mut *from).await?.try_get(0)? {
        give_places(from).await?;
    }
    let text = format!(
        "SELECT sequence, {EVENT_COLUMNS} FROM events WHERE sequence > $1 ORDER BY sequence LIMIT $2"
    );
    let values = vec![Value::count(after), Value::count(limit.get() as u64)];
    bound(sqlx::query(sqlx::AssertSqlSafe(text)), values).fetch_all(from).await
}

/// Gives a place to every event up to this position.
pub(super) async fn place_up_to(to: &mut PgConnection, last: i64) -> Result<(), sqlx::Error> {
    let waiting = "SELECT EXISTS (SELECT 1 FROM events WHERE sequence IS NULL AND position <= $1)";
    while sqlx::query(waiting).bind(last).fetch_one(&mut *to).await?.try_get(0)? {
        give_places(to).await?;
    }
    Ok(())
}

async fn give_places(to: &mut PgConnection) -> Result<(), sqlx::Error> {
    let mut transaction = to.begin().await?;
    // A statement of its own: the next one must see what was committed while this one waited.
    let lock = "SELECT pg_advisory_xact_lock(hashtext('subscription feed ' || current_schema()))";
    execute(&mut transaction, lock, Vec::new()).await?;
    let text = format!(
        "UPDATE events SET sequence = placed.sequence FROM (\
             SELECT position, nextval('feed') AS sequence FROM (\
                 SELECT position FROM events WHERE sequence IS NULL ORDER BY position LIMIT {PLACES}\
             ) AS waiting\
         ) AS placed WHERE events.position = placed.position"
    );
    execute(&mut transaction, text, Vec::new()).await?;
    transaction.commit().await
}
