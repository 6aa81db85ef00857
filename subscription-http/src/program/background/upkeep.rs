//! Upkeep: the job that finishes interrupted deletions of accounts, and deletes what has expired.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::auth::Authentication;
use subscription_core::webhooks::Webhooks;
use subscription_core::{Error, SubscriptionService};

use super::jobs::{Job, Next, Stop};

/// The upkeep job. It runs when the instance begins to lead, and then every minute.
pub(crate) struct Upkeep {
    pub(crate) service: SubscriptionService,
    pub(crate) auth: Authentication,
    /// The webhook endpoints: an event is not deleted before it is sent to every enabled endpoint. `None` if the server
    /// sends no webhooks.
    pub(crate) webhooks: Option<Webhooks>,
    /// How long events are stored. `None` means for ever.
    pub(crate) events_kept: Option<Duration>,
    /// The number of deleted events, for `/metrics`.
    pub(crate) forgotten_events: Arc<AtomicU64>,
}

#[async_trait]
impl Job for Upkeep {
    fn name(&self) -> &'static str {
        "upkeep"
    }

    fn longest_pause(&self) -> Duration {
        Duration::from_mins(1)
    }

    /// Runs each part of the upkeep. A part deletes all records of its kind that have expired.
    async fn run(&self, stop: &Stop) -> Result<Next, Error> {
        // All parts run before the first error is returned, so that the failure of one part does not prevent the
        // others.
        let accounts = self.auth.finish_deletions().await;
        let sessions = self.auth.forget_ended_sessions().await;
        let requests = self.service.forget_expired_idempotency().await;
        let events = self.delete_old_events(stop).await;
        let accounts = accounts?;
        let sessions = sessions?;
        let requests = requests?;
        let events = events?;
        if (accounts, sessions, requests, events) != (0, 0, 0, 0) {
            tracing::debug!(accounts, sessions, requests, events, "expired records deleted");
        }
        Ok(Next::Idle)
    }
}

impl Upkeep {
    /// Deletes all events that are too old, one batch in each commit. An event that must still be sent to an enabled
    /// endpoint is not deleted.
    async fn delete_old_events(&self, stop: &Stop) -> Result<u64, Error> {
        let (Some(kept), mut deleted) = (self.events_kept, 0) else { return Ok(0) };
        let before = self.service.now().saturating_sub(kept);
        while !stop.is_set() {
            let sent_up_to = match &self.webhooks {
                Some(webhooks) => webhooks.lowest_cursor().await?,
                None => None,
            };
            let batch = self.service.forget_events_before(before, sent_up_to).await? as u64;
            if batch == 0 {
                break;
            }
            deleted += batch;
            if self.forgotten_events.fetch_add(batch, Ordering::Relaxed) == 0 {
                tracing::warn!(%before, "events before this time are deleted, as --keep-events says");
            }
        }
        Ok(deleted)
    }
}
