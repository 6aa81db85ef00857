//! A store that reports how long each call of another store took.

use std::fmt;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::{
    ChangeSet, DamagedRecord, EventPage, EventQuery, Key, Page, Query, Record, SessionQuery, Store,
    StoreError, UniqueValue, UserQuery,
};
use crate::events::{Change, Subject};
use crate::values::as_text::named_enum;

/// Receives the measurements of a [`TimedStore`].
pub trait StoreMeter: Send + Sync + fmt::Debug {
    /// Receives the time that a call took, and its error if the call failed or was refused. For
    /// [`commit_each`](Store::commit_each) this is the error of the first change set that failed; if none failed, of
    /// the first that was refused.
    fn called(&self, call: StoreCall, took: Duration, error: Option<&StoreError>);

    /// Receives a record that was left out of a list, or not returned, because it cannot be read. This may happen often
    /// for the same record.
    fn damaged(&self, _record: &DamagedRecord) {}

    /// Receives the numbers of sessions that a commit opened and revoked.
    fn sessions(&self, _opened: u64, _revoked: u64) {}
}

named_enum! {
    /// A call of a [`Store`], named by the records that it reads.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[expect(missing_docs, reason = "each is named by the records that it reads")]
    pub enum StoreCall {
        Plan = "plan",
        PlanBySlug = "plan_by_slug",
        Plans = "plans",
        Subscription = "subscription",
        SubscriptionByExternalId = "subscription_by_external_id",
        SubscriptionByLiveKey = "subscription_by_live_key",
        Subscriptions = "subscriptions",
        DueSubscriptions = "due_subscriptions",
        Payment = "payment",
        PaymentByExternalId = "payment_by_external_id",
        PaymentByPeriod = "payment_by_period",
        Payments = "payments",
        DuePayments = "due_payments",
        User = "user",
        UserByIdentity = "user_by_identity",
        UserByEmail = "user_by_email",
        Users = "users",
        ClosingUsers = "closing_users",
        Session = "session",
        Sessions = "sessions",
        EndedSessionsOf = "ended_sessions_of",
        EndedSessions = "ended_sessions",
        Client = "client",
        Clients = "clients",
        Idempotency = "idempotency",
        ExpiredIdempotency = "expired_idempotency",
        Document = "document",
        Documents = "documents",
        Events = "events",
        Commit = "commit",
        CommitEach = "commit_each",
    }
}

impl StoreCall {
    const fn get(key: &Key) -> Self {
        match key {
            Key::Plan(_) => Self::Plan,
            Key::Subscription(_) => Self::Subscription,
            Key::Payment(_) => Self::Payment,
            Key::User(_) => Self::User,
            Key::Session(_) => Self::Session,
            Key::Client(_) => Self::Client,
            Key::Idempotency(_) => Self::Idempotency,
            Key::Document(_) => Self::Document,
        }
    }

    const fn find(value: UniqueValue<'_>) -> Self {
        match value {
            UniqueValue::PlanSlug(_) => Self::PlanBySlug,
            UniqueValue::ExternalSubscription(_) => Self::SubscriptionByExternalId,
            UniqueValue::ExternalPayment(_) => Self::PaymentByExternalId,
            UniqueValue::LiveKey(_) => Self::SubscriptionByLiveKey,
            UniqueValue::PaymentPeriod(..) => Self::PaymentByPeriod,
            UniqueValue::UserIdentity(_) => Self::UserByIdentity,
            UniqueValue::UserEmail(_) => Self::UserByEmail,
        }
    }

    const fn list(query: &Query) -> Self {
        match query {
            Query::Plan(_) => Self::Plans,
            Query::Subscription(_) => Self::Subscriptions,
            Query::Payment(_) => Self::Payments,
            Query::User(UserQuery::Open { .. }) => Self::Users,
            Query::User(UserQuery::Closing { .. }) => Self::ClosingUsers,
            Query::Session(SessionQuery::LiveOf { .. }) => Self::Sessions,
            Query::Session(SessionQuery::EndedOf { .. }) => Self::EndedSessionsOf,
            Query::Session(SessionQuery::Ended { .. }) => Self::EndedSessions,
            Query::Client(_) => Self::Clients,
            Query::Idempotency(_) => Self::ExpiredIdempotency,
            Query::Document(_) => Self::Documents,
            Query::DueSubscriptions(_) => Self::DueSubscriptions,
            Query::DuePayments(_) => Self::DuePayments,
        }
    }
}

/// A store that measures the calls of another store.
///
/// Put a cache around this store, not inside it: otherwise reads from the cache would be measured too, and would hide
/// how long reads of the store take.
#[derive(Debug)]
pub struct TimedStore<S, M> {
    inner: S,
    meter: M,
}

impl<S: Store, M: StoreMeter> TimedStore<S, M> {
    /// Reports the calls of `inner` to `meter`.
    pub const fn new(inner: S, meter: M) -> Self {
        Self { inner, meter }
    }

    async fn timed<T>(
        &self,
        call: StoreCall,
        pending: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let done = pending.await;
        self.meter.called(call, begun.elapsed(), done.as_ref().err());
        done
    }
}

#[async_trait]
impl<S: Store, M: StoreMeter> Store for TimedStore<S, M> {
    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let found = self.timed(StoreCall::get(key), self.inner.get(key)).await;
        if let Err(StoreError::Damaged(cause)) = &found {
            self.meter.damaged(&DamagedRecord::of(key, cause));
        }
        found
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        self.timed(StoreCall::find(value), self.inner.find(value)).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        let page = self.timed(StoreCall::list(query), self.inner.list(query)).await?;
        for record in &page.damaged {
            self.meter.damaged(record);
        }
        Ok(page)
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.timed(StoreCall::Events, self.inner.events(query)).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let (opened, revoked) = sessions(&changes);
        let done = self.timed(StoreCall::Commit, self.inner.commit(changes)).await;
        if done.is_ok() {
            self.meter.sessions(opened, revoked);
        }
        done
    }

    async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let sessions: Vec<_> = sets.iter().map(sessions).collect();
        let begun = Instant::now();
        let done = self.inner.commit_each(sets).await;
        let mut errors = done.iter().filter_map(|outcome| outcome.as_ref().err());
        let refusal = errors.clone().next();
        let failed =
            |error: &&_| matches!(error, StoreError::Unavailable(_) | StoreError::Damaged(_));
        self.meter.called(StoreCall::CommitEach, begun.elapsed(), errors.find(failed).or(refusal));
        for ((opened, revoked), _) in
            sessions.into_iter().zip(&done).filter(|(_, done)| done.is_ok())
        {
            self.meter.sessions(opened, revoked);
        }
        done
    }
}

/// The numbers of sessions that a change set opens and revokes.
fn sessions(changes: &ChangeSet) -> (u64, u64) {
    let mut opened = 0;
    let mut revoked = 0;
    for event in &changes.events {
        if let Subject::Session(_) = event.subject {
            opened += u64::from(event.change == Change::Created);
            revoked += u64::from(matches!(event.change, Change::Revoked { .. }));
        }
    }
    (opened, revoked)
}
