//! Upkeep: the job that finishes interrupted deletions of accounts, and deletes what has expired.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::auth::Authentication;
use subscription_core::webhooks::Webhooks;
use subscription_core::{Error, SubscriptionService};
use subscription_http::ClockMetrics;

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
    /// The metrics that show what has expired and is not deleted yet.
    pub(crate) metrics: ClockMetrics,
}

#[async_trait]
impl Job for Upkeep {
    fn name(&self) -> &'static str {
        "upkeep"
    }

    fn longest_pause(&self) -> Duration {
        Duration::from_mins(1)
    }

    /// Runs each part of the upkeep. A part deletes all records of its kind that have expired, unless the stop is set.
    async fn run(&self, stop: &Stop) -> Result<Next, Error> {
        // All parts run before the first error is returned, so that the failure of one part does not prevent the
        // others.
        let accounts = until_empty(stop, || self.auth.finish_deletions()).await;
        let sessions = until_empty(stop, || self.auth.forget_ended_sessions()).await;
        let requests = until_empty(stop, || self.service.forget_expired_idempotency()).await;
        let events = self.delete_old_events(stop).await;
        let left = self.count_left().await;
        let accounts = accounts?;
        let sessions = sessions?;
        let requests = requests?;
        let events = events?;
        left?;
        if (accounts, sessions, requests, events) != (0, 0, 0, 0) {
            tracing::debug!(accounts, sessions, requests, events, "expired records deleted");
        }
        Ok(Next::Idle)
    }
}

impl Upkeep {
    /// Deletes all events that are too old, one batch in each commit. An event that must still be sent to an enabled
    /// endpoint is not deleted.
    async fn delete_old_events(&self, stop: &Stop) -> Result<usize, Error> {
        let Some(kept) = self.events_kept else { return Ok(0) };
        let before = self.service.now().saturating_sub(kept);
        until_empty(stop, || async {
            let sent_up_to = match &self.webhooks {
                Some(webhooks) => webhooks.lowest_cursor().await?,
                None => None,
            };
            let batch = self.service.forget_events_before(before, sent_up_to).await?;
            if batch > 0 && self.forgotten_events.fetch_add(batch as u64, Ordering::Relaxed) == 0 {
                tracing::warn!(%before, "events before this time are deleted, as --keep-events says");
            }
            Ok(batch)
        })
        .await
    }

    /// Shows in the metrics how many records have expired and are still stored.
    async fn count_left(&self) -> Result<(), Error> {
        self.metrics.expired("account", self.auth.count_closing_accounts().await?);
        self.metrics.expired("session", self.auth.count_ended_sessions().await?);
        let requests = self.service.count_expired_idempotency().await?;
        self.metrics.expired("idempotency_record", requests);
        Ok(())
    }
}

/// Deletes one batch after the other until a batch is empty or the stop is set. Returns how many records were deleted.
async fn until_empty<F>(stop: &Stop, batch: impl Fn() -> F) -> Result<usize, Error>
where
    F: Future<Output = Result<usize, Error>>,
{
    let mut deleted = 0;
    while !stop.is_set() {
        match batch().await? {
            0 => break,
            some => deleted += some,
        }
    }
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use subscription_core::accounts::{Origin, Session};
    use subscription_core::auth::{DevelopmentIdentities, KeyRing, SigningKey};
    use subscription_core::store::ChangeSet;
    use subscription_core::{
        ManualClock, MemoryStore, ServerKeys, SessionId, Store, SystemRandomness, Timestamp,
        UserId, Version,
    };
    use test_support::service_world::{at, new_plan, of, once};

    use super::*;

    const MANY: usize = 1_000;

    /// An upkeep over a store with many sessions that have ended and many idempotency records, all of which expire
    /// within a day.
    async fn upkeep() -> (Upkeep, ManualClock) {
        let clock = ManualClock::at(at("2025-01-31T00:00:00Z"));
        let store = Arc::new(MemoryStore::default());
        let shared: Arc<dyn Store> = Arc::clone(&store) as _;
        let service = SubscriptionService::builder(shared).clock(clock.clone()).build();
        for nth in 0..MANY {
            let plan = new_plan(&format!("plan-{nth}"));
            service.create_plan_once(plan, once("shop", &format!("key-{nth}"))).await.unwrap();
            store.commit(ChangeSet::writing(session(service.now()))).await.unwrap();
        }
        let keys = KeyRing::new(SigningKey::ed25519(&vec![7; 32].into()).unwrap());
        let server_keys = ServerKeys::new(1, vec![9; 32].into()).unwrap();
        let identities = Arc::new(DevelopmentIdentities);
        let auth = Authentication::builder(service.clone(), identities, keys, server_keys).build();
        let upkeep = Upkeep {
            service,
            auth,
            webhooks: None,
            events_kept: None,
            forgotten_events: Arc::default(),
            metrics: ClockMetrics::default(),
        };
        (upkeep, clock)
    }

    /// A session that ends at the moment at which it begins.
    fn session(now: Timestamp) -> Session {
        Session {
            id: SessionId::new(now, &SystemRandomness).unwrap(),
            user_id: UserId::new(now, &SystemRandomness).unwrap(),
            client_id: of("web"),
            issuer: of("https://id.example.com"),
            opened_with: [1; 32],
            key_id: 1,
            salt: [2; 16],
            generation: 1,
            rotated_at: now,
            successor_used: false,
            auth_time: now,
            last_seen_at: now,
            expires_at: now,
            idle_expires_at: now,
            revoked: None,
            origin: Origin::default(),
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
        }
    }

    /// The numbers of ended sessions and of expired idempotency records that are still stored, 200 at most.
    async fn left(upkeep: &Upkeep) -> (usize, usize) {
        let sessions = upkeep.auth.count_ended_sessions().await.unwrap();
        (sessions, upkeep.service.count_expired_idempotency().await.unwrap())
    }

    #[tokio::test]
    async fn one_run_deletes_all_that_has_expired() {
        let (upkeep, clock) = upkeep().await;
        assert_eq!(left(&upkeep).await, (0, 0));
        clock.advance(Duration::from_hours(8 * 24));
        assert_eq!(left(&upkeep).await, (200, 200));
        let (_stopping, stop) = Stop::new();

        upkeep.run(&stop).await.unwrap();

        assert_eq!(left(&upkeep).await, (0, 0));
    }

    #[tokio::test]
    async fn a_run_ends_when_it_is_stopped() {
        let (upkeep, clock) = upkeep().await;
        clock.advance(Duration::from_hours(8 * 24));
        let (stopping, stop) = Stop::new();
        drop(stopping);

        upkeep.run(&stop).await.unwrap();

        assert_eq!(left(&upkeep).await, (200, 200));
    }
}
