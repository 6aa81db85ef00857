//! The metrics of a store, for `/metrics`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use subscription_core::store::{CacheInvalidator, StoreCall, StoreError, StoreMeter};

use super::Label;

/// Histograms and counters of a [`TimedStore`](subscription_core::store::TimedStore).
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    seconds: Family<Label, Histogram>,
    /// The histograms of `seconds`, in the order of [`StoreCall::ALL`].
    timed: Arc<[Histogram]>,
    failures: Family<Label, Counter>,
    opened: Counter,
    revoked: Counter,
    cache: Option<CacheInvalidator>,
}

/// The upper bounds of the buckets in seconds: from 20 microseconds, for a read from memory, to 5 seconds, for a store
/// that has a problem.
const BUCKETS: [f64; 12] =
    [0.00002, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0];

impl StoreMetrics {
    /// Adds the hits and misses of the cache in front of the store to these metrics.
    #[must_use]
    pub fn cached(mut self, cache: &CacheInvalidator) -> Self {
        self.cache = Some(cache.clone());
        self
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self { seconds, timed: _, failures, opened, revoked, cache } = self;
        registry.register("store_seconds", "How long calls of the database took", seconds.clone());
        registry.register(
            "store_failures",
            "Failures of the database, by operation",
            failures.clone(),
        );
        registry.register("sessions_opened", "Sessions that began", opened.clone());
        registry.register(
            "sessions_revoked",
            "Sessions ended by logout or revocation",
            revoked.clone(),
        );
        if let Some(cache) = cache {
            registry.register_collector(Box::new(CacheCollector(cache.clone())));
        }
    }
}

/// The metrics of the cache: the number of reads that found their record in the cache, and the number of those that did
/// not.
#[derive(Debug)]
struct CacheCollector(CacheInvalidator);

impl Collector for CacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let hits = "Plans and clients read from memory";
        super::count(&mut encoder, "cache_hits", hits, self.0.hits())?;
        let misses = "Plans and clients read from the database";
        super::count(&mut encoder, "cache_misses", misses, self.0.misses())
    }
}

impl Default for StoreMetrics {
    fn default() -> Self {
        let seconds = Family::<Label, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        let timed = StoreCall::ALL
            .iter()
            .map(|call| seconds.get_or_create(&[("operation", call.as_str())]).clone());
        Self {
            timed: timed.collect(),
            seconds,
            failures: Family::default(),
            opened: Counter::default(),
            revoked: Counter::default(),
            cache: None,
        }
    }
}

impl StoreMeter for StoreMetrics {
    fn called(&self, call: StoreCall, took: Duration, error: Option<&StoreError>) {
        if let Some(seconds) = self.timed.get(call as usize) {
            seconds.observe(took.as_secs_f64());
        }
        // A refusal by the rules of the store is not a failure.
        if let Some(StoreError::Unavailable(_) | StoreError::Damaged(_)) = error {
            self.failures.get_or_create(&[("operation", call.as_str())]).inc();
        }
    }

    fn sessions(&self, opened: u64, revoked: u64) {
        self.opened.inc_by(opened);
        self.revoked.inc_by(revoked);
    }
}
