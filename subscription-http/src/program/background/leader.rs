//! The choice of the instance that does the background work.
//!
//! On PostgreSQL, the instance that holds a lock leads. With SQLite or in memory there is only one instance, and it
//! leads. Two instances may lead for a moment, because a leader notices late that it has lost its lock. Jobs compare
//! the versions of records when they write, so the only harm is a refused commit.

use std::time::Duration;

use async_trait::async_trait;
use subscription_core::store::LeaderLock;

/// Says whether this instance does the background work.
#[async_trait]
pub(crate) trait Leader: Send + Sync {
    /// True if this instance leads now. Called every two seconds.
    async fn leads(&self) -> bool;

    /// The difference between the clocks of this machine and of the database, as of the last call of `leads`.
    fn skew(&self) -> Duration {
        Duration::ZERO
    }
}

/// The leader of a store that only one instance can use.
pub(crate) struct Alone;

#[async_trait]
impl Leader for Alone {
    async fn leads(&self) -> bool {
        true
    }
}

/// The lock in PostgreSQL, which one of several instances holds.
#[async_trait]
impl Leader for LeaderLock {
    async fn leads(&self) -> bool {
        self.holds().await
    }

    fn skew(&self) -> Duration {
        self.skew()
    }
}
