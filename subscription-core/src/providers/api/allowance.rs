//! The number of reads that are allowed in a time: a token bucket by the clock.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::providers::ProviderKind;
use crate::values::Timestamp;

/// A number of reads in each span of time. All of them may be taken at once; each comes back after its share of
/// the span.
#[derive(Debug)]
pub struct Allowance {
    per: Duration,
    every: Duration,
    /// The moment from which on all reads are there again.
    full_at: Mutex<Timestamp>,
}

impl Allowance {
    /// Allows `count` reads in each span.
    pub fn new(per: Duration, count: u32) -> Self {
        let count = count.max(1);
        Self { per, every: per / count, full_at: Mutex::new(Timestamp::MIN) }
    }

    /// The reads of a provider: 200 in a minute at Lemon Squeezy, 20 in a second at Stripe.
    ///
    /// The spans are shorter, because the first span allows its reads twice: at most 250 reads fall in one minute
    /// (Lemon Squeezy allows 300), and at most 25 in one second (the limit of Stripe for test data).
    pub fn of(kind: ProviderKind) -> Self {
        match kind {
            ProviderKind::Stripe => Self::new(Duration::from_millis(250), 5),
            ProviderKind::LemonSqueezy => Self::new(Duration::from_secs(15), 50),
        }
    }

    /// Takes one read, or returns the moment to try again.
    pub fn take(&self, now: Timestamp) -> Result<(), Timestamp> {
        let mut full_at = self.full_at(now);
        let after = full_at.saturating_add(self.every);
        if after > now.saturating_add(self.per) {
            return Err(after.saturating_sub(self.per));
        }
        *full_at = after;
        Ok(())
    }

    /// The moment to try again, if no read is left.
    pub(crate) fn used_up(&self, now: Timestamp) -> Option<Timestamp> {
        let after = self.full_at(now).saturating_add(self.every);
        (after > now.saturating_add(self.per)).then(|| after.saturating_sub(self.per))
    }

    /// Takes one read also if none is left: those after it wait longer. For the later reads of work that has begun,
    /// which would otherwise be begun again, with its first read.
    pub fn overdraw(&self, now: Timestamp) {
        let mut full_at = self.full_at(now);
        *full_at = full_at.saturating_add(self.every);
    }

    /// The moment from which on all reads are there again, at most four spans ahead. It is later only if the clock
    /// was set back.
    fn full_at(&self, now: Timestamp) -> MutexGuard<'_, Timestamp> {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        *full_at = (*full_at).clamp(now, now.saturating_add(self.per * 4));
        full_at
    }
}
