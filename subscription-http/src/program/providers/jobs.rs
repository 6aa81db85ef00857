//! The background work for payment providers: applying events, and syncing page by page.

use std::time::Duration;

use async_trait::async_trait;
use subscription_core::providers::{Providers, SyncCounts, SyncKind, SyncReport};
use subscription_core::{Error, Slug, SubscriptionService};
use subscription_http::{JobSignal, ProviderMetrics};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::program::background::jobs::{Job, Next, Stop};

/// How often the events that wait are counted.
const COUNTED_EVERY: Duration = Duration::from_mins(1);
/// The events of one round. The store has little to write when a round begins and ends, so short rounds are slow.
const EVENTS: usize = 1_000;

/// Applies the events that are due: at once if this process stored one, else every second.
pub(crate) struct ProviderJob {
    providers: Providers,
    service: SubscriptionService,
    stored: JobSignal,
    metrics: ProviderMetrics,
    /// When the events that wait were counted last.
    counted: Mutex<Option<Instant>>,
}

impl ProviderJob {
    pub(crate) fn new(
        providers: Providers,
        service: SubscriptionService,
        stored: JobSignal,
        metrics: ProviderMetrics,
    ) -> Self {
        Self { providers, service, stored, metrics, counted: Mutex::default() }
    }

    async fn count(&self) -> Result<(), Error> {
        let mut counted = self.counted.lock().await;
        if counted.is_none_or(|at| at.elapsed() >= COUNTED_EVERY) {
            let sources = self.providers.overview_of(&ProviderMetrics::STATES).await?;
            self.metrics.observed(&sources, self.service.now());
            *counted = Some(Instant::now());
        }
        Ok(())
    }
}

#[async_trait]
impl Job for ProviderJob {
    fn name(&self) -> &'static str {
        "providers"
    }

    fn longest_pause(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn woken(&self) {
        self.stored.wait().await;
    }

    fn ended(&self) {
        self.metrics.lag(Duration::ZERO);
        self.metrics.observed(&[], self.service.now());
    }

    /// One round. A stop waits for at most its reads from providers, each of which has a time-out.
    async fn run(&self, _: &Stop) -> Result<Next, Error> {
        let applied = self.providers.advance(EVENTS).await?;
        self.metrics.lag(applied.lag);
        self.count().await?;
        if applied.more {
            return Ok(Next::Again);
        }
        Ok(applied.next_at.map_or(Next::Idle, Next::At))
    }
}

/// Syncs the sources every night, and when a caller requests it.
pub(crate) struct ProviderSyncJob {
    providers: Providers,
    /// The sync that this job is at.
    running: Mutex<Option<(Slug, SyncKind)>>,
}

impl ProviderSyncJob {
    pub(crate) fn new(providers: Providers) -> Self {
        Self { providers, running: Mutex::default() }
    }
}

#[async_trait]
impl Job for ProviderSyncJob {
    fn name(&self) -> &'static str {
        "provider-syncs"
    }

    /// One page, so that a stop does not wait for more.
    async fn run(&self, _: &Stop) -> Result<Next, Error> {
        let mut running = self.running.lock().await;
        if running.is_none() {
            let (due, next_at) = self.providers.due_sync().await?;
            if due.is_none() {
                return Ok(next_at.map_or(Next::Idle, Next::At));
            }
            *running = due;
        }
        let Some((source, kind)) = running.clone() else { return Ok(Next::Idle) };
        let step = self.providers.sync_page(&source, kind, false).await?;
        if step.report.finished_at.is_some() {
            *running = None;
            log(&source, &step.report);
        }
        Ok(step.next_at.map_or(Next::Again, Next::At))
    }
}

fn log(source: &Slug, SyncReport { kind, counts, .. }: &SyncReport) {
    let SyncCounts { made, changed, same, waiting, failed, drift, .. } = counts;
    tracing::info!(%source, %kind, made, changed, same, waiting, failed, drift, "sync ended");
    if *drift > 0 {
        tracing::warn!(
            %source,
            drift,
            "a sync found differences that no webhook had announced: check that the provider sends them"
        );
    }
}
