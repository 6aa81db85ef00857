//! The command `serve`: serves requests and does the background work until a signal stops the process.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use subscription_core::figures::Figures;
use subscription_core::providers::Providers;
use subscription_core::store::{PageLimit, PlanQuery};
use subscription_core::webhooks::Webhooks;
use subscription_core::{Clock as _, SubscriptionService};
use subscription_http::{
    Api, ApiBuilder, ClockMetrics, JobSignal, Limits, ProviderMetrics, Server,
};

use super::background::billing::BillingJob;
use super::background::jobs::{BackgroundWork, Job, Stop};
use super::background::process_clock::ClockControl;
use super::background::upkeep::Upkeep;
use super::log::Log;
use super::open::{Listeners, Opened, Ready};
use super::providers::{ProviderJob, ProviderSyncJob};
use super::settings::{Console, Database, KeepEvents, Mode, Settings};
use super::signals::Signals;
use super::webhooks::WebhookJob;
use super::{Failure, print};

/// The number of open files reserved for everything except connections from callers, connections to the database and
/// worker threads.
const FILES_RESERVED: usize = 64;

/// The number of open files that each worker thread needs for itself.
const FILES_PER_WORKER: usize = 4;

pub(crate) async fn serve(settings: &Settings, log: &Log) -> Result<(), Failure> {
    let Ready { opened, billing, providers, webhooks, auth, keys, listeners } =
        Ready::new(settings).await?;
    let forgotten_events = Arc::new(AtomicU64::new(0));
    let requests = Arc::new(AtomicU64::new(0));
    let clock_metrics = ClockMetrics::default();
    let service = billing.service().clone();
    let store = Arc::clone(&opened.store);
    let billing_job =
        BillingJob::new(billing.clone(), store, clock_metrics.clone(), Arc::clone(&requests));
    let api = Api::builder(service.clone(), auth.clone(), keys.cursor()?)
        .billing(billing)
        .store_metrics(&opened.metrics)
        .event_signal(&opened.event_signal)
        .forgotten_events(Arc::clone(&forgotten_events))
        .count_requests(requests)
        .clock_metrics(&clock_metrics)
        .lost_log_lines(log.lost());
    let mut api = with_settings(api, settings);
    if let Some(clock) = &opened.process_clock {
        tracing::warn!(now = %clock.now(), "the clock is manual: POST /clock/advance advances it");
        api = api.turned_clock(ClockControl::new(
            Arc::clone(clock),
            billing_job.clone(),
            billing_job.turn(),
        ));
    }
    let KeepEvents(events_kept) = settings.keep_events;
    let upkeep = Upkeep {
        service: service.clone(),
        auth,
        webhooks: webhooks.clone(),
        events_kept,
        forgotten_events,
        metrics: clock_metrics.clone(),
    };
    let mut jobs: Vec<Arc<dyn Job>> = vec![Arc::new(upkeep), Arc::new(billing_job)];
    if let Some(providers) = providers {
        api = follow(api, providers, service.clone(), &mut jobs);
    }
    if let Some(webhooks) = webhooks {
        api = send_events(api, webhooks, &opened, &mut jobs);
    }
    if settings.console() != Console::Off {
        api = api.console().figures(Figures::new(service.clone()));
    }
    let servers = Servers::new(&api.build(), settings, listeners)?;
    log_start(settings)?;
    log_unbilled_plans(&service).await;
    // Signals are caught before the line with the address is printed, because the reader of this line may send a signal
    // at once.
    let mut signals = Signals::new()?;
    servers.tell_addresses(settings)?;
    let background = BackgroundWork { jobs, clock: opened.clock(), metrics: clock_metrics };
    let (stopping, stop) = Stop::new();
    let leader = opened.leader();
    let stop_jobs = stop.clone();
    let background = tokio::spawn(async move { background.run(&*leader, &stop_jobs).await });
    let stopped = async {
        signals.recv().await;
        tracing::info!("stopping: waiting for requests in flight");
        drop(stopping);
    };
    // The background work also uses connections to the database that requests have opened.
    let threads = servers.public.worker_threads();
    servers.run(stopped, &stop).await;
    background.await.ok();
    opened.close().await;
    drop(threads);
    tracing::info!("stopped");
    Ok(())
}

/// The server of the API, and the servers of metrics and of the console: `None` if these have no address of their own.
struct Servers {
    public: Server,
    metrics: Option<Server>,
    console: Option<Server>,
}

impl Servers {
    fn new(api: &Api, settings: &Settings, listeners: Listeners) -> Result<Self, Failure> {
        let Listeners { public: listener, metrics, console } = listeners;
        let limits = limits(settings);
        let public = if console.is_some() { api.without_console() } else { api.clone() };
        Ok(Self {
            public: Server::on(public, listener, limits).workers(cores())?,
            metrics: metrics.map(|listener| Server::on(api.operations(), listener, limits)),
            console: console.map(|listener| Server::on(api.clone(), listener, limits)),
        })
    }

    fn tell_addresses(&self, settings: &Settings) -> Result<(), Failure> {
        if let Some(metrics) = &self.metrics {
            tracing::info!(address = %metrics.address()?, "metrics are served");
        }
        if settings.console() != Console::Off {
            let address = self.console.as_ref().unwrap_or(&self.public).address()?;
            tracing::info!("console at http://{address}/console/");
        }
        print(&format!("listening on http://{}", self.public.address()?));
        Ok(())
    }

    /// Runs the servers until the process must stop.
    async fn run(self, stopped: impl Future<Output = ()> + Send, stop: &Stop) {
        let until = async |server: Option<Server>| match server {
            Some(server) => server.run(async { stop.wait().await }).await,
            None => true,
        };
        let metrics = until(self.metrics);
        let console = until(self.console);
        let (public, _, console) = tokio::join!(self.public.run(stopped), metrics, console);
        if !(public && console) {
            tracing::warn!("stop timed out: requests in flight were cut off");
        }
    }
}

/// Applies the settings that concern requests.
fn with_settings(api: ApiBuilder, settings: &Settings) -> ApiBuilder {
    let api = api
        .trust_proxies(settings.trusted_proxies.clone())
        .allowed_hosts(settings.allowed_hosts.clone())
        .self_service(&settings.self_service, &settings.self_service_plans)
        .portal(settings.portal_url.clone())
        .checkout_hosts(settings.checkout_hosts.clone())
        .rate_limits(&settings.rate_limits());
    let api = if settings.serves_docs() { api } else { api.without_docs() };
    let api = if settings.logs_addresses() { api.log_addresses() } else { api };
    if settings.mode == Mode::Development { api.believe_every_client() } else { api }
}

/// Lets clients manage webhook endpoints, and sends events to these endpoints in the background.
fn send_events(
    api: ApiBuilder,
    webhooks: Webhooks,
    opened: &Opened,
    jobs: &mut Vec<Arc<dyn Job>>,
) -> ApiBuilder {
    let changed = JobSignal::default();
    let api = api.webhooks(webhooks.clone(), &changed);
    let events = &opened.event_signal;
    jobs.push(Arc::new(WebhookJob::new(webhooks, opened.clock(), events, changed)));
    api
}

/// Receives the webhooks of payment providers, and updates the records from the provider's subscriptions in the
/// background.
fn follow(
    api: ApiBuilder,
    providers: Providers,
    service: SubscriptionService,
    jobs: &mut Vec<Arc<dyn Job>>,
) -> ApiBuilder {
    let stored = JobSignal::default();
    let metrics = ProviderMetrics::default();
    let api = api.providers(providers.clone(), &stored, &metrics);
    jobs.push(Arc::new(ProviderSyncJob::new(providers.clone())));
    jobs.push(Arc::new(ProviderJob::new(providers, service, stored, metrics)));
    api
}

fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The limits of the server. The number of connections is limited by the number of files that the system allows to be
/// open. Some files are reserved for other uses, such as the store: if the store cannot open a file, requests fail, but
/// a caller that gets no connection only waits.
fn limits(settings: &Settings) -> Limits {
    let limits = settings.server_limits();
    let workers = FILES_PER_WORKER * cores().get();
    let reserved = FILES_RESERVED + workers + settings.database_connections();
    let files = std::fs::read_to_string("/proc/self/limits").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    });
    let most = files.map_or(usize::MAX, |files| files.saturating_sub(reserved).max(1));
    if limits.connections > most {
        tracing::warn!(
            connections = most,
            "the limit of open files (ulimit -n) is too low for --max-connections: fewer connections are accepted"
        );
    }
    limits.with_connections(limits.connections.min(most))
}

/// Reads the first 200 plans, and logs a warning for each active plan whose subscriptions are possibly not billed: the
/// plan has a price, but no currency and no product or variant of a provider.
async fn log_unbilled_plans(service: &SubscriptionService) {
    let query = PlanQuery::default().with_limit(PageLimit::MAX);
    // An error is ignored here: another warning reports a database that cannot be reached yet.
    for plan in service.plans(query).await.into_iter().flat_map(|page| page.items) {
        let is_mapped = plan.product_id.is_some() || !plan.variants.is_empty();
        if plan.is_active && plan.currency.is_none() && !is_mapped && !plan.price.is_zero() {
            let plan = plan.slug.as_str();
            tracing::warn!(
                plan,
                "the plan has no currency: by default, the server does not renew or end subscriptions to it"
            );
        }
    }
}

fn log_start(settings: &Settings) -> Result<(), Failure> {
    let database = settings.database()?;
    let shown = format!("{database:?}");
    match settings.mode {
        Mode::Development => {
            tracing::warn!(database = shown, "DEVELOPMENT MODE: every client and token is trusted");
        }
        Mode::Production => tracing::info!(database = shown, "production mode"),
    }
    if database == Database::Memory {
        tracing::warn!("the database is in memory: all records are lost when the process ends");
    }
    for file in settings.readable_by_others() {
        tracing::warn!("other users of this machine can read a file: {file}");
    }
    Ok(())
}
