//! The metrics of background work, for `/metrics`.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What the background work reports of itself. Clones share the numbers.
#[derive(Debug, Clone, Default)]
pub struct ClockMetrics {
    leads: Gauge,
    skew_seconds: Gauge<f64, AtomicU64>,
}

impl ClockMetrics {
    /// Notes whether this instance leads: it does the background work.
    pub fn leads(&self, leads: bool) {
        self.leads.set(leads.into());
    }

    /// Notes how far the clock of this machine is from the database's.
    pub fn skew(&self, skew: Duration) {
        self.skew_seconds.set(skew.as_secs_f64());
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self { leads, skew_seconds } = self;
        let help = "1 if this instance leads: it does the background work";
        registry.register("clock_leads", help, leads.clone());
        let help = "How far this machine's clock is from the database's";
        registry.register("clock_skew_seconds", help, skew_seconds.clone());
    }
}
