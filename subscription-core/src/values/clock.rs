//! Time: a moment in UTC, and the trait that returns the current one.
//!
//! Moments are cut to the microsecond, the finest resolution that every store has, so that a record read
//! back is equal to the record written.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Timelike, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::values::faults::{FaultCode, InvalidValue};

/// A moment in UTC, in whole microseconds, from 1970 to the end of 9999.
///
/// It reads RFC 3339 with any offset and any fraction, and writes it in UTC with six digits of fraction
/// and a `Z`, so that the order of texts is the order of times.
///
/// ```
/// use subscription_core::Timestamp;
///
/// let at: Timestamp = "2025-01-31T12:00:00.1234567+02:00".parse()?;
/// assert_eq!(at.to_string(), "2025-01-31T10:00:00.123456Z");
/// # Ok::<(), subscription_core::InvalidValue>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const MIN: Self = Self(0);
    /// The last microsecond of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999_999);

    /// The moment so many microseconds after 1970-01-01T00:00:00Z.
    pub fn from_micros(micros: i64) -> Result<Self, InvalidValue> {
        if (Self::MIN.0..=Self::MAX.0).contains(&micros) {
            Ok(Self(micros))
        } else {
            Err(InvalidValue::new(
                FaultCode::OutOfRange,
                "must lie between the years 1970 and 9999 (UTC)",
            ))
        }
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The moment `span` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, span: Duration) -> Self {
        let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(span).min(Self::MAX.0))
    }
}

impl TryFrom<DateTime<Utc>> for Timestamp {
    type Error = InvalidValue;

    fn try_from(moment: DateTime<Utc>) -> Result<Self, InvalidValue> {
        // chrono writes a leap second as a nanosecond beyond 999,999,999; taken along it would roll
        // over into the next minute.
        let sub_second = i64::from(moment.nanosecond().min(999_999_999) / 1_000);
        Self::from_micros(moment.timestamp().saturating_mul(1_000_000).saturating_add(sub_second))
    }
}

impl From<Timestamp> for DateTime<Utc> {
    fn from(moment: Timestamp) -> Self {
        // The range of `Timestamp` lies well inside chrono's.
        Self::from_timestamp_micros(moment.0).unwrap_or_default()
    }
}

impl FromStr for Timestamp {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let refused = || {
            InvalidValue::new(
                FaultCode::BadFormat,
                "must be an RFC 3339 time such as 2025-01-31T12:00:00Z",
            )
        };
        // Also allowed by chrono: a space for the `T`, and fractions of any length.
        if text.len() > 64 || !text.is_ascii() || text.contains(' ') {
            return Err(refused());
        }
        let moment = DateTime::parse_from_rfc3339(text).map_err(|_| refused())?;
        Self::try_from(moment.to_utc())
    }
}

/// The form of a moment's text.
const TEXT: &[u8; 27] = b"0000-00-00T00:00:00.000000Z";

impl Timestamp {
    /// Its text, on the stack: a page of records has hundreds of them. chrono's own is made on the heap, and
    /// works out its calendar fields one by one.
    fn text(self, text: &mut [u8; TEXT.len()]) -> &str {
        // Nothing is negative from 1970 on.
        let micros = self.0.unsigned_abs();
        let (seconds, micros) = (micros / 1_000_000, low(micros % 1_000_000));
        let (days, second) = (low(seconds / 86_400), low(seconds % 86_400));
        let (year, month, day) = civil(days);
        *text = *TEXT;
        [text[0], text[1]] = digits(year / 100);
        [text[2], text[3]] = digits(year % 100);
        [text[5], text[6]] = digits(month);
        [text[8], text[9]] = digits(day);
        [text[11], text[12]] = digits(second / 3_600);
        [text[14], text[15]] = digits(second / 60 % 60);
        [text[17], text[18]] = digits(second % 60);
        [text[20], text[21]] = digits(micros / 10_000);
        [text[22], text[23]] = digits(micros / 100 % 100);
        [text[24], text[25]] = digits(micros % 100);
        std::str::from_utf8(text).unwrap_or_default()
    }
}

/// A number that is known to be small.
fn low(number: u64) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

/// Year, month and day of so many days after 1970-01-01, by the Gregorian calendar.
///
/// Counted in years that begin in March, so that the leap day is the last of its year and the months before
/// it have lengths that repeat: 153 days in five months.
fn civil(days: u32) -> (u32, u32, u32) {
    const DAYS_TO_1970: u32 = 719_468;
    const DAYS_OF_400_YEARS: u32 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let leap_days = day_of_era / 1_460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + next_year, month, day)
}

/// A number below a hundred.
fn digits(number: u32) -> [u8; 2] {
    let digit = |number: u32| b'0' + u8::try_from(number % 10).unwrap_or_default();
    [digit(number / 10), digit(number)]
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text(&mut [0; TEXT.len()]))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text(&mut [0; TEXT.len()]))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Tells the time.
///
/// The service asks nobody else, so that a test turns time by hand with a [`ManualClock`].
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// A clock that is shared, or chosen at run time.
impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
        let now = Utc::now();
        // A machine that believes to live before 1970 or after 9999 gets the nearest moment.
        let nearest = if now.timestamp() < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::try_from(now).unwrap_or(nearest)
    }
}

/// A clock that stands still until it is turned; its clones are the same clock.
///
/// ```
/// use std::time::Duration;
/// use subscription_core::{Clock, ManualClock};
///
/// let clock = ManualClock::at("2025-01-31T00:00:00Z".parse()?);
/// clock.advance(Duration::from_secs(3_600));
/// assert_eq!(clock.now().to_string(), "2025-01-31T01:00:00.000000Z");
/// # Ok::<(), subscription_core::InvalidValue>(())
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.0)))
    }

    /// Turns the clock to `now`, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    /// Turns the clock forwards.
    pub fn advance(&self, span: Duration) {
        // Another thread may turn the same clock: read and write in one step.
        self.0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
                Some(Timestamp(now).saturating_add(span).0)
            })
            .ok();
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
