//! A store that keeps a copy of every change set that it accepted.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use subscription_core::store::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, StoreError, UniqueValue,
};
use subscription_core::{MemoryStore, Store};

/// Passes everything on to another store, and records the change sets that were accepted.
#[derive(Debug)]
pub struct Recorder {
    inner: Arc<dyn Store>,
    accepted: Mutex<Vec<ChangeSet>>,
}

impl Recorder {
    pub fn over(inner: Arc<dyn Store>) -> Self {
        Self { inner, accepted: Mutex::default() }
    }

    /// A store in memory to which these change sets were committed: a backup that was made after the last of them.
    pub async fn replayed(accepted: &[ChangeSet]) -> Arc<dyn Store> {
        let store = MemoryStore::default();
        for changes in accepted {
            store.commit(changes.clone()).await.expect("it was accepted before");
        }
        Arc::new(store)
    }

    /// The change sets since the last call, in the order in which they were accepted.
    pub fn take(&self) -> Vec<ChangeSet> {
        std::mem::take(&mut *self.accepted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Store for Recorder {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.inner.get(key).await
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        self.inner.find(value).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.inner.list(query).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.inner.events(query).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.inner.commit(changes.clone()).await?;
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(changes);
        Ok(())
    }
}
