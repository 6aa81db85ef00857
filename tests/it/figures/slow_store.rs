//! A store in memory whose lists a test counts, slows down, shortens and stops.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::store::{
    ChangeSet, EventPage, EventQuery, Key, Page, PageLimit, Query, Record, StoreError, UniqueValue,
};
use subscription_core::{ManualClock, MemoryStore, Store};
use tokio::sync::Semaphore;

/// Its lists of plans, subscriptions and payments are those of a walk.
#[derive(Debug)]
pub(crate) struct SlowStore {
    inner: MemoryStore,
    /// A list passes this gate. It is open until a test closes it.
    gate: Semaphore,
    lists: AtomicUsize,
    failures: AtomicUsize,
    /// The clock that each list moves, and by how many milliseconds.
    clock: ManualClock,
    millis: AtomicU64,
    /// The largest number of payments on a page.
    page: AtomicUsize,
}

impl SlowStore {
    pub(crate) fn new(clock: ManualClock) -> Self {
        Self {
            inner: MemoryStore::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            lists: AtomicUsize::new(0),
            failures: AtomicUsize::new(0),
            clock,
            millis: AtomicU64::new(0),
            page: AtomicUsize::new(usize::MAX),
        }
    }

    pub(crate) fn close(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS);
    }

    /// Each list takes so long by the clock.
    pub(crate) fn take_millis(&self, millis: u64) {
        self.millis.store(millis, Ordering::SeqCst);
    }

    /// Pages of payments have at most this many.
    pub(crate) fn shorten_pages(&self, payments: usize) {
        self.page.store(payments, Ordering::SeqCst);
    }

    /// The next lists fail.
    pub(crate) fn fail(&self, times: usize) {
        self.failures.store(times, Ordering::SeqCst);
    }

    /// The number of lists since the last call of this.
    pub(crate) fn lists(&self) -> usize {
        self.lists.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for SlowStore {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.inner.get(key).await
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        self.inner.find(value).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        if !matches!(query, Query::Plan(_) | Query::Subscription(_) | Query::Payment(_)) {
            return self.inner.list(query).await;
        }
        self.lists.fetch_add(1, Ordering::SeqCst);
        let _passed = self.gate.acquire().await.unwrap();
        // Others run meanwhile.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        self.clock.advance(Duration::from_millis(self.millis.load(Ordering::SeqCst)));
        let fails =
            self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if fails.is_ok() {
            return Err(StoreError::Unavailable("the store is away".into()));
        }
        if let Query::Payment(query) = query {
            let shorter = PageLimit::new(self.page.load(Ordering::SeqCst));
            let query = query.clone().with_limit(shorter.unwrap_or(query.limit));
            return self.inner.list(&Query::Payment(query)).await;
        }
        self.inner.list(query).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.inner.events(query).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.inner.commit(changes).await
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        self.inner.commit_each(sets).await
    }
}
