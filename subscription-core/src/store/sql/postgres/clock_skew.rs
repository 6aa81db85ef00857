//! Compares the clock of this machine with the clock of the database.
//!
//! An instance with a wrong clock would take the billing steps of another day, such as renewals, and other instances
//! would never undo these steps. So an instance writes nothing until its clock is right.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::error::unavailable;
use crate::store::StoreError;
use crate::values::clock::Clock as _;
use crate::values::{SystemClock, Timestamp};

/// The largest difference between the clocks at which this instance still writes.
const SKEW_MAX: Duration = Duration::from_mins(1);

/// The difference between the two clocks, in microseconds.
#[derive(Debug, Default)]
pub(super) struct ClockSkew(AtomicU64);

impl ClockSkew {
    /// Compares the clocks. `database` is the time of the database in microseconds, read between `asked_at` and now.
    pub(super) fn compare(&self, asked_at: Timestamp, database: i64) {
        let skew = distance(database, asked_at.micros(), SystemClock.now().micros());
        self.0.store(skew, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// Refuses to write while the clock is wrong.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let skew = self.get();
        if skew <= SKEW_MAX {
            return Ok(());
        }
        let seconds = skew.as_secs();
        Err(unavailable(format!(
            "clock skew: the time of this machine differs from the database's by {seconds} s"
        )))
    }
}

/// How far a moment lies outside of a span of time; 0 if it lies inside.
fn distance(moment: i64, from: i64, until: i64) -> u64 {
    u64::try_from((from - moment).max(moment - until)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_differ_by_what_the_time_of_the_answer_does_not_explain() {
        assert_eq!(distance(150, 100, 200), 0);
        assert_eq!(distance(90, 100, 200), 10);
        assert_eq!(distance(207, 100, 200), 7);
    }
}
