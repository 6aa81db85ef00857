//! The state that all requests share, and the builder that makes it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use secrecy::SecretSlice;
use subscription_core::auth::Authentication;
use subscription_core::billing::Billing;
use subscription_core::figures::Figures;
use subscription_core::providers::{ProviderKind, Providers};
use subscription_core::webhooks::Webhooks;
use subscription_core::{CheckoutHosts, Clock, Slug, SubscriptionService};
use tokio::sync::Semaphore;
use url::Url;

use super::admission::clients::Clients;
use super::admission::cors::Origins;
use super::admission::hosts::{AllowedHost, Hosts};
use super::admission::rate::{Limiters, RateLimits, Time};
use super::admission::self_service::SelfService;
use super::call::Call;
use super::error::{ApiError, Refusal};
use super::output::json_cache::JsonCaches;
use super::routes::{ApiPart, Served};
use super::waiting::job_signal::JobSignal;
use super::waiting::long_polls::{EventSignal, LongPolls};
use super::waiting::readiness::Readiness;
use super::waiting::turned_clock::TurnedClock;
use super::{Api, Surface};
use crate::metrics::{
    ClockMetrics, Count, Metrics, ProviderMetrics, StoreMetrics, WebhookCounters,
};

/// The maximum number of large webhooks of payment providers that are read at a time.
const WEBHOOK_SLOTS: usize = 32;

/// The time-outs of a request.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Timeouts {
    /// How long the body may take to arrive.
    pub body: Duration,
    /// How long the handler may take once the body has arrived. The check of the caller, before the body is read, has
    /// the same limit.
    pub handler: Duration,
    /// How long a caller waits while business figures are read from the store. After that the caller gets an error, but
    /// the read continues.
    pub figures: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let body = Duration::from_secs(15);
        let handler = Duration::from_secs(30);
        Self { body, handler, figures: Duration::from_secs(20) }
    }
}

subscription_core::with_fields! {
    Timeouts {
        with_body(Duration) => body,
        with_handler(Duration) => handler,
        with_figures(Duration) => figures,
    }
}

/// The state that all requests share.
pub(crate) struct State {
    pub(crate) service: SubscriptionService,
    pub(crate) auth: Authentication,
    pub(crate) clients: Clients,
    pub(crate) cursor_key: SecretSlice<u8>,
    pub(crate) trusted_proxies: Vec<IpAddr>,
    pub(crate) timeouts: Timeouts,
    pub(crate) limiters: Limiters,
    pub(crate) hosts: Hosts,
    pub(crate) origins: Origins,
    pub(crate) metrics: Metrics,
    pub(crate) requests: Arc<AtomicU64>,
    pub(crate) readiness: Readiness,
    pub(crate) json_caches: JsonCaches,
    /// The changes that people may make to their own subscriptions, each once and in the order of the enum.
    pub(crate) self_service: Vec<SelfService>,
    /// The plans that people may change to.
    pub(crate) self_service_plans: Vec<Slug>,
    /// The parts of the API that are served.
    pub(crate) parts: Vec<ApiPart>,
    pub(crate) billing: Option<Billing>,
    pub(crate) figures: Option<Figures>,
    pub(crate) providers: Option<Providers>,
    pub(crate) provider_signal: JobSignal,
    /// A permit for each large webhook that may be read at a time.
    pub(crate) webhook_slots: Semaphore,
    pub(crate) webhooks: Option<Webhooks>,
    pub(crate) webhook_signal: JobSignal,
    pub(crate) turned_clock: Option<Arc<dyn TurnedClock>>,
    pub(crate) checkout_hosts: CheckoutHosts,
    /// The page that people open with a portal token; `None` if there is no such page.
    pub(crate) portal: Option<Url>,
    pub(crate) long_polls: LongPolls,
    /// The number of bytes of responses that clients of all HTTP/2 connections have not read yet.
    pub(crate) unread_bytes: Arc<AtomicUsize>,
    /// True if the IP address of each caller is logged.
    pub(crate) logs_addresses: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("State")
    }
}

impl State {
    /// True if the `x-forwarded-for` of this proxy is trusted.
    pub(crate) fn trusts(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.trusted_proxies.contains(&ip)
    }

    /// The name and the kind of the payment provider that the path of a webhook names.
    pub(crate) fn provider_source(&self, call: &Call) -> Result<(Slug, ProviderKind), ApiError> {
        let name = call.variable.as_ref().map(|(_, name)| name.as_str());
        let mut sources = self.providers.iter().flat_map(Providers::sources);
        let source = sources.find(|source| Some(source.name.as_str()) == name);
        let found = source.map(|source| (source.name.clone(), source.kind));
        found.ok_or_else(|| Refusal::RouteUnknown.into())
    }

    /// The settings that decide which routes are served.
    pub(crate) fn served(&self, surface: Surface) -> Served<'_> {
        Served { self_service: &self.self_service, parts: &self.parts, surface }
    }
}

/// Builds an [`Api`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct ApiBuilder(State);

impl Api {
    /// Builds the HTTP API of a service and its authentication. `cursor_key` signs the cursors of lists; instances
    /// behind one address must have the same key.
    pub fn builder(
        service: SubscriptionService,
        auth: Authentication,
        cursor_key: SecretSlice<u8>,
    ) -> ApiBuilder {
        let long_polls = LongPolls::default();
        let mut metrics = Metrics::new(&long_polls.gauge);
        metrics.identity_keys(&auth, &service);
        ApiBuilder(State {
            service,
            auth,
            clients: Clients::Known,
            cursor_key,
            trusted_proxies: Vec::new(),
            timeouts: Timeouts::default(),
            limiters: Limiters::default(),
            hosts: Hosts::default(),
            origins: Origins::default(),
            metrics,
            requests: Arc::default(),
            readiness: Readiness::default(),
            json_caches: JsonCaches::default(),
            self_service: Vec::new(),
            self_service_plans: Vec::new(),
            parts: vec![ApiPart::Docs],
            billing: None,
            figures: None,
            providers: None,
            provider_signal: JobSignal::default(),
            webhook_slots: Semaphore::new(WEBHOOK_SLOTS),
            webhooks: None,
            webhook_signal: JobSignal::default(),
            turned_clock: None,
            checkout_hosts: CheckoutHosts::default(),
            portal: None,
            long_polls,
            unread_bytes: Arc::default(),
            logs_addresses: false,
        })
    }
}

impl ApiBuilder {
    /// Accepts every client id with every scope, and requests of web pages from this machine. This is for development
    /// only. The header `Host` of a request must then be a name of this machine, the address where the [`Server`]
    /// listens, or a name of [`allowed_hosts`](Self::allowed_hosts).
    ///
    /// [`Server`]: crate::Server
    pub fn believe_every_client(mut self) -> Self {
        self.0.clients = Clients::Anybody;
        self.0.hosts.loopback_only = true;
        self
    }

    /// Serves only these host names, except for `/health/…`, which probes call by IP address. If the list is empty, the
    /// server serves every name. After a call of `believe_every_client`, this list only adds names to those that are
    /// served.
    pub fn allowed_hosts(mut self, hosts: Vec<AllowedHost>) -> Self {
        self.0.hosts.listed = hosts;
        self
    }

    /// Trusts the `x-forwarded-for` of these proxies. Proxies on this machine are always trusted.
    pub fn trust_proxies(mut self, proxies: Vec<IpAddr>) -> Self {
        self.0.trusted_proxies = proxies.into_iter().map(|ip| ip.to_canonical()).collect();
        self
    }

    /// Sets the time-outs of requests.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.0.timeouts = timeouts;
        self
    }

    /// Sets rate limits; without this call, requests are not limited.
    pub fn rate_limits(mut self, limits: &RateLimits) -> Self {
        self.0.limiters = Limiters::new(limits, &Time::Machine(Instant::now()));
        self
    }

    /// Sets rate limits that use `clock`, such as the clock of a test.
    pub fn rate_limits_by(mut self, limits: &RateLimits, clock: impl Clock + 'static) -> Self {
        self.0.limiters = Limiters::new(limits, &Time::Given(Arc::new(clock)));
        self
    }

    /// Allows users to make the changes in `changes` to their own subscriptions. Without this call they can make no
    /// changes. A change that is not in `changes` has no route. `plans` are the plans to which users can change: they
    /// are used only if `changes` contains the change of plan.
    pub fn self_service(mut self, changes: &[SelfService], plans: &[Slug]) -> Self {
        self.0.self_service_plans = plans.to_vec();
        let allowed = SelfService::ALL.into_iter().filter(|change| changes.contains(change));
        self.0.self_service = allowed.collect();
        self
    }

    /// Bills the subscriptions with `managed_by` `clock`. [`Billing::service`] replaces the service of the builder.
    /// Without this call, the service bills no subscription, and the routes of billing do not exist.
    pub fn billing(mut self, billing: Billing) -> Self {
        self.0.service = billing.service().clone();
        self.0.billing = Some(billing);
        self.with(ApiPart::Billing)
    }

    /// Serves the business figures at `/stats`. Without this call, the routes of figures do not exist.
    pub fn figures(mut self, figures: Figures) -> Self {
        self.0.figures = Some(figures);
        self.with(ApiPart::Figures)
    }

    /// Copies subscriptions from payment providers: receives their webhooks, and lets clients list the stored events.
    /// Without this call, the routes of providers do not exist. The signal `stored` is sent when an event was stored, a
    /// link was made, or the sync of a whole provider was requested.
    pub fn providers(
        mut self,
        providers: Providers,
        stored: &JobSignal,
        metrics: &ProviderMetrics,
    ) -> Self {
        metrics.register(&providers, &mut self.0.metrics.registry);
        self.0.providers = Some(providers);
        self.0.provider_signal = stored.clone();
        self.with(ApiPart::Providers)
    }

    /// Allows clients to manage the endpoints that events are sent to. Without this call, the routes of webhooks do
    /// not exist. The signal `changed` is sent after each request that manages an endpoint, so that the job that sends
    /// events reads the endpoint again.
    pub fn webhooks(mut self, webhooks: Webhooks, changed: &JobSignal) -> Self {
        let service = self.0.service.clone();
        let counters = WebhookCounters { webhooks: webhooks.clone(), service };
        self.0.metrics.registry.register_collector(Box::new(counters));
        self.0.webhooks = Some(webhooks);
        self.0.webhook_signal = changed.clone();
        self.with(ApiPart::Webhooks)
    }

    /// Serves `/clock`, where every caller can move this clock forward; for development only. Without this call, the
    /// routes of the clock do not exist. Build the service with the same clock.
    pub fn turned_clock(mut self, clock: impl TurnedClock + 'static) -> Self {
        self.0.turned_clock = Some(Arc::new(clock));
        self.with(ApiPart::Clock)
    }

    /// Serves the console, a web page for operators, at `/console/`. The console calls the API like every other
    /// client. Its rights are the scopes of the key that its user enters.
    #[cfg(feature = "console")]
    pub fn console(self) -> Self {
        self.with(ApiPart::Console)
    }

    /// Serves neither the OpenAPI document nor its web page: `/openapi.json` and `/docs` do not exist.
    pub fn without_docs(mut self) -> Self {
        self.0.parts.retain(|part| *part != ApiPart::Docs);
        self
    }

    /// Lets clients make links to this page, on which a user manages subscriptions without signing in. The page is
    /// `https`, except on the browser's own machine, and its address has no fragment. Without a page, the route that
    /// makes links does not exist.
    pub fn portal(mut self, page: impl Into<Option<Url>>) -> Self {
        self.0.portal = page.into();
        self.0.parts.extend(self.0.portal.as_ref().map(|_| ApiPart::Portal));
        self
    }

    /// Sets the custom domains at which payment providers serve checkout pages. A checkout link to such a domain has
    /// the user id in the query parameter that its payment provider reads.
    pub fn checkout_hosts(mut self, hosts: CheckoutHosts) -> Self {
        self.0.checkout_hosts = hosts;
        self
    }

    /// Shows the counters of a [`TimedStore`](subscription_core::store::TimedStore) at `/metrics`.
    pub fn store_metrics(mut self, metrics: &StoreMetrics) -> Self {
        metrics.register(&mut self.0.metrics.registry);
        self
    }

    /// Shows the metrics of background work at `/metrics`.
    pub fn clock_metrics(mut self, metrics: &ClockMetrics) -> Self {
        metrics.register(&mut self.0.metrics.registry);
        self
    }

    /// Wakes the requests that wait for events as soon as the signal is sent; without this call, they wake within a
    /// second.
    pub fn event_signal(mut self, signal: &EventSignal) -> Self {
        self.0.long_polls.signal = signal.clone();
        self
    }

    /// Shows at `/metrics` the number of events that were deleted because of their age. `forgotten` has this number.
    pub fn forgotten_events(self, forgotten: Arc<AtomicU64>) -> Self {
        self.count("events_forgotten", "Events deleted because of their age", forgotten)
    }

    /// Counts the requests of clients in `requests`. While this number grows, billing in the background runs in smaller
    /// parts with pauses, so that requests are not delayed.
    pub fn count_requests(mut self, requests: Arc<AtomicU64>) -> Self {
        self.0.requests = requests;
        self
    }

    /// Logs the IP address of the caller with each request. Without this call, no address is logged.
    pub fn log_addresses(mut self) -> Self {
        self.0.logs_addresses = true;
        self
    }

    /// Shows at `/metrics` the number of lost log lines. `lost` has this number, which the log writer counts.
    pub fn lost_log_lines(self, lost: Arc<AtomicU64>) -> Self {
        let help = "Log lines dropped because standard error was blocked";
        self.count("log_lines_lost", help, lost)
    }

    fn count(mut self, name: &'static str, help: &'static str, number: Arc<AtomicU64>) -> Self {
        let count = Count { name, help, number };
        self.0.metrics.registry.register_collector(Box::new(count));
        self
    }

    fn with(mut self, part: ApiPart) -> Self {
        self.0.parts.push(part);
        self
    }

    /// Builds the [`Api`].
    pub fn build(self) -> Api {
        Api { state: Arc::new(self.0), surface: Surface::Whole }
    }
}
