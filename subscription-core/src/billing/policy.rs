//! The billing policy: the settings that an operator chooses for all subscriptions.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use crate::plans::{CycleUnit, Span};
use crate::values::as_text::named_enum;
use crate::values::{Bounded, FaultCode, InvalidValue, Timestamp};
use crate::with_fields;

/// How long a subscription waits for its first payment before it expires. A change of plan that a subscriber chose
/// waits just as long for its payment, and is then dropped.
pub(super) const LAPSES_AFTER: Duration = Duration::from_hours(23);

/// The billing policy. A changed policy applies to a subscription from its next write on; times that are already
/// stored stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Policy {
    /// The spans after which a failed payment is tried again, each counted from the previous failure.
    pub dunning: Dunning,
    /// The state of a subscription once no retry is left.
    pub after_dunning: AfterDunning,
    /// When a subscription becomes active.
    pub activation: Activation,
    /// How long before a renewal, or before the end of a trial, the subscriber is reminded; `None` (as text `off`):
    /// never.
    #[serde(deserialize_with = "span_or_off")]
    pub remind_before: Option<Span>,
    /// The largest number of missed periods for which payments are created later; older missed periods get no payment.
    pub missed_periods_max: Bounded<366>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            dunning: Dunning::default(),
            after_dunning: AfterDunning::default(),
            activation: Activation::default(),
            remind_before: days(3),
            missed_periods_max: Bounded::new(3).unwrap_or_default(),
        }
    }
}

with_fields! {
    Policy {
        with_dunning(Dunning) => dunning,
        with_after_dunning(AfterDunning) => after_dunning,
        with_activation(Activation) => activation,
        with_remind_before(impl Into<Option<Span>>) => remind_before,
        with_missed_periods_max(Bounded<366>) => missed_periods_max,
    }
}

named_enum! {
    /// The state of a subscription once no retry of a failed payment is left.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub enum AfterDunning {
        /// The subscription is `unpaid`: it grants no access until it is paid.
        #[default]
        Unpaid = "unpaid",
        /// The subscription ends.
        Expired = "expired",
    }
}

named_enum! {
    /// When a subscription becomes active.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub enum Activation {
        /// At the start of the subscription.
        #[default]
        AtStart = "at_start",
        /// When the first payment of the subscription is made, or at its start if there is nothing to pay. The
        /// subscription expires if 23 hours after its start this payment is neither made nor being processed.
        OnPayment = "on_payment",
    }
}

/// The spans after which a failed payment is tried again: at most 15.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Span>")]
pub struct Dunning(Vec<Span>);

impl Dunning {
    /// The largest number of retries.
    pub const MAX: usize = 15;

    /// The time before the next retry of a payment that was retried `retries` times; `None` if no retry is left.
    pub fn next(&self, retries: u32) -> Option<Span> {
        self.0.get(usize::try_from(retries).ok()?).copied()
    }

    /// When the last retry of a payment is due, if it fails at `at` and at each retry.
    pub(super) fn ends_at(&self, at: Timestamp) -> Timestamp {
        self.0.iter().try_fold(at, |at, span| span.after(at)).unwrap_or(at)
    }
}

impl Default for Dunning {
    /// The default: four retries within two weeks, after 1, 3, 5 and 5 days.
    fn default() -> Self {
        Self([1, 3, 5, 5].into_iter().filter_map(days).collect())
    }
}

impl TryFrom<Vec<Span>> for Dunning {
    type Error = InvalidValue;

    fn try_from(spans: Vec<Span>) -> Result<Self, InvalidValue> {
        if spans.len() <= Self::MAX {
            return Ok(Self(spans));
        }
        let message = format!("must have at most {} durations", Self::MAX);
        Err(InvalidValue::new(FaultCode::TooLong, message))
    }
}

fn days(count: u16) -> Option<Span> {
    Span::new(count, CycleUnit::Day).ok()
}

fn span_or_off<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    match Option::<String>::deserialize(from)?.as_deref() {
        None | Some("off") => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|refused: InvalidValue| de::Error::custom(format!("{refused}, or off"))),
    }
}
