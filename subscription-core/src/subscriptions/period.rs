//! The periods of a subscription: where each begins and ends.
//!
//! Every period is counted from the anchor, never from the period before it: 31 January, monthly,
//! gives 28 February and then 31 March again. The day is clamped to the month's last. All in UTC.

#![warn(clippy::arithmetic_side_effects)]

use chrono::{DateTime, Datelike, Days, Months, Utc};

use crate::plans::{BillingCycle, CycleUnit};
use crate::values::clock::Timestamp;

/// The grid of a subscription's periods.
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

/// One period: from its start up to, but without, its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Counted from 0, which starts at the anchor.
    pub number: u32,
    /// Its first moment.
    pub starts_at: Timestamp,
    /// The first moment of the next one; `None` if there is none (paid once, or the end of time).
    pub ends_at: Option<Timestamp>,
}

impl Schedule {
    /// The periods of `cycle` counted from `anchor_at`.
    pub const fn new(anchor_at: Timestamp, cycle: BillingCycle) -> Self {
        Self { anchor_at, cycle }
    }

    /// Where period `number` starts: the anchor and so many cycles.
    ///
    /// `None` beyond the year 9999, and for all but the first of what is paid once.
    pub fn start_of(&self, number: u32) -> Option<Timestamp> {
        if number == 0 {
            return Some(self.anchor_at);
        }
        // Without its zone, whose offset chrono would ask for twice.
        let anchor = DateTime::<Utc>::from(self.anchor_at).naive_utc();
        let (unit, count) = self.cycle.length()?;
        let units = u32::from(count).checked_mul(number)?;
        let start = match unit {
            CycleUnit::Day => anchor.checked_add_days(Days::new(u64::from(units))),
            CycleUnit::Week => anchor.checked_add_days(Days::new(u64::from(units).checked_mul(7)?)),
            CycleUnit::Month => anchor.checked_add_months(Months::new(units)),
            CycleUnit::Year => anchor.checked_add_months(Months::new(units.checked_mul(12)?)),
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

    /// The start of the period that ends at `at` where a period starts there, else of the one in which
    /// `at` lies. The period before the anchor counts too; what is paid once has none.
    pub fn last_before(&self, at: Timestamp) -> Option<Timestamp> {
        // Every subscription is shown in its first period once.
        if self.start_of(1) == Some(at) {
            return Some(self.anchor_at);
        }
        let (number, starts_at) = self.last_start(at)?;
        if starts_at < at {
            return Some(starts_at);
        }
        match number.checked_sub(1) {
            Some(before) => self.start_of(before),
            None => self.cycle_before_anchor(),
        }
    }

    fn cycle_before_anchor(&self) -> Option<Timestamp> {
        let anchor = DateTime::<Utc>::from(self.anchor_at).naive_utc();
        let (unit, count) = self.cycle.length()?;
        let count = u32::from(count);
        let start = match unit {
            CycleUnit::Day => anchor.checked_sub_days(Days::new(count.into())),
            CycleUnit::Week => anchor.checked_sub_days(Days::new(u64::from(count).checked_mul(7)?)),
            CycleUnit::Month => anchor.checked_sub_months(Months::new(count)),
            CycleUnit::Year => anchor.checked_sub_months(Months::new(count.checked_mul(12)?)),
        };
        Timestamp::try_from(start?.and_utc()).ok()
    }

    /// True if a period starts at `at`.
    pub fn starts_at(&self, at: Timestamp) -> bool {
        self.last_start(at).is_some_and(|(_, starts_at)| starts_at == at)
    }

    /// The last period that starts at `at` or before, by its number and its start.
    fn last_start(&self, at: Timestamp) -> Option<(u32, Timestamp)> {
        if at < self.anchor_at {
            return None;
        }
        let Some((unit, count)) = self.cycle.length() else { return Some((0, self.anchor_at)) };
        let (from, to): (DateTime<Utc>, DateTime<Utc>) = (self.anchor_at.into(), at.into());
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
        // Calendar units were counted without looking at the day and the hour.
        if let Some(start) = self.start_of(number).filter(|start| *start <= at) {
            return Some((number, start));
        }
        let before = number.checked_sub(1)?;
        Some((before, self.start_of(before)?))
    }
}
