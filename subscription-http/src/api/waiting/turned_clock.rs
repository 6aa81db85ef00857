//! The port behind `/clock`: a clock that callers can turn.

use std::fmt;

use async_trait::async_trait;
use serde::Serialize;
use subscription_core::{Error, Timestamp};

/// A clock that callers can turn forwards, for development.
#[async_trait]
pub trait TurnedClock: Send + Sync + fmt::Debug {
    /// The present moment by this clock.
    fn now(&self) -> Timestamp;

    /// Turns the clock to `to`, and does what falls due on the way, each at its own moment. It may return
    /// unfinished, within 20 seconds: then it is called again.
    async fn advance(&self, to: Timestamp, payments: PaymentReports) -> Result<Advanced, Error>;
}

/// The report of payments that fall due while a clock is turned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PaymentReports {
    /// Nothing: they stay open.
    #[default]
    Leave,
    /// Each succeeds when it is due.
    Succeed,
    /// Each fails when it is due.
    Fail,
}

/// The outcome of an advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Advanced {
    /// The time that the clock shows.
    pub now: Timestamp,
    /// The number of steps that were due on the way and were taken.
    pub steps: u64,
    /// False if there was too much to do for one call.
    pub done: bool,
}
