//! The metrics of `/metrics`: requests by route and status, their durations, and requests that a rate limit refused.

mod clock;
mod providers;
mod store;
mod webhooks;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use subscription_core::SubscriptionService;
use subscription_core::auth::Authentication;

use crate::api::routes::{self, Route};
pub use clock::ClockMetrics;
pub use providers::ProviderMetrics;
pub use store::StoreMetrics;
pub(crate) use webhooks::WebhookCounters;

/// The metrics of one [`Api`](crate::Api).
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Label, Histogram>,
    limited: Family<Label, Counter>,
    /// For each route, the metrics of its responses with status 200. They are looked up once, because hashing labels is
    /// slow.
    usual: Box<[OnceLock<Series>]>,
}

/// The metrics of all responses that have the same labels.
struct Series {
    seconds: Histogram,
    requests: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: &'static str,
    status: u16,
}

/// The only label of a series: its name and its value.
type Label = [(&'static str, &'static str); 1];

/// A number that another part of the program counts.
#[derive(Debug)]
pub(crate) struct Count {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) number: Arc<AtomicU64>,
}

impl Collector for Count {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        count(&mut encoder, self.name, self.help, self.number.load(Ordering::Relaxed))
    }
}

/// The age of the identity provider's keys, once they were fetched.
#[derive(Debug)]
struct IdentityKeysAge {
    auth: Authentication,
    service: SubscriptionService,
}

impl Collector for IdentityKeysAge {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(fetched_at) = self.auth.identity_keys_fetched_at() else { return Ok(()) };
        let name = "identity_keys_age_seconds";
        let help = "Time since the keys of the identity provider were fetched";
        let encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let age = self.service.now().micros().saturating_sub(fetched_at.micros()) / 1_000_000;
        ConstGauge::new(age).encode(encoder)
    }
}

/// Writes a counter without labels.
fn count(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, number: u64) -> fmt::Result {
    let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(number).encode(counter)
}

/// Writes one counter value for each set of labels in `numbers`.
fn counts<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    numbers: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, number) in numbers {
        ConstCounter::new(number).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// The upper bounds of the histogram buckets, in seconds.
const BUCKETS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

impl Metrics {
    pub(crate) fn new(feed_waiters: &Gauge) -> Self {
        let mut registry = Registry::with_prefix("subscription_http");
        registry.register("feed_waiters", "Requests that wait for events", feed_waiters.clone());
        let requests = Family::default();
        let seconds = Family::<Label, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        registry.register(
            "requests",
            "Requests by the status of their response; 499 if the caller disconnected first",
            requests.clone(),
        );
        registry.register("request_seconds", "How long responses took", seconds.clone());
        let limited = Family::default();
        registry.register("rate_limited", "Requests refused by a rate limit", limited.clone());
        let usual = routes::all().map(|_| OnceLock::new()).collect();
        Self { registry, requests, seconds, limited, usual }
    }

    /// Shows the age of the identity provider's keys.
    pub(crate) fn identity_keys(&mut self, auth: &Authentication, service: &SubscriptionService) {
        let (auth, service) = (auth.clone(), service.clone());
        self.registry.register_collector(Box::new(IdentityKeysAge { auth, service }));
    }

    /// Counts a request that a rate limit refused.
    pub(crate) fn limited(&self, policy: &'static str) {
        self.limited.get_or_create(&[("policy", policy)]).inc();
    }

    pub(crate) fn answered(
        &self,
        method: &http::Method,
        route: Option<&'static Route>,
        status: u16,
        took: Duration,
    ) {
        let usual = route.filter(|route| status == 200 && route.method == method);
        let nth =
            usual.and_then(|usual| routes::all().position(|route| std::ptr::eq(route, usual)));
        let route = route.map_or(Route::NONE, |route| route.pattern);
        let series = || Series {
            seconds: self.seconds.get_or_create(&[("route", route)]).clone(),
            requests: self
                .requests
                .get_or_create(&Answered { method: known(method), route, status })
                .clone(),
        };
        let Series { seconds, requests } = match nth.and_then(|nth| self.usual.get(nth)) {
            Some(known) => known.get_or_init(series),
            None => &series(),
        };
        seconds.observe(took.as_secs_f64());
        requests.inc();
    }

    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// The name of a method in the metrics. All unknown methods have the name `other`. Otherwise each new name that a
/// caller sends would add a time series.
fn known(method: &http::Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    known.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}
