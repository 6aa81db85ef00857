//! A read-through cache of plans and clients over another store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use moka::ops::compute::Op;
use moka::sync::Cache;

use super::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, Store, StoreError, UniqueValue,
};
use crate::values::{PlanId, Slug, Version};

/// The largest number of records in the cache.
const RECORDS_MAX: u64 = 20_000;

/// A store that caches plans and clients in memory: every request reads them, and few requests change them.
///
/// Reads through the cached store see a commit through the cached store at once. They see a commit of another process
/// as soon as [`CacheInvalidator::forget`] is called for the changed record, and after the `lag` of
/// [`CachedStore::new`] at the latest. A cached record is never replaced by an earlier version of it. Sessions and
/// users are always read from the inner store, so a revocation takes effect at once.
#[derive(Debug)]
pub struct CachedStore<S> {
    inner: S,
    cache: CacheInvalidator,
}

/// The cache of a [`CachedStore`], for code that learns of changes by other processes.
#[derive(Debug, Clone)]
pub struct CacheInvalidator {
    records: Cache<Key, Entry>,
    slugs: Cache<Slug, PlanId>,
    hits: Arc<AtomicU64>,
    misses: Arc<AtomicU64>,
}

#[derive(Debug, Clone)]
struct Entry {
    /// The latest known version of the record. It is known even if `record` is `None`, so that no earlier version of
    /// the record enters the cache again.
    version: Version,
    record: Option<Record>,
}

fn is_cached(key: &Key) -> bool {
    matches!(key, Key::Plan(_) | Key::Client(_))
}

impl CacheInvalidator {
    /// The usual `lag` for [`CachedStore::new`]: how long a record stays in the cache if no change by another process
    /// is reported.
    pub const LAG: Duration = Duration::from_secs(3);

    fn new(lag: Duration) -> Self {
        Self {
            records: Cache::builder().max_capacity(RECORDS_MAX).time_to_live(lag).build(),
            slugs: Cache::builder().max_capacity(RECORDS_MAX).time_to_live(lag).build(),
            hits: Arc::default(),
            misses: Arc::default(),
        }
    }

    /// Removes a record from the cache, because the version of the record in the store is now `version`. For a deleted
    /// record, `version` is its last version plus one.
    pub fn forget(&self, key: &Key, version: Version) {
        if is_cached(key) {
            self.put(key.clone(), version, None);
        }
    }

    /// Removes all records, because reports of changes may have been missed.
    pub fn forget_all(&self) {
        self.records.invalidate_all();
        self.slugs.invalidate_all();
    }

    /// The number of reads whose record was in the cache.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// The number of reads whose record was not in the cache, so that the store was read.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    fn get(&self, key: &Key) -> Option<Record> {
        self.records.get(key)?.record
    }

    /// Puts a record that the store returned into the cache.
    fn stored(&self, found: Option<Record>) -> Option<Record> {
        found.inspect(|record| self.put_record(record))
    }

    fn counted(&self, found: Option<Record>) -> Option<Record> {
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Stores a record in the cache, or only its version if `record` is `None`. Does nothing if the cache knows a later
    /// version.
    fn put(&self, key: Key, version: Version, record: Option<Record>) {
        self.records.entry(key).and_compute_with(|known| match known {
            Some(known) if known.value().version > version => Op::Nop,
            // A call of `forget` for the version that the cache already has changes nothing: a cached record with this
            // version is not outdated.
            Some(known) if known.value().version == version && record.is_none() => Op::Nop,
            _ => Op::Put(Entry { version, record }),
        });
    }

    fn put_record(&self, record: &Record) {
        if let Record::Plan(plan) = record {
            self.slugs.insert(plan.slug.clone(), plan.id);
        }
        self.put(record.key(), record.version(), Some(record.clone()));
    }

    /// Removes the records that a change set will change, and returns the records that the set writes. Until the
    /// outcome is known, these records are read from the store, even if the caller is cancelled: a reader that saw one
    /// new record of the set in the store must not get an old version of another record from the cache.
    fn forget_changed(&self, changes: &ChangeSet) -> Vec<Record> {
        for delete in &changes.deletes {
            self.forget(&delete.key, delete.version.next());
        }
        let written = changes.writes.iter().filter(|record| is_cached(&record.key()));
        written.inspect(|record| self.forget(&record.key(), record.version())).cloned().collect()
    }

    /// Stores the written records of a commit in the cache if the commit was accepted.
    fn committed(&self, written: &[Record], outcome: &Result<(), StoreError>) {
        match outcome {
            Ok(()) => written.iter().for_each(|record| self.put_record(record)),
            // The change was decided on a record from the cache: the next attempt must read it from the store.
            Err(StoreError::Conflict(key)) => self.read_again(key),
            Err(_) => {}
        }
    }

    /// Removes a record from the cache, but not its version.
    fn read_again(&self, key: &Key) {
        if is_cached(key) {
            self.records.entry(key.clone()).and_compute_with(|known| match known {
                Some(known) => Op::Put(Entry { version: known.value().version, record: None }),
                None => Op::Nop,
            });
        }
    }
}

impl<S: Store> CachedStore<S> {
    /// A cache over `inner`; changes by other processes are seen after `lag` at the latest.
    pub fn new(inner: S, lag: Duration) -> Self {
        Self { inner, cache: CacheInvalidator::new(lag) }
    }

    /// The cache, for code that learns of changes by other processes.
    pub const fn cache(&self) -> &CacheInvalidator {
        &self.cache
    }
}

#[async_trait]
impl<S: Store> Store for CachedStore<S> {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        if !is_cached(key) {
            return self.inner.get(key).await;
        }
        if let Some(record) = self.cache.counted(self.cache.get(key)) {
            return Ok(Some(record));
        }
        Ok(self.cache.stored(self.inner.get(key).await?))
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        let UniqueValue::PlanSlug(slug) = value else { return self.inner.find(value).await };
        let known = self.cache.slugs.get(slug).and_then(|id| self.cache.get(&Key::Plan(id)));
        let is_current =
            |record: &Record| matches!(record, Record::Plan(plan) if plan.slug == *slug);
        if let Some(record) = self.cache.counted(known.filter(is_current)) {
            return Ok(Some(record));
        }
        Ok(self.cache.stored(self.inner.find(value).await?))
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.inner.list(query).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.inner.events(query).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let written = self.cache.forget_changed(&changes);
        let outcome = self.inner.commit(changes).await;
        self.cache.committed(&written, &outcome);
        outcome
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let written: Vec<_> = sets.iter().map(|set| self.cache.forget_changed(set)).collect();
        let outcomes = self.inner.commit_each(sets).await;
        for (written, outcome) in written.iter().zip(&outcomes) {
            self.cache.committed(written, outcome);
        }
        outcomes
    }
}
