//! A store that tells what is asked of it, and waits while it is listened to.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use subscription_core::auth::{Client, IdentityKey, Session, User};
use subscription_core::events::RecordedEvent;
use subscription_core::store::{
    ChangeSet, IdempotencyKey, IdempotencyRecord, Page, PageLimit, PaymentQuery, PlanQuery,
    StoreError, SubscriptionQuery,
};
use subscription_core::{
    ExternalId, MemoryStore, Payment, PaymentId, Plan, PlanId, SessionId, Slug, Store,
    Subscription, SubscriptionId, Timestamp, UserId,
};

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

/// Passes each method on, between the two calls of the tap.
macro_rules! tapped {
    ($($asked:ident $name:ident($($given:ident: $kind:ty),*) -> $found:ty;)+ => { $($also:tt)* }) => {
        #[async_trait]
        impl<T: Tap> Store for Tapped<T> {$(
            async fn $name(&self, $($given: $kind),*) -> Result<$found, StoreError> {
                self.tap.before(Asked::$asked).await;
                if let Some(error) = self.tap.fails(Asked::$asked) {
                    return Err(error);
                }
                let answer = self.store.$name($($given),*).await;
                self.tap.read(answer.as_ref().map_or(0, Rows::rows));
                self.tap.after(Asked::$asked).await;
                if self.tap.loses_the_answer(Asked::$asked) {
                    return Err(StoreError::Unavailable("the answer was lost".into()));
                }
                answer
            }
        )+

            $($also)*
        }
    };
}

/// How many rows a store reads for an answer.
trait Rows {
    fn rows(&self) -> usize;
}

impl<T> Rows for Option<T> {
    fn rows(&self) -> usize {
        usize::from(self.is_some())
    }
}

impl<T> Rows for Vec<T> {
    fn rows(&self) -> usize {
        self.len()
    }
}

impl<T> Rows for Page<T> {
    fn rows(&self) -> usize {
        self.items.len()
    }
}

tapped! {
    Other plan(id: PlanId) -> Option<Arc<Plan>>;
    Other plan_by_slug(slug: &Slug) -> Option<Arc<Plan>>;
    Other plans(query: &PlanQuery) -> Page<Arc<Plan>>;
    Other subscription(id: SubscriptionId) -> Option<Arc<Subscription>>;
    Other subscription_by_external_id(id: &ExternalId) -> Option<Arc<Subscription>>;
    Other subscriptions(query: &SubscriptionQuery) -> Page<Arc<Subscription>>;
    Other payment(id: PaymentId) -> Option<Arc<Payment>>;
    Other payment_by_external_id(id: &ExternalId) -> Option<Arc<Payment>>;
    Other payments(query: &PaymentQuery) -> Page<Arc<Payment>>;
    Other user(id: UserId) -> Option<Arc<User>>;
    Other user_by_identity(identity: &IdentityKey) -> Option<Arc<User>>;
    Other closing_users(limit: PageLimit) -> Vec<Arc<User>>;
    Session session(id: SessionId) -> Option<Arc<Session>>;
    Other sessions(user: UserId, now: Timestamp) -> Vec<Arc<Session>>;
    Other ended_sessions_of(user: UserId, now: Timestamp, skip: usize, limit: PageLimit) -> Vec<Arc<Session>>;
    Other ended_sessions(before: Timestamp, limit: PageLimit) -> Vec<Arc<Session>>;
    Other client(id: &Slug) -> Option<Arc<Client>>;
    Other clients() -> Vec<Arc<Client>>;
    Other idempotency(key: &IdempotencyKey) -> Option<Arc<IdempotencyRecord>>;
    Other expired_idempotency(now: Timestamp, limit: PageLimit) -> Vec<Arc<IdempotencyRecord>>;
    Other events(after: u64, limit: PageLimit) -> Vec<RecordedEvent>;
    => {
        async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
            let written = changes.writes.len() + changes.deletes.len() + changes.events.len();
            self.tap.before(Asked::Commit).await;
            if let Some(error) = self.tap.fails(Asked::Commit) {
                return Err(error);
            }
            let answer = self.store.commit(changes).await;
            self.tap.written(written);
            self.tap.after(Asked::Commit).await;
            if self.tap.loses_the_answer(Asked::Commit) {
                return Err(StoreError::Unavailable("the answer was lost".into()));
            }
            answer
        }
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
