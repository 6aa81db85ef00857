//! The port that gives the sending job its timer and its signals.

use std::time::Duration;

use async_trait::async_trait;

/// The timer and the signals of the sending job: the core has no runtime of its own.
#[async_trait]
pub trait SenderSignals: Send + Sync {
    /// Returns after `longest`, or earlier if there may be new events, a caller changed an endpoint, or sending
    /// must stop. Once sending must stop, it returns only after `longest`: tries in flight get that time.
    ///
    /// A signal that comes while nobody waits ends the next wait.
    async fn wait(&self, longest: Duration);

    /// True if sending must stop: the process ends, or another instance leads.
    fn is_stopped(&self) -> bool;
}
