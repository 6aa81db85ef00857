//! Months: the number of months in a period, and the part of an amount that falls on one month.
//!
//! Amounts are whole millionths in 128 bits: the largest amount times quantity has 27 digits, and no factor here has
//! more than 11 digits, so no product is too large. Each amount is rounded once, half to even, and then only added.

use std::fmt;

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveTime, Utc};
use serde::{Serialize, Serializer, ser};
use serde_json::value::RawValue;

use crate::payments::{Currency, Payment, PaymentKind};
use crate::plans::{BillingCycle, CycleUnit};
use crate::subscriptions::Quantity;
use crate::values::{Amount, Timestamp};

const MILLION: i128 = 1_000_000;
const DAY: i128 = 86_400 * MILLION;

/// A sum of money, exact to six digits after the point. It is written with at least as many digits after the point as
/// its currency has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Total {
    millionths: i128,
    digits: u32,
}

impl Total {
    pub(super) fn new(millionths: i128, currency: Option<Currency>) -> Self {
        Self { millionths, digits: currency.map_or(0, Currency::digits) }
    }

    /// The sum in millionths.
    pub const fn millionths(self) -> i128 {
        self.millionths
    }

    pub(super) fn add(&mut self, millionths: i128) {
        self.millionths += millionths;
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:06}", self.millionths / MILLION, self.millionths % MILLION);
        let zeros = text.bytes().rev().take_while(|byte| *byte == b'0').count();
        let digits = 6_usize.saturating_sub(zeros).max(self.digits as usize);
        // A number without digits after the point has no point either.
        let end = text.len() - 6 + digits - usize::from(digits == 0);
        f.pad(text.get(..end).unwrap_or(&text))
    }
}

/// Writes the sum as a JSON number with all its digits.
impl Serialize for Total {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = RawValue::from_string(self.to_string()).map_err(ser::Error::custom)?;
        number.serialize(serializer)
    }
}

pub(super) fn millionths(amount: Amount) -> i128 {
    let value = amount.value();
    value.mantissa() * 10_i128.pow(Amount::FRACTION_DIGITS_MAX.saturating_sub(value.scale()))
}

/// The part of price times quantity that falls on a month. A year has 12 months and 365 days. The result is 0 for a
/// price that is paid once.
pub fn monthly(price: Amount, quantity: Quantity, cycle: BillingCycle) -> Total {
    Total::new(by_cycle(millionths(price) * i128::from(quantity.get()), cycle), None)
}

fn by_cycle(value: i128, cycle: BillingCycle) -> i128 {
    let Some((unit, count)) = cycle.length() else { return 0 };
    let (times, by) = match unit {
        CycleUnit::Day => (365, 12),
        CycleUnit::Week => (365, 84),
        CycleUnit::Month => (1, 1),
        CycleUnit::Year => (1, 12),
    };
    rounded(value * times, by * i128::from(count))
}

/// A fraction of whole numbers, rounded half to even; 0 if the denominator is 0.
pub(super) fn rounded(numerator: i128, denominator: i128) -> i128 {
    let Some(whole) = numerator.checked_div(denominator) else { return 0 };
    let rest = 2 * (numerator - whole * denominator);
    whole + i128::from(rest > denominator || rest == denominator && whole % 2 == 1)
}

/// The number of months from `start` to `end` as a fraction: numerator and denominator.
///
/// The number is whole if both moments fall on the same day of the month at the same time of day. If a month lacks
/// that day, its last day counts as that day. Otherwise the number is computed from the time between the moments,
/// with 365 days in 12 months.
pub fn months_between(start: Timestamp, end: Timestamp) -> (i128, i128) {
    let from: DateTime<Utc> = start.into();
    let to: DateTime<Utc> = end.into();
    let whole = number(to) - number(from);
    let day = from.day().max(to.day());
    let falls_on = |at: DateTime<Utc>| at.day() == day.min(at.num_days_in_month().into());
    if whole >= 1 && from.time() == to.time() && falls_on(from) && falls_on(to) {
        return (i128::from(whole), 1);
    }
    (i128::from(end.micros() - start.micros()) * 12, 365 * DAY)
}

/// The number of the month of a moment in microseconds, counted from the year 0.
pub(super) fn month_number(micros: i64) -> i32 {
    number(DateTime::from_timestamp_micros(micros).unwrap_or_default())
}

fn number(at: DateTime<Utc>) -> i32 {
    at.year() * 12 + i32::try_from(at.month0()).unwrap_or(0)
}

/// A month as text, such as `2026-11`.
pub(super) fn month_name(number: i32) -> String {
    format!("{:04}-{:02}", number.div_euclid(12), number.rem_euclid(12) + 1)
}

/// The last microsecond of a month, in microseconds since 1970.
pub(super) fn month_end(number: i32) -> i64 {
    let year = (number + 1).div_euclid(12);
    let month = (number + 1).rem_euclid(12).unsigned_abs();
    let next = NaiveDate::from_ymd_opt(year, month + 1, 1).unwrap_or_default();
    next.and_time(NaiveTime::MIN).and_utc().timestamp_micros() - 1
}

/// The part of a payment that falls on each month of its period, whatever the status of the payment. `None` if the
/// period has no end, or if the payment pays for no period.
///
/// If this service computed the amount, the payment stores the price of the whole period, and this price is used. For
/// any other payment, such as one that a provider collects, the amount itself is used. But for a change of plan the
/// amount is only a difference of two prices, so the result is `None` then.
pub fn worth(payment: &Payment) -> Option<Total> {
    let asked = payment.asked.as_deref()?;
    let end = asked.period_end?;
    let month = if !asked.mirrored && !asked.value.is_zero() {
        by_cycle(millionths(asked.value), asked.cycle)
    } else if asked.kind == PaymentKind::Proration {
        return None;
    } else {
        let (months, by) = months_between(asked.period_start, end);
        rounded(millionths(payment.amount) * by, months)
    };
    Some(Total::new(month, Some(payment.currency)))
}
