//! The port that gives the sending job its timer and its signals.

use std::time::Duration;

use async_trait::async_trait;

/// The timer and the signals of the sending job. The core has no async runtime of its own, so the program that uses the
/// core implements this trait.
#[async_trait]
pub trait SenderSignals: Send + Sync {
    /// Waits at most `longest`. Returns earlier if there may be new events, if a caller changed an endpoint, or if
    /// sending must stop. Once sending must stop, each call waits for the full time `longest`, because deliveries that
    /// have begun may still end during this time.
    ///
    /// A signal that arrives while no call waits ends the next wait.
    async fn wait(&self, longest: Duration);

    /// True if sending must stop: the process ends, or another instance leads.
    fn is_stopped(&self) -> bool;
}
