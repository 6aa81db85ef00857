//! Token buckets by key, in bounded memory.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::middleware::StateInformationMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::{Quota, RateLimiter};

/// The number of shards, each with its own lock.
const SHARDS: usize = 64;

/// The maximum number of keys of a shard. All shards of one limit together use at most a few megabytes.
const KEYS_PER_SHARD: usize = 1_024;

/// The clock that the token buckets of the rate limits use.
#[derive(Clone)]
pub(crate) enum Time {
    /// The monotonic clock of the machine, counted from this instant.
    Machine(Instant),
    /// A clock of the caller, for example in a test.
    Given(Arc<dyn subscription_core::Clock>),
}

impl Clock for Time {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        match self {
            Self::Machine(start) => start.elapsed().into(),
            Self::Given(clock) => {
                let micros = u64::try_from(clock.now().micros()).unwrap_or_default();
                // Nanoseconds overflow in the year 2554. Waits are added to this time, so it must not be near the
                // maximum.
                micros.saturating_mul(1_000).min(u64::MAX / 2).into()
            }
        }
    }
}

/// A token bucket for each key.
pub(crate) struct Buckets<K: Hash + Eq + Clone> {
    limiter: RateLimiter<Ask<K>, Shards<K>, Time, StateInformationMiddleware>,
    time: Time,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    pub(crate) fn new(quota: Quota, time: Time) -> Self {
        let shards = Shards {
            refill: quota.replenish_interval().into(),
            parts: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
        };
        Self { limiter: RateLimiter::new(quota, shards, time.clone()), time }
    }

    /// Removes a token from the bucket of `key`. Returns the number of tokens left, or the time until the bucket has a
    /// token again.
    pub(crate) fn take(&self, key: K) -> Result<u32, Duration> {
        self.ask(&Ask { key, act: Act::Take })
    }

    /// Like [`Buckets::take`], but removes no token.
    pub(crate) fn look(&self, key: K) -> Result<u32, Duration> {
        self.ask(&Ask { key, act: Act::Look })
    }

    /// Puts back a token that was taken from the bucket of `key`.
    pub(crate) fn put_back(&self, key: K) {
        self.ask(&Ask { key, act: Act::PutBack }).ok();
    }

    fn ask(&self, ask: &Ask<K>) -> Result<u32, Duration> {
        match self.limiter.check_key(ask) {
            Ok(left) => Ok(left.remaining_burst_capacity()),
            Err(until) => Err(until.wait_time_from(self.time.now())),
        }
    }
}

/// The key of a bucket, and what is done to the bucket.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Ask<K> {
    key: K,
    act: Act,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Act {
    Take,
    Look,
    PutBack,
}

/// For each key, the time when its bucket is full again. A key without an entry has a full bucket.
struct Shards<K> {
    /// The time in which a bucket gets a token.
    refill: Nanos,
    parts: Vec<Mutex<HashMap<K, Nanos>>>,
    /// Chooses the shard of a key.
    hasher: RandomState,
}

impl<K: Hash + Eq + Clone> StateStore for Shards<K> {
    type Key = Ask<K>;

    fn measure_and_replace<T, F, E>(&self, ask: &Ask<K>, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let hash = usize::try_from(self.hasher.hash_one(&ask.key) % SHARDS as u64);
        // The index is always in range, and this form of access cannot panic.
        let Some(shard) = self.parts.get(hash.unwrap_or_default()) else {
            return measure(None).map(|(outcome, _)| outcome);
        };
        let mut full_at = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = full_at.get_mut(&ask.key) {
            if ask.act == Act::PutBack {
                *at = at.saturating_sub(self.refill);
            }
            let (outcome, next) = measure(Some(*at))?;
            if ask.act == Act::Take {
                *at = next;
            }
            return Ok(outcome);
        }
        let (outcome, next) = measure(None)?;
        if ask.act == Act::Take {
            if full_at.len() >= KEYS_PER_SHARD {
                remove_the_fullest(&mut full_at);
            }
            full_at.insert(ask.key.clone(), next);
        }
        Ok(outcome)
    }
}

/// Removes half of the buckets: those that are full or will be full soonest. A key without a bucket may send as much as
/// a key with a full bucket, so the removal of a full bucket changes nothing. A key that has reached its limit has an
/// almost empty bucket, which will be full last. So an attacker who sends from more and more new addresses can cause
/// the removal of such a bucket only if more than half of the keys in the shard have reached their limits.
///
/// One removal makes room for many new keys, and locks one shard only.
fn remove_the_fullest<K: Hash + Eq>(full_at: &mut HashMap<K, Nanos>) {
    let mut times: Vec<Nanos> = full_at.values().copied().collect();
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    full_at.retain(|_, at| *at > *median);
}

#[cfg(test)]
mod tests {
    use subscription_core::{ManualClock, Timestamp};

    use super::*;

    fn buckets(most: u32, window: Duration) -> (Buckets<u32>, ManualClock) {
        let clock = ManualClock::at(Timestamp::MIN);
        let quota = Quota::with_period(window / most).unwrap();
        let quota = quota.allow_burst(most.try_into().unwrap());
        (Buckets::new(quota, Time::Given(Arc::new(clock.clone()))), clock)
    }

    #[test]
    fn a_million_keys_take_no_more_room_than_some_and_free_nobody_who_is_limited() {
        let (buckets, clock) = buckets(3, Duration::from_mins(5));
        for _ in 0..3 {
            buckets.take(u32::MAX).unwrap();
        }

        for key in 0..1_000_000 {
            buckets.take(key).unwrap();
            clock.advance(Duration::from_micros(1));
        }

        let wait = buckets.take(u32::MAX).unwrap_err();
        assert_eq!(wait, Duration::from_secs(99));
        let shards = buckets.limiter.into_state_store().parts;
        let mut keys = 0;
        let mut room = 0;
        for shard in shards {
            let shard = shard.into_inner().unwrap();
            keys += shard.len();
            room += shard.capacity();
        }
        assert!(keys <= SHARDS * KEYS_PER_SHARD, "{keys}");
        assert!(room <= 2 * SHARDS * KEYS_PER_SHARD, "{room}");
    }

    #[test]
    fn who_only_looks_takes_nothing() {
        let (buckets, clock) = buckets(1, Duration::from_secs(10));

        for _ in 0..5 {
            assert_eq!(buckets.look(1), Ok(0));
        }
        assert_eq!(buckets.take(1), Ok(0));
        assert_eq!(buckets.look(1), Err(Duration::from_secs(10)));
        assert_eq!(buckets.look(2), Ok(0));

        clock.advance(Duration::from_secs(10));

        assert_eq!(buckets.look(1), Ok(0));
    }

    #[test]
    fn a_token_that_is_put_back_can_be_taken_again_and_no_other() {
        let (buckets, clock) = buckets(2, Duration::from_secs(20));
        assert_eq!((buckets.take(1), buckets.take(1)), (Ok(1), Ok(0)));

        buckets.put_back(1);
        buckets.put_back(2);

        assert_eq!((buckets.take(1), buckets.take(1)), (Ok(0), Err(Duration::from_secs(10))));
        assert_eq!((buckets.take(2), buckets.take(2)), (Ok(1), Ok(0)));
        assert_eq!(buckets.take(2), Err(Duration::from_secs(10)), "a full bucket gets no fuller");
        clock.advance(Duration::from_mins(1));
        buckets.put_back(1);
        assert_eq!((buckets.take(1), buckets.take(1)), (Ok(1), Ok(0)));
        assert_eq!(buckets.take(1), Err(Duration::from_secs(10)));
    }

    #[test]
    fn a_clock_at_the_end_of_time_counts_on() {
        let (buckets, clock) = buckets(1, Duration::from_secs(10));
        clock.set(Timestamp::MAX);

        assert_eq!(buckets.take(1), Ok(0));
        assert_eq!(buckets.take(1), Err(Duration::from_secs(10)));
    }
}
