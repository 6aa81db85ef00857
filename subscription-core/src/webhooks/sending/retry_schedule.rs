//! The retry schedule: when an event or an endpoint is tried again after a failure.

use std::time::Duration;

use super::outcome::DeliveryResult;
use crate::values::Timestamp;

/// The maximum number of tries of an event. After the last one fails, the event is given up.
pub const TRIES_MAX: u32 = 10;

/// The delay after each failed try of a parked event. After the last try there is no delay, because the event is given
/// up.
const TRY_DELAYS: [Duration; TRIES_MAX as usize - 1] = [
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(10),
    Duration::from_hours(14),
    Duration::from_hours(20),
    Duration::from_hours(24),
];

/// The delays before the first probes of a stalled endpoint. All later probes have `PROBE_DELAY_LATER`.
const PROBE_DELAYS: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
    Duration::from_mins(5),
];
const PROBE_DELAY_LATER: Duration = Duration::from_mins(15);

/// The shortest delay if the endpoint is overloaded: it returned 429, 502 or 504, or timed out.
const OVERLOADED_DELAY_MIN: Duration = Duration::from_mins(1);
/// The longest delay that an endpoint can request with `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// A random number from 0 to 1,000, which varies a delay by up to 20 %: 0 gives 80 % of the delay, 500 gives 100 %, and
/// 1,000 gives 120 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerMille(u16);

impl PerMille {
    /// Numbers up to 1,000 are used as they are. A larger number is reduced to its remainder by 1,001, so that any 16
    /// random bits can be used.
    pub const fn new(number: u16) -> Self {
        Self(number % 1_001)
    }

    fn of(self, delay: Duration) -> Duration {
        delay * (2_000 + u32::from(self.0)) / 2_500
    }
}

/// When an event is tried next after its try number `tries` has failed; `None` if the event is given up.
pub fn next_try(
    tries: u32,
    failed_at: Timestamp,
    outcome: &DeliveryResult,
    jitter: PerMille,
) -> Option<Timestamp> {
    let delay = TRY_DELAYS.get(usize::try_from(tries.saturating_sub(1)).ok()?)?;
    Some(failed_at.saturating_add(lengthened(jitter.of(*delay), outcome)))
}

/// When a stalled endpoint is probed next. `probes` is the number of probes that have failed since the endpoint
/// stalled.
pub fn next_probe(
    probes: u32,
    failed_at: Timestamp,
    outcome: &DeliveryResult,
    jitter: PerMille,
) -> Timestamp {
    let delay = usize::try_from(probes).ok().and_then(|probes| PROBE_DELAYS.get(probes));
    let delay = delay.copied().unwrap_or(PROBE_DELAY_LATER);
    failed_at.saturating_add(lengthened(jitter.of(delay), outcome))
}

/// The delay, or a longer delay if the endpoint requested one or is overloaded.
fn lengthened(delay: Duration, outcome: &DeliveryResult) -> Duration {
    let (overloaded, asked) = match outcome {
        DeliveryResult::Answered { status, retry_after } => {
            (matches!(status, 429 | 502 | 504), *retry_after)
        }
        DeliveryResult::TimedOut => (true, None),
        DeliveryResult::Unreachable | DeliveryResult::Blocked => (false, None),
    };
    let least = if overloaded { OVERLOADED_DELAY_MIN } else { Duration::ZERO };
    delay.max(least).max(asked.unwrap_or_default().min(RETRY_AFTER_MAX))
}
