//! The circuit breaker of an endpoint: after each failure it decides whether to park the event, or to stall or disable
//! the endpoint.

use std::time::Duration;

use super::outcome::DeliveryResult;
use crate::values::Timestamp;
use crate::webhooks::{Delivery, DisabledReason, Stall, StallReason};

/// The number of different events that must fail without a success between them until the endpoint is stalled.
const FAILURES_MAX: usize = 5;
/// The maximum number of parked events of an endpoint, without those that were given up.
pub const PARKED_MAX: usize = 100;
/// The time without a success after which an endpoint is disabled.
const FAILING_MAX: Duration = Duration::from_hours(5 * 24);

/// The failures of an endpoint since its last success.
#[derive(Debug, Clone, Default)]
pub struct Breaker {
    failing_since: Option<Timestamp>,
    stall: Option<Stall>,
    /// The sequences of the events that failed since the last success, each once. This list is not used while the
    /// endpoint is stalled.
    failed: Vec<u64>,
}

/// The decision after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerDecision {
    /// Park the event, or leave it parked. Other events are still sent to the endpoint.
    Park,
    /// Stall the endpoint: only single events are sent to it, as probes. The event that failed is not skipped. It is
    /// sent again later, or stays parked if it is parked already.
    Stall(StallReason),
    /// Disable the endpoint.
    Disable(DisabledReason),
}

impl Breaker {
    /// Reads the state from the stored document.
    pub fn new(delivery: &Delivery) -> Self {
        let Delivery { failing_since, stall, .. } = delivery;
        Self { failing_since: *failing_since, stall: stall.clone(), failed: Vec::new() }
    }

    /// Writes the state to the document.
    pub fn store(&self, delivery: &mut Delivery) {
        delivery.failing_since = self.failing_since;
        delivery.stall.clone_from(&self.stall);
    }

    /// The stall; `None` if the endpoint is not stalled.
    pub const fn stall(&self) -> Option<&Stall> {
        self.stall.as_ref()
    }

    /// Records a successful delivery. If the endpoint was stalled, the stall ends and is returned. If the reason of
    /// this stall is [`StallReason::Failing`], the caller must make the parked events due.
    pub fn succeeded(&mut self) -> Option<Stall> {
        std::mem::take(self).stall
    }

    /// Records a failure and returns the decision. `parked` is the number of parked events of the endpoint that will be
    /// tried again, without the event that failed now.
    ///
    /// After [`BreakerDecision::Stall`], call [`Breaker::probe_at`] to set the time of the next probe. Until that call,
    /// the next probe of a new stall is due at `at`.
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

    /// Starts or ends a stall for a reason other than the outcome of a try; `None` ends it.
    pub fn set_stall(&mut self, stall: Option<Stall>) {
        self.stall = stall;
    }

    /// Sets the time of the next probe of a stalled endpoint.
    pub fn probe_at(&mut self, next_at: Timestamp) {
        if let Some(stall) = &mut self.stall {
            stall.next_at = next_at;
        }
    }
}
