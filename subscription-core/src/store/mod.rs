//! The storage contract: the requirements of the service on a store.
//!
//! A store saves records and finds them again. It knows none of the rules of the domain: the service
//! loads records, decides which changes are allowed, and then commits the changes. The rules that a
//! store must follow are stated at [`Store`], and `store_conformance!` (feature `conformance`) tests
//! whether a store follows them.

mod access_class;
mod cached;
mod change_set;
#[cfg(feature = "conformance")]
pub mod conformance;
mod damaged;
mod document;
#[cfg(any(feature = "providers", feature = "webhooks"))]
mod document_body;
mod due;
mod error;
mod event_query;
mod feed_signal;
mod idempotency;
mod memory;
mod query;
mod record;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod sql;
mod subscription_query;
mod timed;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod transfer;
mod unique;
mod user_query;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use crate::payments::Payment;
use crate::subscriptions::Subscription;

pub use cached::{CacheInvalidator, CachedStore};
pub use change_set::{ChangeSet, Delete, Guard};
pub use damaged::DamagedRecord;
pub use document::{Collection, Document, DocumentFilter, DocumentKey, DocumentQuery};

#[cfg(any(feature = "providers", feature = "webhooks"))]
pub(crate) use document_body::{Stored, document_key};
pub use due::{DuePayments, DueSubscriptions};
pub use error::{BadChangeSet, Cause, StoreError};
pub use event_query::{EventPage, EventQuery};
pub use feed_signal::FeedSignal;
pub use idempotency::{
    Idempotency, IdempotencyKey, IdempotencyRecord, IdempotencyResult, IdempotencyToken, Operation,
};
pub use memory::MemoryStore;
pub use query::{
    ClientQuery, Direction, IdempotencyQuery, Page, PageLimit, PaymentQuery, PlanFilter, PlanOrder,
    PlanQuery, Position, SessionQuery, SortKey,
};
pub use record::{Key, Kind, Query, Record};
pub use subscription_query::{SubscriptionFilter, SubscriptionOrder, SubscriptionQuery};
pub use timed::{StoreCall, StoreMeter, TimedStore};
pub use unique::{Unique, UniqueValue};
pub use user_query::{UserFilter, UserQuery};

pub use crate::values::document_id::{DocumentId, Label};
pub use crate::values::email_key::{EmailKey, EmailPrefix};

#[cfg(feature = "postgres")]
pub use sql::postgres::{LeaderLock, PostgresOptions, PostgresStore, Protection};
#[cfg(feature = "sqlite")]
pub use sql::sqlite::{SqliteOptions, SqliteStore};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use sql::{SqlStore, error::OpenError};

/// Stores records. Four methods read; one commits a change set, and one commits several.
///
/// [`StoreExt`] has the same reads for one kind of record.
///
/// Reads return `Ok(None)` for a record that does not exist. Records are returned behind an [`Arc`], so that
/// a store in memory need not copy them.
///
/// # Commit
///
/// Every store follows these rules:
///
/// - [`commit`](Store::commit) applies all of a [`ChangeSet`] or none of it. No reader sees a part of
///   it, and a refused set writes nothing, no event either.
/// - Once it has returned `Ok`, every later read sees the change, and the change survives a crash of
///   the process as far as the store promises durability.
/// - A write of version n is accepted only if the stored record has version n - 1; a write of
///   [`Version::FIRST`](crate::Version::FIRST) only if there is no such record. A [`Delete`] and a
///   [`Guard::Unchanged`] are accepted only if the stored record has the version that they name. Otherwise
///   the commit is refused with [`StoreError::Conflict`], which names the record.
/// - [`Guard::PlanUnused`] holds if, after the deletes of the set, no subscription has the plan or is
///   [scheduled](crate::Subscription::scheduled_plan_id) to change to it; otherwise the commit is refused with
///   [`StoreError::PlanInUse`]. If another commit writes a subscription at the same time under a [`Guard::Unchanged`]
///   of the plan, either this guard sees that subscription, or the other commit is refused. This guard also sees a
///   subscription whose scheduled change to the plan is executed at the same time.
/// - [`Guard::NoOtherLiveSubscription`] holds if each subscription of the user that is not
///   [expired](crate::subscriptions::SubscriptionStatus::Expired) is written or deleted by the set; otherwise the
///   commit is refused with [`StoreError::Conflict`] and the key of the user. If this set also writes or deletes the
///   user, and another commit writes a subscription at the same time under a [`Guard::Unchanged`] of the user, then
///   either this guard sees that subscription, or the other commit is refused.
/// - [`Guard::Expired`] holds if the stored idempotency record expires at the moment `by` or before; otherwise the
///   commit is refused with [`StoreError::Conflict`] and the key of that record. Versions alone cannot show this: if a
///   record was deleted, the next record with the same key begins again at the first version.
/// - The values that [`Unique`] names are unique among the records that exist. Otherwise the commit is refused
///   with [`StoreError::Taken`]. Deletes come before writes: a set may delete a record and give its
///   slug to a new one. A set may also move a live key or a period from one record to another, if it writes
///   both. (The service moves no other value between two records that one set writes; a store may accept
///   or refuse such a set.)
/// - The service checks references between records, by guards. A store accepts a payment for a subscription
///   that it does not have.
/// - A guard is checked against the records stored before the set, not against records that the set itself
///   writes.
/// - A set that breaks [`ChangeSet::check`] is refused with [`StoreError::BadChangeSet`].
/// - Versions are checked before uniqueness: a caller that gets `Taken` had read the latest versions.
/// - If two sets race for the same record or value, one is accepted and the other refused.
/// - An empty set is accepted and changes nothing. A server commits one to check whether the store accepts
///   writes. So a store that cannot write (its file is gone, its disk is full, it is read-only) refuses also an
///   empty set, with [`StoreError::Unavailable`].
/// - [`StoreError::Unavailable`] is the only error after which a set may have been applied.
/// - [`commit_each`](Store::commit_each) has the effect of commits of one set after the other: each set is
///   checked after the sets before it were written, and a refused set does not affect the others. It returns a
///   result for each set, in their order. A store whose records others can lock does not wait for them: it refuses the
///   sets that need such a record with [`StoreError::Busy`].
///
/// # Lists
///
/// - A page has the records that the filter of the query admits, in the order of the query, after its position, up to
///   its limit. [`Page::next`] is the position of the last record of the page, and is set only if more records follow.
/// - Records with the same sort value are sorted by id, in the same direction. Ids are sorted byte by byte,
///   which is the order of creation.
/// - A position may be that of a record that no longer exists.
/// - Names and the keys of e-mail addresses are sorted byte by byte, and prices by value. Subscriptions without a
///   renewal come last. The descending order is the exact reverse of the ascending one.
/// - A record that cannot be read is not a reason to refuse the list: the page has the next record in its place, and
///   [`Page::damaged`] names it.
/// - A caller that reads page after page, each from the [`Page::next`] of the page before, gets every record
///   that exists during all of these reads exactly once, whatever other records are written or deleted.
///
/// # Events
///
/// - The events of a set enter the feed with it, in their order. [`sequence`](crate::events::RecordedEvent::sequence)
///   rises along the feed. Once a reader has seen a sequence, no event with a smaller sequence appears later.
/// - A read looks at no more than [`EventQuery::SCANNED_MAX`] events. [`EventPage::reached`] can be the sequence of an
///   event that the query does not request, but it is never beyond an event that only a later read can see.
/// - [`EventPage::first_kept`] and [`EventPage::last`] stay correct when events are deleted: a feed whose
///   events are all deleted continues after `last`.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// The record of this key.
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError>;

    /// The record that has this value.
    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError>;

    /// A page of records. If the result of a query depends on the time, the query contains the time.
    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError>;

    /// Returns the part of the event feed that the query selects.
    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError>;

    /// Applies all of a change set or none of it.
    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError>;

    /// Commits the sets one after the other. Each set is accepted or refused by itself, and has its own result.
    ///
    /// A store overrides this method if the sets can share a transaction or a round trip. A store that wraps another
    /// store forwards the call.
    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let mut outcomes = Vec::with_capacity(sets.len());
        for changes in sets {
            outcomes.push(self.commit(changes).await);
        }
        outcomes
    }
}

/// Reads of one [`Kind`] of record, for every [`Store`].
pub trait StoreExt: Store {
    /// The record of this id.
    fn get_as<K: Kind>(
        &self,
        id: &K::Id,
    ) -> impl Future<Output = Result<Option<Arc<K>>, StoreError>> + Send {
        let key = K::key(id);
        async move { self.get(&key).await?.map(expect_kind).transpose() }
    }

    /// The record that has this value.
    fn find_as<K: Kind>(
        &self,
        value: UniqueValue<'_>,
    ) -> impl Future<Output = Result<Option<Arc<K>>, StoreError>> + Send {
        async move { self.find(value).await?.map(expect_kind).transpose() }
    }

    /// A page of records. Fails with [`StoreError::Damaged`] if one of them cannot be read, because a caller who decides
    /// by a list must know all of it.
    fn list_as<K: Kind>(
        &self,
        query: K::Query,
    ) -> impl Future<Output = Result<Page<Arc<K>>, StoreError>> + Send {
        let page = self.readable_as(query);
        async move { page.await?.whole() }
    }

    /// A page of records. A record that cannot be read is in [`Page::damaged`], and does not prevent the reading of the
    /// others.
    fn readable_as<K: Kind>(
        &self,
        query: K::Query,
    ) -> impl Future<Output = Result<Page<Arc<K>>, StoreError>> + Send {
        let query = K::query(query);
        async move { expect_page(self.list(&query).await?) }
    }

    /// All records of a list, read page by page. `query` returns the query of the page after a position, or of the
    /// first page for `None`.
    fn all_as<K: Kind>(
        &self,
        query: impl Fn(Option<Position>) -> K::Query + Send,
    ) -> impl Future<Output = Result<Vec<Arc<K>>, StoreError>> + Send {
        async move {
            let mut all = Vec::new();
            let mut after = None;
            loop {
                let page = self.list_as::<K>(query(after)).await?;
                all.extend(page.items);
                after = page.next;
                if after.is_none() {
                    return Ok(all);
                }
            }
        }
    }

    /// A page of the subscriptions that are due. Those that cannot be read are in [`Page::damaged`].
    fn due_subscriptions(
        &self,
        query: DueSubscriptions,
    ) -> impl Future<Output = Result<Page<Arc<Subscription>>, StoreError>> + Send {
        async move { expect_page(self.list(&Query::DueSubscriptions(query)).await?) }
    }

    /// A page of the payments that are due. Those that cannot be read are in [`Page::damaged`].
    fn due_payments(
        &self,
        query: DuePayments,
    ) -> impl Future<Output = Result<Page<Arc<Payment>>, StoreError>> + Send {
        async move { expect_page(self.list(&Query::DuePayments(query)).await?) }
    }
}

impl<T> Page<T> {
    /// The page, or [`StoreError::Damaged`] if one of its records cannot be read: for callers who must know every
    /// record of the list before they decide.
    pub fn whole(self) -> Result<Self, StoreError> {
        match self.damaged.first() {
            None => Ok(self),
            Some(damaged) => Err(StoreError::Damaged(damaged.to_string().into())),
        }
    }
}

/// The record, or [`StoreError::Damaged`] if the store returned a record of another kind.
fn expect_kind<K: Kind>(record: Record) -> Result<Arc<K>, StoreError> {
    K::from_record(record)
        .ok_or_else(|| StoreError::Damaged("the store returned a record of another kind".into()))
}

/// The page, or [`StoreError::Damaged`] if one of its records is of another kind.
fn expect_page<K: Kind>(page: Page<Record>) -> Result<Page<Arc<K>>, StoreError> {
    let items = page.items.into_iter().map(expect_kind).collect::<Result<_, _>>()?;
    Ok(Page { items, next: page.next, damaged: page.damaged })
}

impl<S: Store + ?Sized> StoreExt for S {}

/// Implements the methods of a pointer to a store. The methods return the future of the inner store itself, without a
/// second future around it.
macro_rules! passed_on {
    ($($method:ident $(<$life:lifetime>)? ($argument:ident: $type:ty) -> $answer:ty;)+) => {$(
        fn $method<'a, $($life,)? 'f>(&'a self, $argument: $type) -> BoxFuture<'f, $answer>
        where
            'a: 'f,
            $($life: 'f,)?
            Self: 'f,
        {
            (**self).$method($argument)
        }
    )+};
}

/// Implements [`Store`] for pointers to stores.
macro_rules! pointers_to_stores {
    ($($pointer:ident)+) => {$(
        impl<S: Store + ?Sized> Store for $pointer<S> {
            passed_on! {
                get<'b>(key: &'b Key) -> Result<Option<Record>, StoreError>;
                find<'b>(value: UniqueValue<'b>) -> Result<Option<Record>, StoreError>;
                list<'b>(query: &'b Query) -> Result<Page<Record>, StoreError>;
                events<'b>(query: &'b EventQuery) -> Result<EventPage, StoreError>;
                commit(changes: ChangeSet) -> Result<(), StoreError>;
                commit_each(sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>>;
            }
        }
    )+};
}

pointers_to_stores! { Arc Box }
