//! The background work for payment providers: one job applies the events that providers sent, another compares the
//! records with the providers' objects, page by page.

use std::time::Duration;

use async_trait::async_trait;
use subscription_core::providers::{Providers, SyncCounts, SyncKind, SyncReport};
use subscription_core::{Error, Slug, SubscriptionService};
use subscription_http::{JobSignal, ProviderMetrics};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::program::background::jobs::{Job, Next, Stop};

/// How often the events that wait or failed are counted, for the metrics.
const COUNTED_EVERY: Duration = Duration::from_mins(1);
/// Maximum number of events in one round. The store has little to do at the start and at the end of a round.
/// Therefore ten short rounds take longer than one long round.
const EVENTS: usize = 1_000;

/// The job that applies the due events of payment providers. It runs at once when this process has stored an event,
/// otherwise at least every second.
pub(crate) struct ProviderJob {
    providers: Providers,
    service: SubscriptionService,
    stored: JobSignal,
    metrics: ProviderMetrics,
    /// When the events that wait or failed were last counted. `None` before the first count.
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

    /// Executes one round. The round does not check the stop signal: a stop waits for the reads from providers that the
    /// round has begun, and each read has a time-out.
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

/// The job that syncs the configured accounts at payment providers (the sources) every night, and when a caller
/// requests it.
pub(crate) struct ProviderSyncJob {
    providers: Providers,
    /// The sync in progress: its source and its kind. `None` if no sync is in progress.
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

    /// Syncs one page, so that a stop waits for one page at most.
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
            "a sync found changes without a webhook: check that the provider sends its webhooks to this service"
        );
    }
}
