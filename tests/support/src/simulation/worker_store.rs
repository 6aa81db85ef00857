//! The store of a worker. It yields and fails at random, and has the faults that a simulation plants.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use subscription_core::Store;
use subscription_core::store::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, StoreError, UniqueValue,
};

use crate::fake_provider::yield_once;
use crate::rng::Rng;

/// The planted faults between the workers of a simulation and their store. The store itself has no faults.
pub(super) trait Planted: fmt::Debug + Send + Sync {
    /// The record that a worker receives in place of the one that was found.
    fn shown(&self, _: &Key, found: Option<Record>) -> Option<Record> {
        found
    }

    /// Changes a page that a worker reads.
    fn listed(&self, _: &mut Page<Record>) {}

    /// The change set that is stored in place of another one.
    fn stored(&self, changes: ChangeSet) -> ChangeSet;

    /// Records a worker's change set that the store has accepted.
    fn accepted(&self, changes: ChangeSet);
}

/// A store that all workers share, as one of them sees it.
#[derive(Debug)]
pub(super) struct WorkerStore<P> {
    pub(super) inner: Arc<dyn Store>,
    pub(super) rng: Rng,
    /// True if no random failure happens.
    pub(super) calm: Arc<AtomicBool>,
    pub(super) planted: P,
}

impl<P: Planted> WorkerStore<P> {
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
impl<P: Planted> Store for WorkerStore<P> {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let found = self.read(self.inner.get(key)).await?;
        Ok(self.planted.shown(key, found))
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        self.read(self.inner.find(value)).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        let mut page = self.read(self.inner.list(query)).await?;
        self.planted.listed(&mut page);
        Ok(page)
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
        self.inner.commit(self.planted.stored(changes.clone())).await?;
        self.planted.accepted(changes);
        self.let_others_run().await;
        // The commit took effect, but its result may be lost.
        if chance < 4 { Err(unavailable()) } else { Ok(()) }
    }
}
