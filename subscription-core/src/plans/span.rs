//! Spans of days, weeks, months or years, such as trials.

use std::str::FromStr;

use super::billing_cycle::{CycleUnit, duration};
use crate::plans::BillingCycle;
use crate::values::InvalidValue;
use crate::values::as_text::written_as_text;

/// A number of days, weeks, months or years, written as an ISO 8601 duration of one unit: `P14D`.
///
/// ```
/// use subscription_core::plans::Span;
///
/// let trial: Span = "P14D".parse()?;
/// assert_eq!(trial.to_string(), "P14D");
/// let end = trial.after("2025-01-31T10:00:00Z".parse()?);
/// assert_eq!(end, Some("2025-02-14T10:00:00Z".parse()?));
/// # Ok::<(), subscription_core::InvalidValue>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
// The billing cycle of the same length, which is never `one_time`.
pub struct Span(BillingCycle);

impl Span {
    /// A number of units: at least one, at most a hundred years.
    pub fn new(count: u16, unit: CycleUnit) -> Result<Self, InvalidValue> {
        BillingCycle::every(count, unit).map(Self)
    }

    /// The billing cycle of the same length.
    pub const fn cycle(self) -> BillingCycle {
        self.0
    }

    fn text(self) -> String {
        self.0
            .length()
            .map_or_else(String::new, |(unit, count)| format!("P{count}{}", unit.letter()))
    }
}

impl FromStr for Span {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let message = "must be an ISO 8601 duration of one unit such as P14D or P1M";
        let cycle = duration(text.trim()).unwrap_or_else(|| Err(InvalidValue::bad_format(message)));
        cycle.map(Self)
    }
}

written_as_text!(Span, |span| &span.text());
