//! The store of a worker: it yields and fails at random.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::{Value, json};
use subscription_core::store::{
    ChangeSet, Document, EventPage, EventQuery, Key, Page, Query, Record, StoreError, UniqueValue,
};
use subscription_core::{Store, Version};

use super::broken::Fault;
use crate::fake_provider::yield_once;
use crate::rng::Rng;

/// A store that all workers share, as one of them sees it.
#[derive(Debug)]
pub(super) struct WorkerStore {
    pub(super) inner: Arc<dyn Store>,
    pub(super) rng: Rng,
    /// True if nothing is disturbed.
    pub(super) calm: Arc<AtomicBool>,
    pub(super) fault: Option<Fault>,
    pub(super) seen: Arc<Mutex<HashMap<Key, Record>>>,
    /// The number of commits of all workers.
    pub(super) commits: Arc<AtomicUsize>,
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

    /// The record as the fault shows it.
    fn remembered(&self, key: &Key, found: Option<Record>) -> Option<Record> {
        let is_endpoint = is_of(key, "webhook_endpoint");
        let is_record = !matches!(key, Key::Document(_));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match self.fault {
            Some(Fault::ShowsOldRecords) if is_record => {
                let found = found?;
                Some(seen.entry(key.clone()).or_insert(found).clone())
            }
            Some(Fault::RemembersEndpoints) if is_endpoint => {
                if let Some(found) = &found {
                    seen.insert(key.clone(), found.clone());
                }
                found.or_else(|| seen.get(key).cloned())
            }
            _ => found,
        }
    }

    /// The change set that is stored in place of another one.
    fn applied(&self, mut changes: ChangeSet) -> ChangeSet {
        match self.fault {
            Some(Fault::DropsParked) => changes.writes.retain(|record| {
                record.version() != Version::FIRST || !is_of(&record.key(), "webhook_parked")
            }),
            Some(Fault::LosesCursors) => {
                for record in &mut changes.writes {
                    if let Record::Document(document) = record
                        && document.key.collection.as_str() == "webhook_delivery"
                    {
                        let mut body: Value = serde_json::from_str(&document.body).unwrap();
                        body["cursor"] = json!(0);
                        let body = body.to_string().into();
                        *record = Record::from(Document { body, ..(**document).clone() });
                    }
                }
            }
            _ => {}
        }
        changes
    }
}

fn is_of(key: &Key, collection: &str) -> bool {
    matches!(key, Key::Document(key) if key.collection.as_str() == collection)
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("the connection was lost".into())
}

#[async_trait]
impl Store for WorkerStore {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let found = self.read(self.inner.get(key)).await?;
        Ok(self.remembered(key, found))
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        self.read(self.inner.find(value)).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        let mut page = self.read(self.inner.list(query)).await?;
        if self.fault == Some(Fault::HidesParked) {
            page.items.retain(|record| !is_of(&record.key(), "webhook_parked"));
        }
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
        self.inner.commit(self.applied(changes)).await?;
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.let_others_run().await;
        // It took effect, and the answer is lost.
        if chance < 4 { Err(unavailable()) } else { Ok(()) }
    }
}
