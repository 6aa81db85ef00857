//! The background work that sends events to endpoints.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::webhooks::{Sender, SenderSignals, Webhooks};
use subscription_core::{Clock, Error, SystemClock, Timestamp};
use subscription_http::{EventListener, EventSignal, JobSignal};
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::program::background::jobs::{Job, Next, Stop};

/// Maximum time until the events that another process has committed are read.
const READ_EVERY: Duration = Duration::from_secs(1);

/// The job that sends events while this instance leads.
pub(crate) struct WebhookJob {
    webhooks: Webhooks,
    clock: Arc<dyn Clock>,
    /// The signals of this process that events were committed, or that a caller changed an endpoint.
    events: Mutex<EventListener>,
    changed: JobSignal,
    /// The sender with its state in memory. `None` when this instance begins to lead: the next run then makes a sender,
    /// which reads the stored state.
    sender: Mutex<Option<Sender>>,
}

impl WebhookJob {
    /// A job that also sends at once when `events` or `changed` is signalled. `clock` is the clock of the process.
    pub(crate) fn new(
        webhooks: Webhooks,
        clock: Arc<dyn Clock>,
        events: &EventSignal,
        changed: JobSignal,
    ) -> Self {
        let events = Mutex::new(events.listener());
        Self { webhooks, clock, events, changed, sender: Mutex::default() }
    }
}

#[async_trait]
impl Job for WebhookJob {
    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn longest_pause(&self) -> Duration {
        READ_EVERY
    }

    async fn woken(&self) {
        let mut events = self.events.lock().await;
        tokio::select! {
            () = events.wait() => {}
            () = self.changed.wait() => {}
        }
    }

    /// Sends until nothing is due or the job must stop. Meanwhile the sender is not stored in the job, so that a
    /// sender whose run is cancelled or panics is not used again.
    async fn run(&self, stop: &Stop) -> Result<Next, Error> {
        let kept = self.sender.lock().await.take();
        let mut sender = kept.unwrap_or_else(|| self.webhooks.sender());
        let sent = sender.run(&Waker { job: self, stop }).await;
        *self.sender.lock().await = Some(sender);
        // The sender returns a moment of the machine's clock, but `Next::At` needs a moment of the process's clock.
        let pause = |at: Timestamp| at.since(SystemClock.now());
        Ok(sent?.map_or(Next::Idle, |at| Next::At(self.clock.now().saturating_add(pause(at)))))
    }

    fn ended(&self) {
        if let Ok(mut sender) = self.sender.try_lock() {
            *sender = None;
        }
    }
}

/// The events that wake the sender: its timer, the signals, and the stop.
struct Waker<'a> {
    job: &'a WebhookJob,
    stop: &'a Stop,
}

#[async_trait]
impl SenderSignals for Waker<'_> {
    async fn wait(&self, longest: Duration) {
        if self.is_stopped() {
            // During a stop, `longest` is the time that deliveries in flight still have to end. So this wait lasts for
            // all of that time, and ignores the signals.
            return sleep(longest).await;
        }
        tokio::select! {
            () = sleep(longest.min(READ_EVERY)) => {}
            () = self.job.woken() => {}
            () = self.stop.wait() => {}
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }
}
