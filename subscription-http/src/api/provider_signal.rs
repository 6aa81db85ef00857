//! The signal that wakes the job that applies events of payment providers.

use std::sync::Arc;

use tokio::sync::Notify;

/// Given when this process stores an event of a payment provider, so that it is applied at once. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ProviderSignal(Arc<Notify>);

impl ProviderSignal {
    /// Tells that an event was stored.
    pub fn notify(&self) {
        self.0.notify_one();
    }

    /// Returns once an event was stored since the last return.
    pub async fn wait(&self) {
        self.0.notified().await;
    }
}
