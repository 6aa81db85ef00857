//! The outcome of one try to deliver an event.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::values::Timestamp;

/// The outcome of one try. The body of the response is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeliveryResult {
    /// The endpoint returned a status. With a status from 200 to 299 it accepted the event.
    Answered {
        /// The status.
        status: u16,
        /// The delay that the endpoint requested with `Retry-After`. It is not stored, because the time of the next
        /// try already includes it.
        #[serde(skip)]
        retry_after: Option<Duration>,
    },
    /// The endpoint did not respond in time.
    TimedOut,
    /// No connection was made, or it ended before the response.
    Unreachable,
    /// The URL or one of its addresses is not allowed. No connection was made.
    Blocked,
}

/// A try that has ended.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) outcome: DeliveryResult,
    pub(crate) at: Timestamp,
    pub(crate) took: Duration,
}

impl DeliveryResult {
    /// The outcome of a response with this status and without `Retry-After`.
    pub const fn answered(status: u16) -> Self {
        Self::Answered { status, retry_after: None }
    }

    /// The status of the response; `None` if there was no response.
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Answered { status, .. } => Some(*status),
            Self::TimedOut | Self::Unreachable | Self::Blocked => None,
        }
    }

    /// True if the endpoint accepted the event.
    pub fn is_delivered(&self) -> bool {
        self.status().is_some_and(|status| (200..300).contains(&status))
    }

    /// True if the endpoint is permanently gone: it returned the status 410.
    pub fn is_gone(&self) -> bool {
        self.status() == Some(410)
    }

    /// The name of the outcome in metrics, logs and lists.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answered { .. } if self.is_delivered() => "delivered",
            Self::Answered { .. } => "refused",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Blocked => "blocked",
        }
    }
}
