//! A rate limit for reads: a token bucket.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::providers::ProviderKind;
use crate::values::{Timestamp, locked};

/// A number of reads that are allowed in each span of time. All reads of a span may be used at once. After that, they
/// become available again one by one, evenly over the length of the span.
#[derive(Debug)]
pub struct Allowance {
    per: Duration,
    every: Duration,
    /// The moment at which all reads are available again.
    full_at: Mutex<Timestamp>,
}

impl Allowance {
    /// Allows `count` reads, but at least one, in each span of the length `per`.
    pub fn new(per: Duration, count: u32) -> Self {
        let count = count.max(1);
        Self { per, every: per / count, full_at: Mutex::new(Timestamp::MIN) }
    }

    /// The allowance of a provider: 200 reads per minute at Lemon Squeezy, 20 reads per second at Stripe.
    ///
    /// The allowances are 50 reads per 15 seconds and 5 reads per 250 milliseconds. The spans are this short because
    /// the first span can have twice its number of reads: those that are available at its start, and those that become
    /// available again during the span. So at most 250 reads fall in one minute (Lemon Squeezy allows 300), and at most
    /// 25 in one second (the limit of Stripe for test data).
    pub fn of(kind: ProviderKind) -> Self {
        match kind {
            ProviderKind::Stripe => Self::new(Duration::from_millis(250), 5),
            ProviderKind::LemonSqueezy => Self::new(Duration::from_secs(15), 50),
        }
    }

    /// Uses one read. If no read is available, the error is the moment to try again.
    pub fn take(&self, now: Timestamp) -> Result<(), Timestamp> {
        let mut full_at = self.full_at(now);
        let after = full_at.saturating_add(self.every);
        if after > now.saturating_add(self.per) {
            return Err(after.saturating_sub(self.per));
        }
        *full_at = after;
        Ok(())
    }

    /// The moment to try again; `None` if a read is available.
    pub(crate) fn used_up(&self, now: Timestamp) -> Option<Timestamp> {
        let after = self.full_at(now).saturating_add(self.every);
        (after > now.saturating_add(self.per)).then(|| after.saturating_sub(self.per))
    }

    /// The number of reads that are available now.
    pub(crate) fn available(&self, now: Timestamp) -> usize {
        let span = now.saturating_add(self.per).since(*self.full_at(now));
        let reads = span.as_micros() / self.every.as_micros().max(1);
        usize::try_from(reads).unwrap_or(usize::MAX)
    }

    /// Uses one read even if none is available. The reads after it wait longer. This is for the later reads of work
    /// that has begun: if they had to wait, the work would begin again with its first read.
    pub fn overdraw(&self, now: Timestamp) {
        let mut full_at = self.full_at(now);
        *full_at = full_at.saturating_add(self.every);
    }

    /// The moment at which all reads are available again, limited to four spans from `now`. Without the limit, a clock
    /// that was set back would stop the reads for a long time.
    fn full_at(&self, now: Timestamp) -> MutexGuard<'_, Timestamp> {
        let mut full_at = locked(&self.full_at);
        *full_at = (*full_at).clamp(now, now.saturating_add(self.per * 4));
        full_at
    }
}
