//! A store in memory with a spy: the test can count its calls, delay them, or let them fail.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use subscription_core::store::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, StoreError, UniqueValue,
};
use subscription_core::{MemoryStore, Store};

use crate::rng::Rng;

/// The kind of a call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `get` of a session.
    Session,
    /// Any other read.
    Other,
    /// `commit`.
    Commit,
}

/// Observes the calls of a [`SpyStore`], and decides how they end.
#[async_trait]
pub trait Spy: Send + Sync + Debug {
    /// Runs before the call.
    async fn before(&self, _call: Call) {}

    /// Runs after the call, before the caller has its result.
    async fn after(&self, _call: Call) {}

    /// Receives the number of records that a call read.
    fn read(&self, _rows: usize) {}

    /// Receives the number of records and events that a commit wrote or deleted.
    fn written(&self, _rows: usize) {}

    /// True if the call takes effect, but the caller receives an error.
    fn loses_result(&self, _call: Call) -> bool {
        false
    }

    /// The error that the caller receives instead of a result, without a call of the store; `None` to make the call.
    fn fails(&self, _call: Call) -> Option<StoreError> {
        None
    }
}

/// A store in memory, observed by a spy.
#[derive(Debug)]
pub struct SpyStore<T> {
    store: MemoryStore,
    pub spy: T,
}

impl<T: Spy> SpyStore<T> {
    pub fn new(spy: T) -> Arc<Self> {
        Arc::new(Self { store: MemoryStore::default(), spy })
    }
}

impl<T: Spy> SpyStore<T> {
    /// Calls the store, and calls the spy before and after that.
    async fn observed<A>(
        &self,
        call: Call,
        result: impl Future<Output = Result<A, StoreError>> + Send,
        rows: impl Fn(&A) -> usize + Send,
    ) -> Result<A, StoreError> {
        self.spy.before(call).await;
        if let Some(error) = self.spy.fails(call) {
            return Err(error);
        }
        let answer = result.await;
        if call != Call::Commit {
            self.spy.read(answer.as_ref().map_or(0, rows));
        }
        self.spy.after(call).await;
        if self.spy.loses_result(call) {
            return Err(StoreError::Unavailable("the result was lost".into()));
        }
        answer
    }
}

#[async_trait]
impl<T: Spy> Store for SpyStore<T> {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let call = if matches!(key, Key::Session(_)) { Call::Session } else { Call::Other };
        self.observed(call, self.store.get(key), |found| usize::from(found.is_some())).await
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        let found = self.store.find(value);
        self.observed(Call::Other, found, |found| usize::from(found.is_some())).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.observed(Call::Other, self.store.list(query), |page| page.items.len()).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.observed(Call::Other, self.store.events(query), |page| page.items.len()).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let written = changes.writes.len() + changes.deletes.len() + changes.events.len();
        let commit = async {
            let answer = self.store.commit(changes).await;
            self.spy.written(written);
            answer
        };
        self.observed(Call::Commit, commit, |()| 0).await
    }

    /// The spy observes each set as a commit.
    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let (mut outcomes, mut passed) = (Vec::new(), Vec::new());
        for changes in sets {
            self.spy.before(Call::Commit).await;
            let failure = self.spy.fails(Call::Commit);
            if failure.is_none() {
                let ChangeSet { writes, deletes, events, .. } = &changes;
                self.spy.written(writes.len() + deletes.len() + events.len());
                passed.push(changes);
            }
            outcomes.push(failure.map_or(Ok(()), Err));
        }
        let committed = self.store.commit_each(passed).await;
        for (outcome, committed) in outcomes.iter_mut().filter(|it| it.is_ok()).zip(committed) {
            self.spy.after(Call::Commit).await;
            *outcome = if self.spy.loses_result(Call::Commit) {
                Err(StoreError::Unavailable("the result was lost".into()))
            } else {
                committed
            };
        }
        outcomes
    }
}

/// A spy that counts calls, and the records that they read and write.
#[derive(Debug, Default)]
pub struct CallCounts {
    reads: AtomicUsize,
    commits: AtomicUsize,
    rows_read: AtomicUsize,
    rows_written: AtomicUsize,
}

impl CallCounts {
    /// The numbers of reads and commits since the last call of this function.
    pub fn take(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::SeqCst), self.commits.swap(0, Ordering::SeqCst))
    }

    /// The numbers of rows read and written since the last call of this function.
    pub fn take_rows(&self) -> (usize, usize) {
        (self.rows_read.swap(0, Ordering::SeqCst), self.rows_written.swap(0, Ordering::SeqCst))
    }
}

#[async_trait]
impl Spy for CallCounts {
    async fn before(&self, call: Call) {
        let count = match call {
            Call::Session | Call::Other => &self.reads,
            Call::Commit => &self.commits,
        };
        count.fetch_add(1, Ordering::SeqCst);
    }

    fn read(&self, rows: usize) {
        self.rows_read.fetch_add(rows, Ordering::SeqCst);
    }

    fn written(&self, rows: usize) {
        self.rows_written.fetch_add(rows, Ordering::SeqCst);
    }
}

/// A spy that loses the result of one commit. The commit takes effect, but the caller receives an error.
#[derive(Debug, Default)]
pub struct LosesACommit(AtomicBool);

impl LosesACommit {
    pub fn lose_the_next_commit(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Spy for LosesACommit {
    fn loses_result(&self, call: Call) -> bool {
        call == Call::Commit && self.0.swap(false, Ordering::SeqCst)
    }
}

/// A spy that yields to other tasks at random, so that tasks of one thread interleave.
#[derive(Debug)]
pub struct YieldsAtRandom(pub Rng);

#[async_trait]
impl Spy for YieldsAtRandom {
    async fn before(&self, _call: Call) {
        for _ in 0..self.0.below(4) {
            tokio::task::yield_now().await;
        }
    }

    async fn after(&self, _call: Call) {
        for _ in 0..self.0.below(3) {
            tokio::task::yield_now().await;
        }
    }
}
