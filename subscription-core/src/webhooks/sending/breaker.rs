//! The decision after each failure of an endpoint: park the event, stall the endpoint or disable it.

use std::time::Duration;

use super::outcome::DeliveryResult;
use crate::values::Timestamp;
use crate::webhooks::{Delivery, DisabledReason, Stall, StallReason};

/// The number of events that fail, one after the other, until the endpoint is stalled.
const FAILURES_MAX: usize = 5;
/// The largest number of parked events of an endpoint.
pub const PARKED_MAX: usize = 100;
/// The time without a success after which an endpoint is disabled.
const FAILING_MAX: Duration = Duration::from_hours(5 * 24);

/// The failures of an endpoint since its last success.
#[derive(Debug, Clone, Default)]
pub struct Breaker {
    failing_since: Option<Timestamp>,
    stall: Option<Stall>,
    /// The sequences of the events that failed: each counts once. A stalled endpoint needs none.
    failed: Vec<u64>,
}

/// The decision after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerDecision {
    /// Park the event, or leave it parked; the endpoint is sent other events.
    Park,
    /// The endpoint is stalled. An event that is not parked yet stays before the cursor.
    Stall(StallReason),
    /// Disable the endpoint.
    Disable(DisabledReason),
}

impl Breaker {
    /// The state that was stored.
    pub fn new(delivery: &Delivery) -> Self {
        let Delivery { failing_since, stall, .. } = delivery;
        Self { failing_since: *failing_since, stall: stall.clone(), failed: Vec::new() }
    }

    /// Writes the state into the document.
    pub fn store(&self, delivery: &mut Delivery) {
        delivery.failing_since = self.failing_since;
        delivery.stall.clone_from(&self.stall);
    }

    /// The stall, if the endpoint is stalled.
    pub const fn stall(&self) -> Option<&Stall> {
        self.stall.as_ref()
    }

    /// Notes a success. It returns the stall that it ends: what is parked is due then.
    pub fn succeeded(&mut self) -> Option<Stall> {
        std::mem::take(self).stall
    }

    /// Notes a failure and decides. `parked` is the number of parked events besides this one.
    ///
    /// After [`BreakerDecision::Stall`], set the time of the next try with [`Breaker::probe_at`]: until then it is `at`.
    pub fn failed(
        &mut self,
        sequence: u64,
        at: Timestamp,
        outcome: &DeliveryResult,
        parked: usize,
    ) -> BreakerDecision {
        if outcome.is_gone() {
            return BreakerDecision::Disable(DisabledReason::Gone);
        }
        let since = *self.failing_since.get_or_insert(at);
        if at.since(since) >= FAILING_MAX {
            return BreakerDecision::Disable(DisabledReason::Failing);
        }
        if let Some(stall) = &mut self.stall {
            stall.probes = stall.probes.saturating_add(1);
            return BreakerDecision::Stall(stall.reason);
        }
        if !self.failed.contains(&sequence) {
            self.failed.push(sequence);
        }
        let reason = if self.failed.len() >= FAILURES_MAX {
            StallReason::Failing
        } else if parked >= PARKED_MAX {
            StallReason::ParkedFull
        } else {
            return BreakerDecision::Park;
        };
        self.stall = Some(Stall { since: at, reason, probes: 0, next_at: at });
        BreakerDecision::Stall(reason)
    }

    /// Stalls the endpoint, or ends its stall, for another reason than the outcome of a try.
    pub fn set_stall(&mut self, stall: Option<Stall>) {
        self.stall = stall;
    }

    /// Sets the time of the next try of a stalled endpoint.
    pub fn probe_at(&mut self, next_at: Timestamp) {
        if let Some(stall) = &mut self.stall {
            stall.next_at = next_at;
        }
    }
}
