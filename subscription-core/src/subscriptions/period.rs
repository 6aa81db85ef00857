//! The periods of a subscription: when each begins and ends.
//!
//! Every period is counted from one fixed moment (the anchor), never from the period before it. So a monthly
//! subscription that begins on 31 January renews on 28 February and then on 31 March. A day that a month lacks becomes
//! its last day. All times are in UTC.

#![warn(clippy::arithmetic_side_effects)]

use chrono::{DateTime, Datelike, Months, TimeDelta, Utc};

use crate::plans::{BillingCycle, CycleUnit, Span};
use crate::values::Timestamp;

/// The periods of a subscription: those of a billing cycle, counted from an anchor.
///
/// ```
/// use subscription_core::{BillingCycle, Schedule};
///
/// let schedule = Schedule::new("2025-01-31T00:00:00Z".parse()?, BillingCycle::MONTHLY);
/// let starts: Vec<_> = (0..4).filter_map(|k| schedule.start_of(k)).map(|t| t.to_string()).collect();
/// assert_eq!(starts, [
///     "2025-01-31T00:00:00.000000Z",
///     "2025-02-28T00:00:00.000000Z",
///     "2025-03-31T00:00:00.000000Z",
///     "2025-04-30T00:00:00.000000Z",
/// ]);
/// # Ok::<(), subscription_core::InvalidValue>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    anchor_at: Timestamp,
    cycle: BillingCycle,
}

/// One period: from its start until its end, which is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The number of the period. Period 0 starts at the anchor.
    pub number: u32,
    /// The first moment of the period.
    pub starts_at: Timestamp,
    /// The first moment of the next period; `None` if there is none, because the plan is paid once, or because the next
    /// period would start after the year 9999.
    pub ends_at: Option<Timestamp>,
}

impl Schedule {
    /// The periods of `cycle` counted from `anchor_at`.
    pub const fn new(anchor_at: Timestamp, cycle: BillingCycle) -> Self {
        Self { anchor_at, cycle }
    }

    /// The start of period `number`: the anchor plus this number of cycles.
    ///
    /// `None` if this is after the year 9999. If the billing cycle is one-time, there is only period 0.
    pub fn start_of(&self, number: u32) -> Option<Timestamp> {
        if number == 0 { Some(self.anchor_at) } else { self.moved(i64::from(number)) }
    }

    /// The anchor moved by a number of cycles, forwards or backwards.
    fn moved(&self, cycles: i64) -> Option<Timestamp> {
        // The time has no zone, because chrono is faster without one: with a zone, it would look up the offset of the
        // zone twice.
        let anchor = DateTime::<Utc>::from(self.anchor_at).naive_utc();
        let (unit, count) = self.cycle.length()?;
        let units = i64::from(count).checked_mul(cycles)?;
        let by_days = |days| anchor.checked_add_signed(TimeDelta::try_days(days)?);
        let by_months = |months: i64| {
            let span = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
            if months < 0 {
                anchor.checked_sub_months(span)
            } else {
                anchor.checked_add_months(span)
            }
        };
        let start = match unit {
            CycleUnit::Day => by_days(units),
            CycleUnit::Week => by_days(units.checked_mul(7)?),
            CycleUnit::Month => by_months(units),
            CycleUnit::Year => by_months(units.checked_mul(12)?),
        };
        Timestamp::try_from(start?.and_utc()).ok()
    }

    /// The period in which `at` lies; `None` before the anchor.
    pub fn period_at(&self, at: Timestamp) -> Option<Period> {
        let (number, starts_at) = self.last_start(at)?;
        let ends_at = number.checked_add(1).and_then(|next| self.start_of(next));
        Some(Period { number, starts_at, ends_at })
    }

    /// The first start of a period after `at`.
    pub fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        match self.period_at(at) {
            Some(period) => period.ends_at,
            None => Some(self.anchor_at),
        }
    }

    /// The start of the period that ends at `at`, or else of the period in which `at` lies. If `at` is the anchor, the
    /// result is the moment one cycle before the anchor. `None` if `at` is before the anchor, or if `at` is the anchor
    /// and the plan is paid once.
    pub fn last_before(&self, at: Timestamp) -> Option<Timestamp> {
        // The end of the first period is checked first: the check is cheap, and every subscription is in its first
        // period at some time.
        if self.start_of(1) == Some(at) {
            return Some(self.anchor_at);
        }
        let (number, starts_at) = self.last_start(at)?;
        if starts_at < at {
            return Some(starts_at);
        }
        match number.checked_sub(1) {
            Some(before) => self.start_of(before),
            None => self.moved(-1),
        }
    }

    /// True if a period starts at `at`.
    pub fn starts_at(&self, at: Timestamp) -> bool {
        self.last_start(at).is_some_and(|(_, starts_at)| starts_at == at)
    }

    /// The number and the start of the last period that starts at `at` or before.
    fn last_start(&self, at: Timestamp) -> Option<(u32, Timestamp)> {
        if at < self.anchor_at {
            return None;
        }
        let Some((unit, count)) = self.cycle.length() else { return Some((0, self.anchor_at)) };
        let from: DateTime<Utc> = self.anchor_at.into();
        let to: DateTime<Utc> = at.into();
        let days = || to.signed_duration_since(from).num_days();
        let years = || i64::from(to.year()).checked_sub(i64::from(from.year()));
        let months = || {
            let within = i64::from(to.month()).checked_sub(i64::from(from.month()))?;
            years()?.checked_mul(12)?.checked_add(within)
        };
        let units = match unit {
            CycleUnit::Day => days(),
            CycleUnit::Week => days().checked_div(7)?,
            CycleUnit::Month => months()?,
            CycleUnit::Year => years()?,
        };
        let number = u32::try_from(units.checked_div(i64::from(count))?).ok()?;
        // Months and years were counted without regard to the day and the hour, so the number may be one too high.
        if let Some(start) = self.start_of(number).filter(|start| *start <= at) {
            return Some((number, start));
        }
        let before = number.checked_sub(1)?;
        Some((before, self.start_of(before)?))
    }
}

impl Span {
    /// The moment that lies one span after `at`; `None` beyond the year 9999.
    pub fn after(self, at: Timestamp) -> Option<Timestamp> {
        Schedule::new(at, self.cycle()).moved(1)
    }

    /// The moment that lies one span before `at`; `None` before the year 1.
    pub fn before(self, at: Timestamp) -> Option<Timestamp> {
        Schedule::new(at, self.cycle()).moved(-1)
    }
}
