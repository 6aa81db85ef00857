//! A store that records every change set that it accepted, and can return to an earlier state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use subscription_core::store::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, StoreError, UniqueValue,
};
use subscription_core::{MemoryStore, Store};

/// A store that calls another store, and records the change sets that were accepted.
#[derive(Debug)]
pub struct Recorder {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    inner: Arc<dyn Store>,
    accepted: Vec<ChangeSet>,
    /// The number of change sets that [`Recorder::take`] has returned.
    taken: usize,
}

impl Recorder {
    pub fn over(inner: Arc<dyn Store>) -> Self {
        Self { state: Mutex::new(State { inner, accepted: Vec::new(), taken: 0 }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inner(&self) -> Arc<dyn Store> {
        Arc::clone(&self.state().inner)
    }

    /// The number of change sets that were accepted.
    pub fn accepted(&self) -> usize {
        self.state().accepted.len()
    }

    /// Returns to the state after the first `count` change sets, as if a backup from then was restored.
    pub async fn restore(&self, count: usize) {
        let backup: Vec<_> = self.state().accepted.iter().take(count).cloned().collect();
        let inner = Self::replayed(&backup).await;
        *self.state() = State { inner, accepted: backup, taken: 0 };
    }

    /// Creates a store in memory and commits these change sets to it. It stands for a backup that was made after the
    /// last of them.
    pub async fn replayed(accepted: &[ChangeSet]) -> Arc<dyn Store> {
        let store = MemoryStore::default();
        for changes in accepted {
            store.commit(changes.clone()).await.expect("it was accepted before");
        }
        Arc::new(store)
    }

    /// The change sets since the last call, in the order in which they were accepted.
    pub fn take(&self) -> Vec<ChangeSet> {
        let mut state = self.state();
        let new = state.accepted.iter().skip(state.taken).cloned().collect();
        state.taken = state.accepted.len();
        new
    }
}

#[async_trait]
impl Store for Recorder {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.inner().get(key).await
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        self.inner().find(value).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.inner().list(query).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.inner().events(query).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.inner().commit(changes.clone()).await?;
        self.state().accepted.push(changes);
        Ok(())
    }
}
