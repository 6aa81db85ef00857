//! Time: [`Timestamp`] is a moment in UTC, and [`Clock`] is the trait that returns the present moment.
//!
//! Moments are cut to the microsecond, the finest resolution that every store has. So a record that is read
//! back equals the record that was written.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Datelike as _, Timelike as _, Utc};

use crate::values::as_text::written_as_text;
use crate::values::faults::InvalidValue;

/// A moment in UTC, in whole microseconds, from 1970 to the end of 9999.
///
/// It is parsed from RFC 3339 with any offset and any fraction. It is written in UTC with six digits of fraction and a
/// `Z`, so that the order of the texts is the order of the times.
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

    /// The moment that is `micros` microseconds after 1970-01-01T00:00:00Z.
    pub fn from_micros(micros: i64) -> Result<Self, InvalidValue> {
        if (Self::MIN.0..=Self::MAX.0).contains(&micros) {
            Ok(Self(micros))
        } else {
            let message = "must lie between the years 1970 and 9999 (UTC)";
            Err(InvalidValue::out_of_range(message))
        }
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The time from `earlier` until this moment; 0 if `earlier` is the later of the two.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The moment `span` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, span: Duration) -> Self {
        let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(span).min(Self::MAX.0))
    }

    /// The moment `span` earlier, at least [`Timestamp::MIN`].
    #[must_use]
    pub fn saturating_sub(self, span: Duration) -> Self {
        let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(span).max(Self::MIN.0))
    }
}

impl TryFrom<DateTime<Utc>> for Timestamp {
    type Error = InvalidValue;

    fn try_from(moment: DateTime<Utc>) -> Result<Self, InvalidValue> {
        // chrono stores a leap second as more than 999,999,999 nanoseconds. Without this limit the moment would lie in
        // the next minute.
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
        let refused =
            || InvalidValue::bad_format("must be an RFC 3339 time such as 2025-01-31T12:00:00Z");
        // chrono would accept a space in place of the `T`, and a fraction of any length. Both are refused here.
        if text.len() > 64 || !text.is_ascii() || text.contains(' ') {
            return Err(refused());
        }
        let moment = DateTime::parse_from_rfc3339(text).map_err(|_| refused())?;
        Self::try_from(moment.to_utc())
    }
}

/// The form of a moment's text, with zeros in place of the digits.
const TEXT: &[u8; 27] = b"0000-00-00T00:00:00.000000Z";

impl Timestamp {
    /// Writes the text of the moment into a buffer on the stack. A page of records has hundreds of moments, and chrono
    /// would allocate memory for each text.
    fn text(self, text: &mut [u8; TEXT.len()]) -> &str {
        let moment = DateTime::<Utc>::from(self).naive_utc();
        let year = moment.year().unsigned_abs();
        let micros = moment.nanosecond() / 1_000;
        *text = *TEXT;
        [text[0], text[1]] = digits(year / 100);
        [text[2], text[3]] = digits(year % 100);
        [text[5], text[6]] = digits(moment.month());
        [text[8], text[9]] = digits(moment.day());
        [text[11], text[12]] = digits(moment.hour());
        [text[14], text[15]] = digits(moment.minute());
        [text[17], text[18]] = digits(moment.second());
        [text[20], text[21]] = digits(micros / 10_000);
        [text[22], text[23]] = digits(micros / 100 % 100);
        [text[24], text[25]] = digits(micros % 100);
        std::str::from_utf8(text).unwrap_or_default()
    }
}

/// The two digits of a number below a hundred.
fn digits(number: u32) -> [u8; 2] {
    let digit = |number: u32| b'0' + u8::try_from(number % 10).unwrap_or_default();
    [digit(number / 10), digit(number)]
}

written_as_text!(Timestamp, |moment| moment.text(&mut [0; TEXT.len()]));

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the present time.
///
/// The service has no other source of time, so a test can set the time with a [`ManualClock`].
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// An [`Arc`] of a clock is a clock too, so that a clock can be shared or chosen at run time.
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
        #[expect(clippy::disallowed_methods, reason = "only this reads the machine's clock")]
        let now = Utc::now();
        // A machine whose clock shows a time before 1970 or after 9999 gets the nearest moment in that range.
        let nearest = if now.timestamp() < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::try_from(now).unwrap_or(nearest)
    }
}

/// A clock that shows the same time until it is set or advanced. Its clones share the time.
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

    /// Sets the clock to `now`, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    /// Moves the clock forwards by `span`.
    pub fn advance(&self, span: Duration) {
        // Another thread may set the same clock, so the time is read and written in one step.
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
