//! The port behind `/clock`: a clock that callers can turn.

use std::fmt;

use async_trait::async_trait;
use serde::Serialize;
use subscription_core::{Error, Timestamp};

/// A clock that callers can turn forwards, for development.
#[async_trait]
pub trait TurnedClock: Send + Sync + fmt::Debug {
    /// The present time of this clock.
    fn now(&self) -> Timestamp;

    /// Turns the clock to `to`. Each step that becomes due on the way is made at the time when it is due. The call may
    /// return after 20 seconds although not everything is done; then the caller repeats it.
    async fn advance(&self, to: Timestamp, payments: PaymentReports) -> Result<Advanced, Error>;
}

/// The report for payments that become due while a clock is turned.
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
    /// The number of steps that became due on the way and were made.
    pub steps: u64,
    /// False if there was too much to do for one call; then call it again.
    pub done: bool,
}
