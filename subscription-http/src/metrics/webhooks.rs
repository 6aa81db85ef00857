//! The metrics of webhooks, for `/metrics`: the counts of this process, and the state of sending on the leader.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use subscription_core::webhooks::{AllCounters, Counters, DisabledReason, SendingState, Webhooks};
use subscription_core::{SubscriptionService, Timestamp};

/// The webhooks, and the service whose clock gives the present time for the age of events.
#[derive(Debug)]
pub(crate) struct WebhookCounters {
    pub(crate) webhooks: Webhooks,
    pub(crate) service: SubscriptionService,
}

/// A gauge of an endpoint: its name, its help text, and its number.
type Gauge = (&'static str, &'static str, fn(&SendingState, Timestamp) -> f64);

#[rustfmt::skip] // Keeps each row on one line.
const GAUGES: [Gauge; 4] = [
    ("webhook_lag_events", "Events after an endpoint's cursor (all up to the cursor are delivered or parked)", |state, _| number(state.lag_events)),
    ("webhook_lag_seconds", "The age of the oldest event that is neither delivered nor parked; 0 if none",
        |state, now| state.waiting_since.map_or(0.0, |at| now.since(at).as_secs_f64())),
    ("webhook_parked", "Parked events (failed, or behind a failed event) that will be attempted", |state, _| number(state.parked as u64)),
    ("webhook_stalled", "1 if the endpoint keeps failing, so only its oldest event is attempted", |state, _| f64::from(u8::from(state.is_stalled))),
];

/// A count as the value of a gauge. A count above `u32::MAX` is shown as `u32::MAX`.
fn number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

impl Collector for WebhookCounters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all_counters = self.webhooks.counters();
        let now = self.service.now();
        counts(&all_counters, &mut encoder)?;
        seconds(&all_counters, &mut encoder)?;
        for (name, help, value) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (endpoint, counters) in &all_counters.endpoints {
                if let Some(state) = &counters.state {
                    let labels = [("endpoint", endpoint.to_string())];
                    ConstGauge::new(value(state, now)).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        let help = "Delivery attempts that are running";
        let gauge =
            encoder.encode_descriptor("webhook_in_flight", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(all_counters.in_flight).unwrap_or(i64::MAX)).encode(gauge)
    }
}

fn counts(all_counters: &AllCounters, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let outcomes = all_counters.endpoints.iter().flat_map(|(endpoint, counters)| {
        let of_endpoint = counters.outcomes.iter();
        of_endpoint.map(move |(outcome, count)| {
            ([("endpoint", endpoint.to_string()), ("outcome", (*outcome).to_owned())], *count)
        })
    });
    let help = "Attempts to deliver an event to an endpoint, by outcome";
    super::counts(encoder, "webhook_deliveries", help, outcomes)?;
    let given_up = all_counters
        .endpoints
        .iter()
        .map(|(endpoint, counters)| ([("endpoint", endpoint.to_string())], counters.given_up));
    let help = "Events that were given up after their last attempt";
    super::counts(encoder, "webhook_given_up", help, given_up)?;
    // A time series that begins at 1 shows no increase, so every reason begins at 0.
    let disabled = DisabledReason::ALL.into_iter().map(|reason| {
        let count = all_counters.disabled.get(&reason).copied().unwrap_or_default();
        ([("reason", reason.as_str())], count)
    });
    let help = "Endpoints that the server disabled, by reason";
    super::counts(encoder, "webhook_disabled", help, disabled)
}

fn seconds(all_counters: &AllCounters, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let name = "webhook_delivery_seconds";
    let help = "How long attempts to deliver an event took";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let bounds = Counters::MILLIS.map(|millis| Duration::from_millis(millis).as_secs_f64());
    for (endpoint, counters) in &all_counters.endpoints {
        let buckets: Vec<_> =
            bounds.into_iter().chain([f64::INFINITY]).zip(counters.durations).collect();
        let sum = counters.took.as_secs_f64();
        let count = counters.durations.iter().sum();
        let labels = [("endpoint", endpoint.to_string())];
        let mut histogram = family.encode_family(&labels)?;
        histogram.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}
