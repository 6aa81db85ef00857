//! The metrics of payment providers, for `/metrics`.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use subscription_core::Timestamp;
use subscription_core::providers::{Counters, EventState, Providers, SourceOverview};

/// The metrics of payment providers. Clones share the numbers.
#[derive(Debug, Clone, Default)]
pub struct ProviderMetrics {
    waiting: Family<[(&'static str, String); 2], Gauge>,
    lag_seconds: Gauge<f64, AtomicU64>,
    last_event_seconds: Family<[(&'static str, String); 1], Gauge<f64, AtomicU64>>,
}

impl ProviderMetrics {
    /// Records the delay of the events in the last round: the longest time that one of them had been due when the round
    /// began.
    pub fn lag(&self, lag: Duration) {
        self.lag_seconds.set(lag.as_secs_f64());
    }

    /// The states of the events that `observed` counts.
    pub const STATES: [EventState; 2] = [EventState::Waiting, EventState::Failed];

    /// Records the number of events that wait or failed, and how long ago the last event arrived. An instance that
    /// leads calls this with the present state. An instance that no longer leads calls it with an empty list.
    pub fn observed(&self, sources: &[SourceOverview], now: Timestamp) {
        // The old numbers are removed first. Otherwise a reason that no event has now would still be shown.
        self.waiting.clear();
        self.last_event_seconds.clear();
        for overview in sources {
            let source = overview.source.to_string();
            for (status, count) in &overview.events {
                let is_counted = Self::STATES.contains(&status.state);
                if let Some(reason) = status.reason.filter(|_| is_counted) {
                    let labels = [("source", source.clone()), ("reason", reason.to_string())];
                    let count = i64::try_from(*count).unwrap_or(i64::MAX);
                    self.waiting.get_or_create(&labels).inc_by(count);
                }
            }
            if let Some(at) = overview.last_event_at {
                let since = now.since(at).as_secs_f64();
                self.last_event_seconds.get_or_create(&[("source", source)]).set(since);
            }
        }
    }

    pub(crate) fn register(&self, providers: &Providers, registry: &mut Registry) {
        registry.register_collector(Box::new(CounterCollector(providers.clone())));
        let help = "Events of payment providers that wait or failed, by reason";
        registry.register("provider_events_waiting", help, self.waiting.clone());
        let help = "The delay of the oldest due event of a payment provider at the last round";
        registry.register("provider_event_lag_seconds", help, self.lag_seconds.clone());
        let help = "How long ago the last event of a payment provider came";
        registry.register("provider_last_event_seconds", help, self.last_event_seconds.clone());
    }
}

/// The counters of this process for each payment provider.
#[derive(Debug)]
struct CounterCollector(Providers);

/// A counter of a source: its name, its help text, and its number.
type Count = (&'static str, &'static str, fn(&Counters) -> u64);

#[rustfmt::skip] // Keeps each row on one line.
const COUNTS: [Count; 4] = [
    ("provider_signature_refused", "Webhooks that were not signed by their payment provider", |counters| counters.signatures_refused),
    ("provider_unlisted", "Webhooks with event types that this service does not use", |counters| counters.unlisted),
    ("provider_second_live", "Copied subscriptions that became a second live subscription of a user who may have only one", |counters| counters.second_live),
    ("provider_drift", "Changes that a sync found, but no webhook announced", |counters| counters.drift),
];

impl Collector for CounterCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all_counters = self.0.counters();
        for (name, help, number) in COUNTS {
            let numbers = all_counters
                .iter()
                .map(|(source, counters)| ([("source", source.as_str())], number(counters)));
            super::counts(&mut encoder, name, help, numbers)?;
        }
        let events = all_counters.iter().flat_map(|(source, counters)| {
            EventState::ALL.into_iter().map(move |state| {
                let of_state = counters.events.iter().filter(|(status, _)| status.state == state);
                let count: u64 = of_state.map(|(_, count)| *count).sum();
                ([("source", source.as_str()), ("state", state.as_str())], count)
            })
        });
        let help = "Events of payment providers, by state";
        super::counts(&mut encoder, "provider_events", help, events)?;
        let fetches = all_counters.iter().flat_map(|(source, counters)| {
            counters.fetches.iter().map(move |(outcome, count)| {
                ([("source", source.as_str()), ("outcome", outcome.as_str())], *count)
            })
        });
        let help = "Requests to the APIs of payment providers, by outcome";
        super::counts(&mut encoder, "provider_fetches", help, fetches)
    }
}
