//! Decides which of several instances does the background work.
//!
//! On PostgreSQL it is the one that holds a lock; over a file or in memory there is one instance, and it
//! leads. For a moment two may lead, because a leader learns of its lost lock late: jobs write under the
//! versions of records, so that this costs refused commits and nothing else.

use std::time::Duration;

use async_trait::async_trait;
use subscription_core::store::LeaderLock;

/// Tells whether this instance does the background work.
#[async_trait]
pub(crate) trait Leader: Send + Sync {
    /// True if this instance leads now; called every two seconds.
    async fn leads(&self) -> bool;

    /// How far the clock of this machine is from the database's, as of the last call of `leads`.
    fn skew(&self) -> Duration {
        Duration::ZERO
    }
}

/// The only instance over its store.
pub(crate) struct Alone;

#[async_trait]
impl Leader for Alone {
    async fn leads(&self) -> bool {
        true
    }
}

/// One of the instances over a PostgreSQL database.
#[async_trait]
impl Leader for LeaderLock {
    async fn leads(&self) -> bool {
        self.holds().await
    }

    fn skew(&self) -> Duration {
        self.skew()
    }
}
