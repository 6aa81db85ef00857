//! A store that calls a function after each commit of another store that wrote events.

use std::fmt;

use async_trait::async_trait;

use super::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, Store, StoreError, UniqueValue,
};

/// A store that signals new events, so that readers of the feed wait for them without asking again and again.
///
/// The function is called for commits through this store alone. A reader that must see the commits of other
/// processes too asks the store from time to time. The function runs in the commit: it must not block.
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
        // A commit whose outcome is unknown may have been taken.
        if writes_events && matches!(outcome, Ok(()) | Err(StoreError::Unavailable(_))) {
            (self.signal)();
        }
        outcome
    }
}
