//! Counts of deliveries since the start of the process, for metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::documents::{DisabledReason, EndpointId};
use super::sending::outcome::Tried;
use crate::values::{Timestamp, locked};

/// The counts of all deliveries since the start of the process, and the present state of sending.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AllCounters {
    /// The counts of each endpoint.
    pub endpoints: BTreeMap<EndpointId, Counters>,
    /// The number of endpoints that the sending job has disabled, by reason.
    pub disabled: BTreeMap<DisabledReason, u64>,
    /// The number of deliveries that are being sent now (tries in flight).
    pub in_flight: usize,
}

/// The counts of an endpoint.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Counters {
    /// The number of tries, by the [name](super::DeliveryResult::name) of the outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// The number of tries by duration. A try is counted at the first bound of [`Counters::MILLIS`] that its duration
    /// does not exceed; the last number counts the tries that took longer than the last bound.
    pub durations: [u64; Counters::MILLIS.len() + 1],
    /// The total duration of all tries.
    pub took: Duration,
    /// The number of events that were given up after their last try failed.
    pub given_up: u64,
    /// The present state of sending; `None` if this process does not send.
    pub state: Option<SendingState>,
}

/// The present state of sending to an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendingState {
    /// The number of events of the feed after the endpoint's cursor (its position in the feed).
    pub lag_events: u64,
    /// The time of the oldest event that waits for delivery and is not parked (stored, to be sent later); `None` if no
    /// such event waits.
    pub waiting_since: Option<Timestamp>,
    /// The number of parked events that will be tried again.
    pub parked: usize,
    /// True if the endpoint is [stalled](super::Stall): several events failed, or the maximum number of events is
    /// parked, so most events must wait.
    pub is_stalled: bool,
}

impl Counters {
    /// The upper bounds of the ranges by which durations are counted, in milliseconds.
    pub const MILLIS: [u64; 9] = [5, 10, 25, 50, 100, 500, 1_000, 5_000, 15_000];
}

/// The counts that the sending job and the metrics share.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedCounters(Arc<Mutex<AllCounters>>);

impl SharedCounters {
    pub(super) fn lock(&self) -> MutexGuard<'_, AllCounters> {
        locked(&self.0)
    }

    pub(super) fn tried(&self, endpoint: EndpointId, tried: &Tried) {
        let mut all_counters = self.lock();
        let counters = all_counters.endpoints.entry(endpoint).or_default();
        *counters.outcomes.entry(tried.outcome.name()).or_default() += 1;
        counters.took += tried.took;
        let bounds = Counters::MILLIS.iter().map(|millis| Duration::from_millis(*millis));
        let nth = bounds.take_while(|bound| tried.took > *bound).count();
        if let Some(count) = counters.durations.get_mut(nth) {
            *count += 1;
        }
    }

    pub(super) fn given_up(&self, endpoint: EndpointId) {
        self.lock().endpoints.entry(endpoint).or_default().given_up += 1;
    }

    /// Sets the present state of an endpoint, which metrics show.
    pub(super) fn show(&self, endpoint: EndpointId, state: SendingState) {
        self.lock().endpoints.entry(endpoint).or_default().state = Some(state);
    }

    /// Removes the present state of all endpoints: this process no longer sends.
    pub(super) fn hide(&self) {
        let mut all_counters = self.lock();
        all_counters.in_flight = 0;
        for counters in all_counters.endpoints.values_mut() {
            counters.state = None;
        }
    }
}
