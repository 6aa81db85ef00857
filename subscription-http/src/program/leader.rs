//! Decides which of several instances does the background work.
//!
//! On PostgreSQL it is the one that holds a lock; over a file or in memory there is one instance, and it
//! leads. For a moment two may lead, because a leader learns of its lost lock late: jobs write under the
//! versions of records, so that this costs refused commits and nothing else.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::store::LeaderLock;
use subscription_core::{Clock as _, SystemClock, Timestamp};

/// Tells whether this instance does the background work.
#[async_trait]
pub(crate) trait Leader: Send + Sync {
    /// True if this instance leads now; called every two seconds.
    async fn leads(&self) -> bool;

    /// How far the clock of this machine is from the database's, as of the last call of `leads`; `None`
    /// where both are one machine.
    fn skew(&self) -> Option<Duration> {
        None
    }
}

/// The only instance over its store.
#[derive(Debug)]
pub(crate) struct Alone;

#[async_trait]
impl Leader for Alone {
    async fn leads(&self) -> bool {
        true
    }
}

/// One of the instances over a PostgreSQL database.
#[derive(Debug)]
pub(crate) struct Elected {
    lock: LeaderLock,
    skew: Mutex<Option<Duration>>,
}

impl Elected {
    pub(crate) fn by(lock: LeaderLock) -> Self {
        Self { lock, skew: Mutex::default() }
    }
}

#[async_trait]
impl Leader for Elected {
    async fn leads(&self) -> bool {
        // The clock of the machine also where the process has a manual one.
        let asked_at = SystemClock.now();
        let database_now = self.lock.holds().await;
        if let (Some(now), Ok(mut skew)) = (database_now, self.skew.lock()) {
            *skew = Some(distance(now, asked_at, SystemClock.now()));
        }
        database_now.is_some()
    }

    fn skew(&self) -> Option<Duration> {
        self.skew.lock().ok().and_then(|skew| *skew)
    }
}

/// How far a moment lies outside of the span in which another machine named it.
fn distance(moment: Timestamp, from: Timestamp, until: Timestamp) -> Duration {
    let micros = (from.micros() - moment.micros()).max(moment.micros() - until.micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_differ_by_what_the_time_of_the_answer_does_not_explain() {
        let at = |micros| Timestamp::from_micros(micros).unwrap();

        assert_eq!(distance(at(150), at(100), at(200)), Duration::ZERO);
        assert_eq!(distance(at(90), at(100), at(200)), Duration::from_micros(10));
        assert_eq!(distance(at(207), at(100), at(200)), Duration::from_micros(7));
    }
}
