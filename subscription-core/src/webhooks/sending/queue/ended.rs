//! The end of a try: the event is delivered, parked or given up, and the endpoint may be stalled or disabled.

use std::sync::Arc;

use super::{EndpointQueue, NextDelivery};
use crate::events::RecordedEvent;
use crate::values::Timestamp;
use crate::webhooks::sending::breaker::BreakerDecision;
use crate::webhooks::sending::outcome::Tried;
use crate::webhooks::sending::retry_schedule::{PerMille, next_probe, next_try};
use crate::webhooks::sending::window::End;
use crate::webhooks::{Attempt, Delivery, Disabled, DisabledReason, Stall, StallReason};

impl EndpointQueue {
    /// Ends a try that is not counted, or that did not begin.
    pub(crate) fn put_back(&mut self, next: &NextDelivery) {
        if next.is_parked {
            self.parked.put_back(next.event.sequence);
        } else {
            self.window.ended(next.event.sequence, End::Again);
        }
    }

    /// Ends a try and records its outcome. Returns true if the event was given up.
    pub(crate) fn ended(&mut self, next: &NextDelivery, tried: Tried, jitter: PerMille) -> bool {
        let Tried { outcome, at, took } = tried;
        let attempt = Attempt {
            at,
            sequence: next.event.sequence,
            event_type: next.event.event.name().into(),
            attempt: next.attempt,
            outcome,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        self.changed(at);
        self.outcomes += 1;
        self.delivery.body.recent.push_front(attempt.clone());
        self.delivery.body.recent.truncate(Delivery::RECENT_MAX);
        if attempt.outcome.is_delivered() {
            self.delivered(next, at);
            false
        } else {
            self.failed(next, attempt, jitter)
        }
    }

    fn delivered(&mut self, next: &NextDelivery, at: Timestamp) {
        self.delivery.body.last_success_at = Some(at);
        let sequence = next.event.sequence;
        if next.is_parked {
            if let Some(subject) = self.parked.delivered(sequence, at) {
                self.window.unblock(&subject);
            }
        } else {
            self.window_ended(sequence, End::Delivered);
        }
        self.park_behind(at);
        let Some(stall) = self.breaker.succeeded() else { return };
        if stall.reason == StallReason::Failing {
            self.parked.all_due(at);
        }
        if self.unparked.is_empty() {
            tracing::info!(endpoint = %self.id(), "a webhook endpoint accepts events again");
        } else {
            // There is still no room to park the events that wait behind others. So the endpoint stays stalled, and
            // one event is tried at a time.
            let reason = StallReason::ParkedFull;
            self.breaker.set_stall(Some(Stall { reason, probes: 0, next_at: at, ..stall }));
        }
    }

    /// Records a failure. Returns true if the event was given up.
    fn failed(&mut self, next: &NextDelivery, attempt: Attempt, jitter: PerMille) -> bool {
        self.log(&attempt);
        let sequence = attempt.sequence;
        let at = attempt.at;
        let before = self.stall().map(|stall| stall.reason);
        // While an endpoint is stalled, a failure counts against the endpoint only if the try was the probe, or if the
        // status is 410. The events of other tries are put back, to be tried again. But if the endpoint is stalled
        // because too many events are parked, the failed try of a parked event counts as a try of this event.
        if before.is_some() && !next.is_probe && !attempt.outcome.is_gone() {
            if next.is_parked && before == Some(StallReason::ParkedFull) {
                return self.try_later(attempt, jitter);
            }
            self.put_back(next);
            return false;
        }
        let others = self.parked.open().saturating_sub(usize::from(next.is_parked));
        match self.breaker.failed(sequence, at, &attempt.outcome, others) {
            BreakerDecision::Park if next.is_parked => return self.try_later(attempt, jitter),
            BreakerDecision::Park => {
                let next_at = next_try(1, at, &attempt.outcome, jitter).unwrap_or(at);
                self.parked.park(&next.event, Some((attempt, next_at)), at);
                let behind = self.window_ended(sequence, End::Parked);
                self.unparked.extend(behind);
                self.park_behind(at);
            }
            BreakerDecision::Stall(_) => {
                self.put_back(next);
                if let Some(stall) = self.stall().cloned() {
                    let next_at = next_probe(stall.probes, at, &attempt.outcome, jitter);
                    if before.is_none() {
                        self.stalled(stall);
                    }
                    self.breaker.probe_at(next_at);
                }
            }
            BreakerDecision::Disable(reason) => {
                self.put_back(next);
                self.disable(reason, at);
            }
        }
        false
    }

    /// Sets when a parked event is tried next. Returns true if the event is given up instead.
    fn try_later(&mut self, attempt: Attempt, jitter: PerMille) -> bool {
        let sequence = attempt.sequence;
        let at = attempt.at;
        let next_at = next_try(attempt.attempt, at, &attempt.outcome, jitter);
        if let Some(subject) = self.parked.failed(attempt, next_at) {
            self.window.unblock(&subject);
        }
        self.park_behind(at);
        if next_at.is_none() {
            tracing::warn!(endpoint = %self.id(), sequence, "a webhook event is given up");
        }
        next_at.is_none()
    }

    /// Ends a try of an event in the window. Returns the later events that must be parked behind it.
    fn window_ended(&mut self, sequence: u64, end: End) -> Vec<Arc<RecordedEvent>> {
        self.unparked.retain(|event| event.sequence != sequence);
        self.window.ended(sequence, end)
    }

    pub(super) fn stalled(&mut self, stall: Stall) {
        let reason = stall.reason;
        tracing::warn!(endpoint = %self.id(), %reason, "a webhook endpoint is stalled");
        self.changed(stall.since);
        self.breaker.set_stall(Some(stall));
    }

    pub(super) fn disable(&mut self, reason: DisabledReason, at: Timestamp) {
        tracing::error!(endpoint = %self.id(), %reason, "a webhook endpoint is disabled");
        let endpoint = &mut self.endpoint.body;
        endpoint.disabled = Some(Disabled { reason, at });
        endpoint.updated_at = at;
        self.endpoint_changed = true;
        self.changed(at);
    }

    fn log(&self, Attempt { sequence, attempt, outcome, duration_ms, .. }: &Attempt) {
        let id = self.id();
        let name = outcome.name();
        let status = outcome.status();
        let url = self.signing.as_ref().map(|signing| signing.shown_url());
        tracing::warn!(endpoint = %id, url, sequence, attempt, outcome = name, status, duration_ms, "a webhook delivery failed");
    }
}
