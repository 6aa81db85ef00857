//! The signal that wakes a background job of this process.

use std::sync::Arc;

use tokio::sync::Notify;

/// Given when a request has left work for a job, so that the job does it at once and not after its pause: an event of a
/// payment provider was stored, or an endpoint of webhooks was changed. Each job has its own. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct JobSignal(Arc<Notify>);

impl JobSignal {
    /// Tells that there is work.
    pub fn notify(&self) {
        self.0.notify_one();
    }

    /// Returns once the signal was given since the last return.
    pub async fn wait(&self) {
        self.0.notified().await;
    }
}
