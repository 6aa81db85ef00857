//! The storage contract: what the service asks of a store.
//!
//! A store keeps records and finds them again. It knows none of the rules of the domain: what may
//! change into what is decided by the service, which loads, decides, and then commits. What a store
//! must get right is stated at [`Store`], and `store_conformance!` (feature `conformance`) shows
//! whether it does.

mod access_class;
mod cached;
mod change_set;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod idempotency;
mod memory;
mod query;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod sql;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod transfer;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use cached::{CacheInvalidator, CachedStore};
pub use change_set::{ChangeSet, Delete, Guard, Key, Write};
pub use error::{BadChangeSet, Source, StoreError, Unique};
pub use idempotency::{
    Answer, Idempotency, IdempotencyKey, IdempotencyRecord, Operation, RequestKey,
};
pub use memory::MemoryStore;
pub use query::{
    Direction, Page, PageLimit, PaymentQuery, PlanFilter, PlanOrder, PlanQuery, Position, SortKey,
    SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};

#[cfg(feature = "postgres")]
pub use sql::postgres::{PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
pub use sql::sqlite::{SqliteOptions, SqliteStore};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use sql::{SqlStore, error::OpenError};

use crate::accounts::{Client, IdentityKey, Session, User};
use crate::events::RecordedEvent;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::subscriptions::Subscription;
use crate::values::clock::Timestamp;
use crate::values::id::{PaymentId, PlanId, SessionId, SubscriptionId, UserId};
use crate::values::text::{ExternalId, Slug};

/// Keeps records: many ways to read, one way to write.
///
/// Reads give `Ok(None)` for what is not there. A record is handed out behind an [`Arc`], so that a
/// store which holds records in memory need not copy them.
///
/// # Commit
///
/// To ensure correctness:
///
/// - [`commit`](Store::commit) takes all of a [`ChangeSet`] or none of it. No reader sees a part of
///   it, and a refused one leaves nothing behind, no event either.
/// - Once it has returned `Ok`, every later read sees the change, and the change survives a crash of
///   the process as far as the store promises to keep anything.
/// - A [`Write`] is taken only if the stored record has the version before the record's own; for
///   [`Version::FIRST`](crate::Version::FIRST) there must be no such record. A [`Delete`] and a
///   [`Guard::Unchanged`] are taken only at the very version they name. Otherwise the commit is
///   refused with [`StoreError::Conflict`], which names the record.
/// - [`Guard::PlanUnused`] holds if no subscription refers to the plan once the set's deletes are
///   done; otherwise [`StoreError::PlanInUse`]. A subscription that is being written at the same
///   time under a [`Guard::Unchanged`] of the plan is either seen by this guard or refused itself.
/// - [`Guard::NoOtherLiveSubscription`] holds if each subscription of the user that is not
///   [expired](crate::subscriptions::SubscriptionStatus::Expired) is written or deleted by the set;
///   otherwise [`StoreError::Conflict`] with the user's key. A subscription that is being written at
///   the same time under a [`Guard::Unchanged`] of the user is either seen by this guard, or refused
///   itself if the set writes or deletes the user.
/// - [`Guard::Expired`] holds if the stored idempotency record expires at that moment or before; otherwise
///   [`StoreError::Conflict`] with its key. Versions alone cannot tell: a key that is used again after
///   its record was deleted begins at the first version again.
/// - What [`Unique`] names is unique among the records that exist. Otherwise the commit is refused
///   with [`StoreError::Taken`]. Deletes come before writes: a set may delete a record and give its
///   slug to a new one. (The service never passes a value between two records that one set writes;
///   what happens then is up to the store.)
/// - References are the service's business, which holds them by guards: a store takes a payment for a
///   subscription that it does not have.
/// - A guard is about what is stored before the set: it says nothing of records that the set itself
///   writes.
/// - A set that breaks [`ChangeSet::check`] is refused with [`StoreError::BadChangeSet`].
/// - Versions are checked before uniqueness, so that who is told `Taken` had read the latest.
/// - Where two sets race for the same record or value, one is taken and the other refused.
/// - An empty set is taken and changes nothing. It is how a server asks whether the store takes writes,
///   so a store whose file is gone, whose own disk is full or that can only be read refuses it, as it
///   would any other, with [`StoreError::Unavailable`].
/// - [`StoreError::Unavailable`] is the one error after which a set may have been taken.
///
/// # Lists
///
/// - A page holds records that its filter admits, in its order, from after its position on, up to its
///   limit. [`Page::next`] is the position of the last one, and set only if more follow.
/// - Records alike in what they are sorted by are sorted by id, in the same direction. Ids order as
///   their bytes do, which is the order of creation.
/// - A position need not be that of a record that exists still.
/// - Names sort byte by byte, prices by value, renewals that are not set after all others;
///   descending is the exact reverse.
/// - Going on from [`Page::next`] gives every record that was there all the while exactly once,
///   whatever is made, changed elsewhere or deleted meanwhile.
///
/// # Events
///
/// - The events of a set enter the feed with it, in their order. [`RecordedEvent::sequence`] rises
///   along the feed. Once a reader has seen a sequence, no event with a smaller one appears later.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// The plan of this id.
    async fn plan(&self, id: PlanId) -> Result<Option<Arc<Plan>>, StoreError>;

    /// The plan of this slug.
    async fn plan_by_slug(&self, slug: &Slug) -> Result<Option<Arc<Plan>>, StoreError>;

    /// A page of plans.
    async fn plans(&self, query: &PlanQuery) -> Result<Page<Arc<Plan>>, StoreError>;

    /// The subscription of this id.
    async fn subscription(
        &self,
        id: SubscriptionId,
    ) -> Result<Option<Arc<Subscription>>, StoreError>;

    /// The subscription of this id at the payment provider.
    async fn subscription_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Subscription>>, StoreError>;

    /// A page of subscriptions.
    async fn subscriptions(
        &self,
        query: &SubscriptionQuery,
    ) -> Result<Page<Arc<Subscription>>, StoreError>;

    /// The payment of this id.
    async fn payment(&self, id: PaymentId) -> Result<Option<Arc<Payment>>, StoreError>;

    /// The payment of this id at the payment provider.
    async fn payment_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Payment>>, StoreError>;

    /// A page of the payments of a subscription, which need not exist any more.
    async fn payments(&self, query: &PaymentQuery) -> Result<Page<Arc<Payment>>, StoreError>;

    /// The user of this id.
    async fn user(&self, id: UserId) -> Result<Option<Arc<User>>, StoreError>;

    /// The user of this identity.
    async fn user_by_identity(
        &self,
        identity: &IdentityKey,
    ) -> Result<Option<Arc<User>>, StoreError>;

    /// Up to `limit` users whose account is [closing](User::closing), by id.
    async fn closing_users(&self, limit: PageLimit) -> Result<Vec<Arc<User>>, StoreError>;

    /// The session of this id, ended or not.
    async fn session(&self, id: SessionId) -> Result<Option<Arc<Session>>, StoreError>;

    /// The sessions of a user that [end](Session::ended_at) after `now`, newest first.
    async fn sessions(&self, user: UserId, now: Timestamp)
    -> Result<Vec<Arc<Session>>, StoreError>;

    /// Up to `limit` sessions of a user that [ended](Session::ended_at) at `now` or earlier, the latest
    /// ended first, without the first `skip` of them.
    async fn ended_sessions_of(
        &self,
        user: UserId,
        now: Timestamp,
        skip: usize,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError>;

    /// Up to `limit` sessions that [ended](Session::ended_at) at `before` or earlier, the longest ended
    /// first.
    async fn ended_sessions(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError>;

    /// The client of this id.
    async fn client(&self, id: &Slug) -> Result<Option<Arc<Client>>, StoreError>;

    /// Every client, by id.
    async fn clients(&self) -> Result<Vec<Arc<Client>>, StoreError>;

    /// The answer kept for a request, expired or not.
    async fn idempotency(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<Arc<IdempotencyRecord>>, StoreError>;

    /// Up to `limit` answers that expire at `now` or before, the longest expired first.
    async fn expired_idempotency(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<IdempotencyRecord>>, StoreError>;

    /// Up to `limit` events of the feed with a sequence above `after`.
    async fn events(&self, after: u64, limit: PageLimit) -> Result<Vec<RecordedEvent>, StoreError>;

    /// Takes all of a change set or none of it.
    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError>;
}
