//! The signal that wakes a background job of this process.

use std::sync::Arc;

use tokio::sync::Notify;

/// Wakes a background job when a request has created work for it, so that the job does not wait for its next regular
/// run. Examples: an event of a payment provider was stored, or a webhook endpoint was changed. Each job has its own
/// signal. Clones share one signal.
#[derive(Debug, Clone, Default)]
pub struct JobSignal(Arc<Notify>);

impl JobSignal {
    /// Reports that there is work.
    pub fn notify(&self) {
        self.0.notify_one();
    }

    /// Waits for a report. This method returns at once if there was a report since it last returned.
    pub async fn wait(&self) {
        self.0.notified().await;
    }
}
