//! The interface that `/clock` calls: a clock that callers can move forward.

use std::fmt;

use async_trait::async_trait;
use serde::Serialize;
use subscription_core::{Error, Timestamp};

/// A clock that callers can move forward, for development.
#[async_trait]
pub trait TurnedClock: Send + Sync + fmt::Debug {
    /// The present time of this clock.
    fn now(&self) -> Timestamp;

    /// Moves the clock forward to `to`. Each step, such as a renewal, is made when the clock has the time at which the
    /// step is due. If the steps take longer than 20 seconds, the call returns before the clock has the time `to`; then
    /// the caller repeats the call.
    async fn advance(&self, to: Timestamp, payments: PaymentReports) -> Result<Advanced, Error>;
}

/// The result that is reported for each payment that becomes due while a clock is moved forward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PaymentReports {
    /// No report: the payments stay open.
    #[default]
    Leave,
    /// Each payment succeeds when it is due.
    Succeed,
    /// Each payment fails when it is due.
    Fail,
}

/// The result of [`TurnedClock::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Advanced {
    /// The time that the clock shows.
    pub now: Timestamp,
    /// The number of steps that became due during this move of the clock and were made.
    pub steps: u64,
    /// False if the steps took too long for one call; then call `advance` again with the same time.
    pub done: bool,
}
