//! Retries of a change whose commit was refused because another writer was faster, and queues for the writers of one
//! record.
//!
//! A writer first tries without waiting, because most records have one writer at a time. A writer whose commit was
//! refused because another writer was faster joins the queue of the record, and while the queue is not empty, new
//! writers join it too. There are 64 queues, chosen by the hash of the key, so a writer can also wait for writers of
//! another record; this happens only while a queue is in use.

use std::hash::{BuildHasher as _, Hash};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_lock::{Mutex, MutexGuard};

use super::SubscriptionService;
use crate::error::{Conflict, Error};
use crate::store::{Key, StoreError};
use crate::values::Randomness;

/// The largest number of tries of a change that may be refused because other writers are faster. Writers of one record
/// in one process take turns, so the other writers are in other processes, or write a record that this change only
/// guards.
const TRIES_MAX: u32 = 64;
/// After this number of lost tries there is a pause before each further try.
const PAUSE_FROM: u32 = 3;

/// A function that waits for a span of time, with the timer of the caller's runtime.
pub type Pause = fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The number of queues.
const QUEUES: usize = 64;
/// The longest time that the first pause can last. This limit doubles with each further pause, up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(1);
/// The longest time that any pause can last.
const PAUSE_MAX: Duration = Duration::from_millis(32);

/// The queues of a service.
#[derive(Debug)]
pub(crate) struct WriterQueues {
    hasher: foldhash::fast::RandomState,
    queues: Box<[WriterQueue]>,
}

impl Default for WriterQueues {
    fn default() -> Self {
        let queues = (0..QUEUES).map(|_| WriterQueue::default()).collect();
        Self { hasher: foldhash::fast::RandomState::default(), queues }
    }
}

impl WriterQueues {
    /// The queue for a key.
    pub(crate) fn queue(&self, about: impl Hash) -> Option<&WriterQueue> {
        let hash = usize::try_from(self.hasher.hash_one(about) >> 32).unwrap_or_default();
        self.queues.get(hash % QUEUES)
    }
}

/// Writers that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct WriterQueue {
    turn: Mutex<()>,
    /// The number of writers that wait or have their turn.
    writers: AtomicUsize,
}

impl WriterQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.writers.load(Ordering::Relaxed) == 0
    }

    /// Waits for the turn of this writer, which ends when the [`WriterTurn`] is dropped.
    pub(crate) async fn turn(&self) -> WriterTurn<'_> {
        self.writers.fetch_add(1, Ordering::Relaxed);
        let writer = Writer(self);
        WriterTurn { _turn: self.turn.lock().await, _writer: writer }
    }
}

/// The turn of one writer.
#[derive(Debug)]
pub(crate) struct WriterTurn<'q> {
    // `_turn` is dropped first, and then `_writer`, which counts this writer. A writer that arrives between the two
    // joins the queue although the turn is free, but does not wait for long.
    _turn: MutexGuard<'q, ()>,
    _writer: Writer<'q>,
}

/// Counts a writer for as long as it waits or has its turn. Dropping the future of the writer ends the count.
#[derive(Debug)]
struct Writer<'q>(&'q WriterQueue);

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SubscriptionService {
    /// Runs `attempt`, and runs it again if its commit was refused because another writer was faster, at most 64 times.
    ///
    /// The parameter is not an `AsyncFn`: there is no way to require that the future of an `AsyncFn` is `Send`,
    /// and servers spawn their requests.
    pub(crate) async fn retrying<T, F>(
        &self,
        attempt: impl Fn() -> F + Send + Sync,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        self.tries(None, attempt).await
    }

    /// Like [`retrying`](Self::retrying), for a change of an existing record: the writers of the record take turns.
    ///
    /// `attempt` must not call this method: its writer may already have the turn, and could then wait for itself
    /// forever.
    pub(crate) async fn retrying_on<T, F>(
        &self,
        about: impl Hash,
        attempt: impl Fn() -> F + Send + Sync,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        self.tries(self.writer_queues().queue(about), attempt).await
    }

    async fn tries<T, F>(
        &self,
        queue: Option<&WriterQueue>,
        attempt: impl Fn() -> F + Send + Sync,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let mut turn = match queue.filter(|queue| !queue.is_empty()) {
            Some(queue) => Some(queue.turn().await),
            None => None,
        };
        let mut lost = 0;
        loop {
            let key = match attempt().await {
                Err(Error::Store(StoreError::Conflict(key))) => key,
                done => return done,
            };
            lost += 1;
            if lost >= TRIES_MAX {
                let in_progress = matches!(key, Key::Idempotency(_));
                return Err(if in_progress {
                    Conflict::RequestInProgress.into()
                } else {
                    Error::Busy(key)
                });
            }
            if turn.is_none()
                && let Some(queue) = queue.or_else(|| self.writer_queues().queue(&key))
            {
                turn = Some(queue.turn().await);
            } else if let Some(pause) = self.pause()
                && lost >= PAUSE_FROM
            {
                pause(pause_after(lost - PAUSE_FROM, self.randomness())).await;
            }
        }
    }
}

/// The pause before the next try; `lost` is the number of tries that were lost after earlier pauses. The pause is
/// random, so that writers which lost at the same time do not try at the same time again.
fn pause_after(lost: u32, ids: &dyn Randomness) -> Duration {
    let longest = PAUSE_FIRST.saturating_mul(1 << lost.min(8)).min(PAUSE_MAX);
    let mut part = [0];
    // If the source of randomness fails, the pause is the longest.
    let part = if ids.fill_id(&mut part).is_ok() { u32::from(part[0]) } else { 255 };
    longest * part / 255
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::randomness::SeededRandomness;

    #[test]
    fn pauses_are_random_and_bounded() {
        let ids = SeededRandomness::new(1);

        let first: Vec<_> = (0..100).map(|_| pause_after(0, &ids)).collect();
        let later: Vec<_> = (0..100).map(|_| pause_after(40, &ids)).collect();

        assert!(first.iter().all(|pause| *pause <= PAUSE_FIRST));
        assert!(later.iter().all(|pause| *pause <= PAUSE_MAX));
        assert!(later.iter().any(|pause| *pause > PAUSE_MAX / 2));
        assert!(later.windows(2).any(|two| two[0] != two[1]));
    }

    #[tokio::test]
    async fn a_queue_is_empty_once_nobody_waits_any_more() {
        let queue = WriterQueue::default();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());

        let first = queue.turn().await;
        let mut second = Box::pin(queue.turn());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(!queue.is_empty(), "the second still waits");
        // Its caller leaves.
        drop(second);

        assert!(queue.is_empty());
        queue.turn().await;
        assert!(queue.is_empty());
    }
}
