//! The metrics of background work, for `/metrics`.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use subscription_core::billing;

use super::Label;

/// The metrics that background work reports. Clones share the numbers.
#[derive(Debug, Clone, Default)]
pub struct ClockMetrics {
    leads: Gauge,
    skew_seconds: Gauge<f64, AtomicU64>,
    lag_seconds: Gauge<f64, AtomicU64>,
    steps: Family<Label, Counter>,
    refused: Counter,
    round_seconds: RoundSeconds,
    periods_skipped: Counter,
    to_collect: Gauge,
    to_collect_oldest_seconds: Gauge<f64, AtomicU64>,
    billing_paused: Gauge,
    expired: Family<Label, Gauge>,
}

/// The upper bounds of the buckets in seconds: from a round that finds nothing to a round that a slow store delays.
const BUCKETS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.25, 1.0, 5.0, 25.0];

#[derive(Debug, Clone)]
struct RoundSeconds {
    histogram: Histogram,
}

impl Default for RoundSeconds {
    fn default() -> Self {
        Self { histogram: Histogram::new(BUCKETS) }
    }
}

impl ClockMetrics {
    /// Records whether this instance leads, which means that it does the background work. Only the instance that leads
    /// shows the state of the billing.
    pub fn leads(&self, leads: bool) {
        self.leads.set(leads.into());
        if !leads {
            self.lag_seconds.set(0.0);
            self.to_collect(0, Duration::ZERO);
            self.billing_paused(false);
            // Without a series nothing is shown, which is right for an instance that does not count.
            self.expired.clear();
        }
    }

    /// Records the difference between the clock of this machine and the clock of the database.
    pub fn skew(&self, skew: Duration) {
        self.skew_seconds.set(skew.as_secs_f64());
    }

    /// Adds a round of the billing, and its duration.
    pub fn billed(&self, round: &billing::Advanced, took: Duration) {
        self.lag_seconds.set(round.lag.as_secs_f64());
        let steps = round.by_kind.iter().map(|(kind, count)| (kind.as_str(), *count));
        let retries = (round.retries > 0).then_some(("payment_retried", round.retries));
        for (step, count) in steps.chain(retries) {
            self.steps.get_or_create(&[("step", step)]).inc_by(count as u64);
        }
        self.refused.inc_by((round.refused + round.busy) as u64);
        self.round_seconds.histogram.observe(took.as_secs_f64());
        self.periods_skipped.inc_by(round.periods_skipped);
    }

    /// Records the number of due payments whose result is not reported yet, and how long the oldest of these payments
    /// has been due.
    pub fn to_collect(&self, count: usize, oldest: Duration) {
        self.to_collect.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.to_collect_oldest_seconds.set(oldest.as_secs_f64());
    }

    /// Records whether the billing is paused.
    pub fn billing_paused(&self, paused: bool) {
        self.billing_paused.set(paused.into());
    }

    /// Records the number of records of a kind that have expired, or whose deletion has begun, and that are still
    /// stored.
    pub fn expired(&self, kind: &'static str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.expired.get_or_create(&[("kind", kind)]).set(count);
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "clock_leads",
            "1 if this instance leads: it does the background work",
            self.leads.clone(),
        );
        registry.register(
            "clock_skew_seconds",
            "How far this machine's clock is from the database's",
            self.skew_seconds.clone(),
        );
        registry.register(
            "clock_lag_seconds",
            "The delay of the oldest due billing step at the last round",
            self.lag_seconds.clone(),
        );
        registry.register(
            "clock_steps",
            "Billing steps that were taken, by kind",
            self.steps.clone(),
        );
        registry.register(
            "clock_refused",
            "Billing steps that were not taken, because another write came first or holds the record",
            self.refused.clone(),
        );
        registry.register(
            "clock_round_seconds",
            "How long a round of billing took",
            self.round_seconds.histogram.clone(),
        );
        registry.register(
            "periods_skipped",
            "Periods skipped because more than missed_periods_max were due at once",
            self.periods_skipped.clone(),
        );
        registry.register(
            "payments_to_collect",
            "Due payments without a reported result; counts at most 200 of each status",
            self.to_collect.clone(),
        );
        registry.register(
            "payments_to_collect_oldest_seconds",
            "How long the oldest payment without a reported result has been due",
            self.to_collect_oldest_seconds.clone(),
        );
        registry.register("billing_paused", "1 if billing is paused", self.billing_paused.clone());
        registry.register(
            "expired_records",
            "Expired records that the last upkeep has not deleted; counts at most 200 of each kind",
            self.expired.clone(),
        );
    }
}
