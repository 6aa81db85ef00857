//! What is counted and timed.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::metered::StoreMetrics;

/// Requests by route and status, how long they took, and which came too often.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Served, Histogram>,
    limited: Family<Limited, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Served {
    route: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limited {
    policy: &'static str,
}

/// From half a millisecond to ten seconds.
const BUCKETS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("subscription_http");
        let requests = Family::default();
        let seconds = Family::<Served, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        registry.register(
            "requests",
            "Requests by their answer; 499 for those whose caller went first",
            requests.clone(),
        );
        registry.register("request_seconds", "How long answers took", seconds.clone());
        let limited = Family::default();
        registry.register("rate_limited", "Requests refused by a rate limit", limited.clone());
        Self { registry, requests, seconds, limited }
    }

    /// Shows what a store has counted as well.
    pub(crate) fn with_store(mut self, store: &StoreMetrics) -> Self {
        store.register(&mut self.registry);
        self
    }

    /// Counts a request that came once too often.
    pub(crate) fn limited(&self, policy: &'static str) {
        self.limited.get_or_create(&Limited { policy }).inc();
    }

    pub(crate) fn answered(
        &self,
        method: &http::Method,
        route: &'static str,
        status: u16,
        took: Duration,
    ) {
        // Methods that nobody has heard of must not make new series without end.
        let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
        let method = known.into_iter().find(|known| *known == method.as_str()).unwrap_or("other");
        let answered = Answered { method, route, status };
        self.requests.get_or_create(&answered).inc();
        self.seconds.get_or_create(&Served { route }).observe(took.as_secs_f64());
    }

    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
