//! A store around another store: it calls a function after each commit to the inner store that wrote events.

use std::fmt;

use async_trait::async_trait;

use super::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, Store, StoreError, UniqueValue,
};

/// A store that signals new events, so that readers of the feed can wait for the signal instead of polling the store.
///
/// The function is called only for commits through this store. A reader that must see the commits of other processes
/// too has to poll the store from time to time. The function runs inside the commit: it must not block.
pub struct FeedSignal<S, F> {
    inner: S,
    signal: F,
}

impl<S: Store, F: Fn() + Send + Sync> FeedSignal<S, F> {
    /// Calls `signal` after each commit to `inner` that may have written events.
    pub const fn new(inner: S, signal: F) -> Self {
        Self { inner, signal }
    }
}

impl<S: fmt::Debug, F> fmt::Debug for FeedSignal<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeedSignal").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl<S: Store, F: Fn() + Send + Sync> Store for FeedSignal<S, F> {
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
        let writes_events = !changes.events.is_empty();
        let outcome = self.inner.commit(changes).await;
        if writes_events && may_be_taken(&outcome) {
            (self.signal)();
        }
        outcome
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let write_events: Vec<_> = sets.iter().map(|changes| !changes.events.is_empty()).collect();
        let outcomes = self.inner.commit_each(sets).await;
        if write_events
            .iter()
            .zip(&outcomes)
            .any(|(writes, outcome)| *writes && may_be_taken(outcome))
        {
            (self.signal)();
        }
        outcomes
    }
}

/// True if the events of a commit may be in the feed: the commit succeeded, or its outcome is unknown.
const fn may_be_taken(outcome: &Result<(), StoreError>) -> bool {
    matches!(outcome, Ok(()) | Err(StoreError::Unavailable(_)))
}
