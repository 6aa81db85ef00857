//! The store of a worker: it yields and fails at random, and notes the commits that were accepted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use subscription_core::Store;
use subscription_core::store::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, StoreError, UniqueValue,
};

use super::broken::Fault;
use crate::fake_provider::yield_once;
use crate::rng::Rng;

/// The commits of all workers, in their order.
pub(super) type Commits = Arc<Mutex<Vec<ChangeSet>>>;

/// A store that all workers share, as one of them sees it.
#[derive(Debug)]
pub(super) struct WorkerStore {
    pub(super) inner: Arc<dyn Store>,
    pub(super) commits: Commits,
    pub(super) rng: Rng,
    /// True if nothing is disturbed.
    pub(super) calm: Arc<AtomicBool>,
    pub(super) fault: Option<Fault>,
}

impl WorkerStore {
    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    async fn let_others_run(&self) {
        let turns = if self.is_calm() { 0 } else { self.rng.below(3) };
        for _ in 0..turns {
            yield_once().await;
        }
    }

    async fn read<T>(
        &self,
        read: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.let_others_run().await;
        if !self.is_calm() && self.rng.percent(1) {
            return Err(unavailable());
        }
        let result = read.await;
        self.let_others_run().await;
        result
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("the connection was lost".into())
}

#[async_trait]
impl Store for WorkerStore {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.read(self.inner.get(key)).await
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        self.read(self.inner.find(value)).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.read(self.inner.list(query)).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.read(self.inner.events(query)).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.let_others_run().await;
        let chance = if self.is_calm() { 100 } else { self.rng.below(100) };
        if chance < 2 {
            return Err(unavailable());
        }
        let stored = match self.fault {
            Some(fault) => fault.applied(changes.clone()),
            None => changes.clone(),
        };
        self.inner.commit(stored).await?;
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).push(changes);
        self.let_others_run().await;
        // It took effect, and the answer is lost.
        if chance < 4 { Err(unavailable()) } else { Ok(()) }
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let mut outcomes = Vec::new();
        for changes in sets {
            outcomes.push(self.commit(changes).await);
        }
        outcomes
    }
}
