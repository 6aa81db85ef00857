//! The limits on the reads of a source: its allowance, its pause while the provider is out of reach, and the objects
//! that were fetched within the last second.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::allowance::Allowance;
use crate::providers::{ObjectRef, ProviderKind};
use crate::values::{Timestamp, locked};

const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_mins(5);
/// While reads of a source fail, the failure is logged once in this time.
const LOGGED_EVERY: Duration = Duration::from_hours(1);
const OBJECT_EVERY: Duration = Duration::from_secs(1);
/// When the times of this many fetches are in memory, those that are older than `OBJECT_EVERY` are removed.
const FETCHED_MAX: usize = 4_096;

/// The limits of one source's reads in this process.
#[derive(Debug)]
pub(crate) struct ApiLimits {
    /// `None` if reads are not limited.
    allowance: Option<Allowance>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    paused_until: Option<Timestamp>,
    pause: Duration,
    fetched: HashMap<ObjectRef, Timestamp>,
    /// When the log last said that reads fail; `None` after a read that succeeded.
    logged_at: Option<Timestamp>,
}

/// The place of a read among the reads that one observation of an object makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOrder {
    /// The first read. It waits for the allowance.
    First,
    /// A later read. It does not wait for the allowance. If it waited, the observation would begin again later, and
    /// would repeat the first read.
    Later,
}

/// A read that must not be made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) until: Timestamp,
    /// True if the provider is out of reach, false if the source's limits hold the read back.
    pub(crate) unavailable: bool,
}

impl ApiLimits {
    pub(crate) fn new(kind: ProviderKind, limited: bool) -> Self {
        Self { allowance: limited.then(|| Allowance::of(kind)), memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        locked(&self.memory)
    }

    /// Uses one read of the allowance. The error says until when the read must wait.
    pub(crate) fn begin(&self, now: Timestamp, read_order: ReadOrder) -> Result<(), Held> {
        if let Some(until) = self.memory().paused_until.filter(|until| *until > now) {
            return Err(Held { until, unavailable: true });
        }
        let Some(allowance) = &self.allowance else { return Ok(()) };
        if read_order == ReadOrder::Later {
            allowance.overdraw(now);
            return Ok(());
        }
        allowance.take(now).map_err(|until| Held { until, unavailable: false })
    }

    /// When the allowance has a read again. `None` if it has one now, if reads are not limited, or if the source is
    /// paused.
    pub(crate) fn used_up(&self, now: Timestamp) -> Option<Timestamp> {
        let is_paused = self.memory().paused_until.is_some_and(|until| until > now);
        self.allowance.as_ref().filter(|_| !is_paused)?.used_up(now)
    }

    /// The number of reads that the allowance has now. `None` if reads are not limited, or if the source is paused.
    pub(crate) fn available(&self, now: Timestamp) -> Option<usize> {
        let is_paused = self.memory().paused_until.is_some_and(|until| until > now);
        self.allowance.as_ref().filter(|_| !is_paused).map(|allowance| allowance.available(now))
    }

    /// The earliest moment at which an object may be fetched again for its events; `None` if it may be fetched at once.
    pub(crate) fn object_held(&self, object: &ObjectRef, now: Timestamp) -> Option<Timestamp> {
        let last = self.memory().fetched.get(object).copied()?;
        // If the clock was set back, the last fetch is later than now. Such a fetch does not delay the next one.
        let until = last.saturating_add(OBJECT_EVERY);
        (self.allowance.is_some() && last <= now && until > now).then_some(until)
    }

    /// Notes that an object is fetched.
    pub(crate) fn fetching(&self, object: &ObjectRef, now: Timestamp) {
        let fetched = &mut self.memory().fetched;
        if fetched.len() >= FETCHED_MAX {
            fetched.retain(|_, at| now.since(*at) < OBJECT_EVERY);
        }
        fetched.insert(object.clone(), now);
    }

    /// Notes that a read succeeded: the next pause is short again, and the next failure is logged.
    pub(crate) fn succeeded(&self) {
        let mut memory = self.memory();
        memory.pause = Duration::ZERO;
        memory.logged_at = None;
    }

    /// True if the failure of a read must be logged: once when an outage begins, and then once an hour.
    pub(crate) fn is_to_log(&self, now: Timestamp) -> bool {
        let logged_at = &mut self.memory().logged_at;
        let is_to_log = logged_at.is_none_or(|at| now.since(at) >= LOGGED_EVERY);
        if is_to_log {
            *logged_at = Some(now);
        }
        is_to_log
    }

    /// Pauses the source for as long as the provider requests. If it requests no time, the pause is twice as long at
    /// each further failure. A pause has at most the length [`PAUSE_MAX`].
    pub(crate) fn failed(&self, retry_after: Option<Duration>, now: Timestamp) -> Held {
        let mut memory = self.memory();
        // Reads that are in progress at the same time fail together. They pause the source only once.
        if memory.paused_until.is_none_or(|until| until <= now) {
            memory.pause = memory.pause.saturating_mul(2).clamp(PAUSE_FIRST, PAUSE_MAX);
            let pause = retry_after.map_or(memory.pause, |asked| asked.min(PAUSE_MAX));
            memory.paused_until = Some(now.saturating_add(pause));
        }
        Held { until: memory.paused_until.unwrap_or(now), unavailable: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_logged_once_and_then_each_hour() {
        let api_limits = ApiLimits::new(ProviderKind::Stripe, true);
        let at = |minute: i64| Timestamp::from_micros(minute * 60_000_000).unwrap();

        let logged: Vec<_> =
            [0, 1, 59, 60, 61].map(|minute| api_limits.is_to_log(at(minute))).into();
        assert_eq!(logged, [true, false, false, true, false]);
        api_limits.succeeded();
        assert!(api_limits.is_to_log(at(62)), "another outage");
    }
}
