//! The metrics of a store, for `/metrics`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use subscription_core::store::{
    CacheInvalidator, DamagedRecord, StoreCall, StoreError, StoreMeter,
};

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
    damaged: DamagedRecords,
    cache: Option<CacheInvalidator>,
}

/// How long a record counts as damaged after it was last read in vain. It is also the time between two log lines about
/// the same record.
const DAMAGED_FOR: Duration = Duration::from_mins(10);
/// The largest number of damaged records that are counted. More would take memory, and say nothing new.
const DAMAGED_MAX: usize = 1_000;

/// The records that could not be read lately.
#[derive(Debug, Clone, Default)]
struct DamagedRecords(Arc<Mutex<HashMap<(&'static str, String), Seen>>>);

/// When a damaged record was last read, and when it was last logged.
#[derive(Debug)]
struct Seen {
    read_at: Instant,
    logged_at: Instant,
}

impl DamagedRecords {
    fn note(&self, record: &DamagedRecord) {
        let now = Instant::now();
        let mut known = self.known(now);
        let key = (record.kind, record.id.clone());
        let seen = known.get_mut(&key);
        if let Some(seen) = seen {
            seen.read_at = now;
            if now.duration_since(seen.logged_at) < DAMAGED_FOR {
                return;
            }
            seen.logged_at = now;
        } else if known.len() < DAMAGED_MAX {
            known.insert(key, Seen { read_at: now, logged_at: now });
        } else {
            return;
        }
        let DamagedRecord { kind, id, cause } = record;
        tracing::error!(kind, id, cause, "a record cannot be read: it is left out");
    }

    /// The records that were read in vain within [`DAMAGED_FOR`].
    fn known(&self, now: Instant) -> MutexGuard<'_, HashMap<(&'static str, String), Seen>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, seen| now.duration_since(seen.read_at) < DAMAGED_FOR);
        known
    }
}

impl Collector for DamagedRecords {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let count = i64::try_from(self.known(Instant::now()).len()).unwrap_or(i64::MAX);
        let help = "Different records that could not be read in the last ten minutes";
        let gauge = encoder.encode_descriptor("damaged_records", help, None, MetricType::Gauge)?;
        ConstGauge::new(count).encode(gauge)
    }
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
        let Self { seconds, timed: _, failures, opened, revoked, damaged, cache } = self;
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
        registry.register_collector(Box::new(damaged.clone()));
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
            damaged: DamagedRecords::default(),
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

    fn damaged(&self, record: &DamagedRecord) {
        self.damaged.note(record);
    }

    fn sessions(&self, opened: u64, revoked: u64) {
        self.opened.inc_by(opened);
        self.revoked.inc_by(revoked);
    }
}
