//! A store in a PostgreSQL database, for one process or many.

mod amount;
mod clock_skew;
mod commit_groups;
mod commit_statement;
mod commit_transaction;
mod commits;
mod feed;
mod groups;
mod leader_lock;
mod listen;
mod notify;
mod open;
mod row;
mod shared_reads;
mod transfer;

use std::ops::RangeInclusive;
use std::sync::Arc;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use tokio::sync::Notify;

use self::groups::Groups;
use super::dialect::{Branch, Dialect};
use super::error::{failed, outages, unavailable};
use super::pool::Pool;
use super::statement::Statement;
use super::value::Columns as _;
use super::{SqlStore, access};
use clock_skew::ClockSkew;
use commit_groups::{can_join, groups};
use commits::Commits;
use feed::FeedBounds;
pub use leader_lock::LeaderLock;
use open::Readiness;
pub use open::{PostgresOptions, Protection};
use shared_reads::SharedReads;

use crate::store::{CacheInvalidator, ChangeSet, StoreError};
use crate::values::Timestamp;

/// The error of a call whose group was dropped.
const CLOSED: &str = "the database was closed";

/// A store in a PostgreSQL database, which any number of processes may share.
///
/// Most commits are one statement and one round trip. A commit that returned `Ok` is as durable as the
/// database is set to be. If the database restarts, only the calls that are running fail.
pub type PostgresStore = SqlStore<Postgres>;

/// The PostgreSQL database of a [`PostgresStore`].
#[derive(Debug)]
pub struct Postgres {
    pool: Arc<Pool<PgConnection>>,
    reads: SharedReads,
    commits: Arc<Groups<Commits>>,
    feed: Arc<Groups<FeedBounds>>,
    options: PgConnectOptions,
    readiness: Readiness,
    skew: Arc<ClockSkew>,
    /// Stops the background tasks.
    stop: Arc<Notify>,
}

impl PostgresStore {
    /// Waits for running calls, and closes the connections.
    pub async fn close(&self) {
        self.database.stop.notify_waiters();
        self.database.pool.close().await;
    }

    /// Invalidates records in a cache when other processes change them.
    pub fn listen(&self, cache: &CacheInvalidator) {
        listen::listen(
            self.database.options.clone(),
            cache.clone(),
            Arc::clone(&self.database.stop),
        );
    }
}

impl Postgres {
    fn takes_writes(&self) -> Result<(), StoreError> {
        self.readiness.check()?;
        self.skew.check()
    }
}

impl Dialect for Postgres {
    type Row = PgRow;

    async fn rows(&self, statement: Statement) -> Result<Vec<PgRow>, StoreError> {
        self.readiness.check()?;
        self.pool.rows(statement).await
    }

    async fn rows_shared(&self, statement: Statement) -> Result<Vec<PgRow>, StoreError> {
        self.readiness.check()?;
        self.reads.rows(statement).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.takes_writes()?;
        if !can_join(&changes) {
            return self.commits.handler.commit_alone(changes).await;
        }
        match self.commits.answer(changes).await {
            Some(Ok(outcome)) => outcome,
            Some(Err(changes)) => self.commits.handler.commit_alone(changes).await,
            None => Err(unavailable(CLOSED)),
        }
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let mut outcomes = Vec::with_capacity(sets.len());
        for group in groups(sets) {
            outcomes.extend(match self.takes_writes() {
                Ok(()) => self.commits.handler.commit_group(group).await,
                Err(error) => outages(error).take(group.sets.len()).collect(),
            });
        }
        outcomes
    }

    async fn kept_events(&self) -> Result<RangeInclusive<u64>, StoreError> {
        self.readiness.check()?;
        let kept = self.feed.answer(()).await.ok_or_else(|| unavailable(CLOSED))?;
        kept.map_err(failed)
    }

    async fn feed_end(&self) -> Result<RangeInclusive<u64>, StoreError> {
        let rows = self.rows(Statement::plain(feed::NEWEST_WITHOUT_NUMBER)).await?;
        let newest = rows.first().map_or(Ok(0), |row| row.int(0)).map_err(failed)?;
        loop {
            let kept = self.kept_events().await?;
            let rows = self.rows(feed::is_any_without_number(newest)).await?;
            if !rows.first().map_or(Ok(false), |row| row.bool(0)).map_err(failed)? {
                return Ok(kept);
            }
        }
    }

    async fn refresh_access_classes(&self, now: Timestamp) -> Result<(), StoreError> {
        self.takes_writes()?;
        // A row that another transaction is writing is skipped. A later call moves it to its new access class.
        self.rows(access::refresh_access_classes(now, " FOR NO KEY UPDATE SKIP LOCKED"))
            .await
            .map(drop)
    }

    /// PostgreSQL evaluates a condition that depends on no row before it reads any row.
    fn skip_unless(branch: &mut Branch, tests: &[String]) {
        branch.conditions.extend_from_slice(tests);
    }
}
