//! A store that tells what is asked of it, and waits while it is listened to.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use subscription_core::store::{
    ChangeSet, EventPage, EventQuery, Key, Page, Query, Record, StoreError, UniqueValue,
};
use subscription_core::{MemoryStore, Store};

use crate::rng::Rng;

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// For one session.
    Session,
    /// For anything else that it has.
    Other,
    /// To take a change set.
    Commit,
}

/// Listens to a store.
#[async_trait]
pub trait Tap: Send + Sync + Debug {
    /// Runs before the store does what it was asked.
    async fn before(&self, _asked: Asked) {}

    /// Runs when the store has done it, before the caller hears.
    async fn after(&self, _asked: Asked) {}

    /// Hears how many rows were read for an answer.
    fn read(&self, _rows: usize) {}

    /// Hears how many rows a commit wrote or deleted.
    fn written(&self, _rows: usize) {}

    /// Says that the caller does not hear what the store has done.
    fn loses_the_answer(&self, _asked: Asked) -> bool {
        false
    }

    /// Says what the caller hears although the store has done nothing.
    fn fails(&self, _asked: Asked) -> Option<StoreError> {
        None
    }
}

/// A store in memory that is listened to.
#[derive(Debug)]
pub struct Tapped<T> {
    store: MemoryStore,
    pub tap: T,
}

impl<T: Tap> Tapped<T> {
    pub fn by(tap: T) -> Arc<Self> {
        Arc::new(Self { store: MemoryStore::default(), tap })
    }
}

impl<T: Tap> Tapped<T> {
    /// Makes a call of the store between the two calls of the tap.
    async fn tapped<A>(
        &self,
        asked: Asked,
        call: impl Future<Output = Result<A, StoreError>> + Send,
        rows: impl Fn(&A) -> usize + Send,
    ) -> Result<A, StoreError> {
        self.tap.before(asked).await;
        if let Some(error) = self.tap.fails(asked) {
            return Err(error);
        }
        let answer = call.await;
        if asked != Asked::Commit {
            self.tap.read(answer.as_ref().map_or(0, rows));
        }
        self.tap.after(asked).await;
        if self.tap.loses_the_answer(asked) {
            return Err(StoreError::Unavailable("the answer was lost".into()));
        }
        answer
    }
}

#[async_trait]
impl<T: Tap> Store for Tapped<T> {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let asked = if matches!(key, Key::Session(_)) { Asked::Session } else { Asked::Other };
        self.tapped(asked, self.store.get(key), |found| usize::from(found.is_some())).await
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        let found = self.store.find(value);
        self.tapped(Asked::Other, found, |found| usize::from(found.is_some())).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.tapped(Asked::Other, self.store.list(query), |page| page.items.len()).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.tapped(Asked::Other, self.store.events(query), |page| page.items.len()).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let written = changes.writes.len() + changes.deletes.len() + changes.events.len();
        let commit = async {
            let answer = self.store.commit(changes).await;
            self.tap.written(written);
            answer
        };
        self.tapped(Asked::Commit, commit, |()| 0).await
    }
}

/// Counts what a store is asked.
#[derive(Debug, Default)]
pub struct Counting {
    reads: AtomicUsize,
    commits: AtomicUsize,
    rows_read: AtomicUsize,
    rows_written: AtomicUsize,
}

impl Counting {
    /// How many reads and commits there were since it was last asked.
    pub fn take(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::SeqCst), self.commits.swap(0, Ordering::SeqCst))
    }

    /// How many rows were read and written since it was last asked.
    pub fn take_rows(&self) -> (usize, usize) {
        (self.rows_read.swap(0, Ordering::SeqCst), self.rows_written.swap(0, Ordering::SeqCst))
    }
}

#[async_trait]
impl Tap for Counting {
    async fn before(&self, asked: Asked) {
        let count = match asked {
            Asked::Session | Asked::Other => &self.reads,
            Asked::Commit => &self.commits,
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

/// Takes the next commit but does not say so, once it is told to.
#[derive(Debug, Default)]
pub struct Forgetful(AtomicBool);

impl Forgetful {
    pub fn lose_the_next_commit(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Tap for Forgetful {
    fn loses_the_answer(&self, asked: Asked) -> bool {
        asked == Asked::Commit && self.0.swap(false, Ordering::SeqCst)
    }
}

/// Lets others go first at random, so that tasks of one thread come in between each other.
#[derive(Debug)]
pub struct Yielding(pub Rng);

#[async_trait]
impl Tap for Yielding {
    async fn before(&self, _asked: Asked) {
        for _ in 0..self.0.below(4) {
            tokio::task::yield_now().await;
        }
    }

    async fn after(&self, _asked: Asked) {
        for _ in 0..self.0.below(3) {
            tokio::task::yield_now().await;
        }
    }
}
