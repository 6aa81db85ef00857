//! The signal that wakes the job that sends events to endpoints.

use std::sync::Arc;

use tokio::sync::Notify;

/// Given when this process changed an endpoint, so that the job reads it at once. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct WebhookSignal(Arc<Notify>);

impl WebhookSignal {
    /// Tells that there is something to read.
    pub fn notify(&self) {
        self.0.notify_one();
    }

    /// Returns once the signal was given since the last return.
    pub async fn wait(&self) {
        self.0.notified().await;
    }
}
