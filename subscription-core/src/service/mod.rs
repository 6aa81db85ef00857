//! The service: its builder, and the commits of records with their events.
//!
//! The methods are in `plans`, `subscriptions` and `payments`. Each method loads, decides and commits; if another
//! writer was faster, it loads and decides again.

mod checkout;
mod entitlement;
mod idempotency;
mod observe;
mod one_live;
mod outcome;
mod payments;
mod plans;
mod record;
mod retry;
mod rules;
mod subscriptions;
mod verbs;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::checkout::CheckoutLink;
pub use self::entitlement::{Entitlement, Grant};
#[doc(hidden)]
pub use self::observe::{Followed, ObservedChanges};
pub use self::one_live::OneLivePer;
use self::record::ServiceRecord;
pub use self::retry::Pause;
use self::retry::WriterQueues;
pub(crate) use self::rules::by_caller;
pub use self::rules::{
    CallerRules, OtherPayments, PaymentReport, PaymentRequest, ReportOutcome, RuleDecision, Rules,
    Step, StepKind,
};
pub use self::verbs::Acted;
use crate::error::{Conflict, Error};
use crate::events::{Actor, Change, Event, RecordedEvent, Subject};
use crate::store::{
    ChangeSet, Delete, EventPage, EventQuery, Guard, PageLimit, Record, Store, StoreError, Unique,
};
use crate::values::{
    Clock, EventId, Randomness, SystemClock, SystemRandomness, Timestamp, Version,
};

/// Plans, subscriptions and payments over a [`Store`].
///
/// The service holds no records, so clones are cheap and many processes may each have a service over the same
/// store.
#[derive(Debug, Clone)]
pub struct SubscriptionService {
    parts: Arc<Parts>,
    rules: Arc<dyn Rules>,
    actor: Actor,
}

#[derive(Debug)]
struct Parts {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    randomness: Arc<dyn Randomness>,
    idempotency_kept: Duration,
    checks_users: bool,
    writer_queues: WriterQueues,
    pause: Option<Pause>,
    one_live_per: Option<OneLivePer>,
}

/// Builds a [`SubscriptionService`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct ServiceBuilder(Parts);

impl ServiceBuilder {
    /// Takes the time from this clock instead of the machine's.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.0.clock = Arc::new(clock);
        self
    }

    /// Takes random bytes from this source instead of the machine's.
    pub fn randomness(mut self, randomness: impl Randomness + 'static) -> Self {
        self.0.randomness = Arc::new(randomness);
        self
    }

    /// Stores idempotency records for this long instead of 24 hours.
    pub fn keep_idempotency_for(mut self, span: Duration) -> Self {
        self.0.idempotency_kept = span;
        self
    }

    /// Accepts subscriptions only for users who have an account in the store (see `Authentication`).
    /// Otherwise any id is accepted.
    pub fn check_users(mut self) -> Self {
        self.0.checks_users = true;
        self
    }

    /// Refuses a new subscription if the user already has a live one (one that has not ended). `per` says whether every
    /// live subscription of the user counts, or only one to the same product.
    pub fn one_live_per(mut self, per: OneLivePer) -> Self {
        self.0.one_live_per = Some(per);
        self
    }

    /// Sets the function that waits before a change is tried again after it lost several times to other processes.
    /// The function calls your runtime's timer: `|span| Box::pin(tokio::time::sleep(span))`. Without it a change is
    /// tried again at once, which is enough for one process.
    pub fn pause(mut self, pause: Pause) -> Self {
        self.0.pause = Some(pause);
        self
    }

    /// The service, ready for use.
    pub fn build(self) -> SubscriptionService {
        let parts = Arc::new(self.0);
        let rules = Arc::new(CallerRules);
        SubscriptionService { parts, rules, actor: Actor::Library }
    }
}

/// A record that a request has created or changed: this request, or an earlier one with the same
/// [`Idempotency`](crate::store::Idempotency).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created<T> {
    /// The record as it was after that request.
    pub record: Arc<T>,
    /// True if an earlier request with the same key created or changed the record.
    pub replayed: bool,
}

/// # Building
impl SubscriptionService {
    /// A service over `store` with the machine's clock and randomness.
    pub fn new(store: impl Store + 'static) -> Self {
        Self::builder(store).build()
    }

    /// A builder of a service over `store`, with which the other parts can be chosen.
    pub fn builder(store: impl Store + 'static) -> ServiceBuilder {
        ServiceBuilder(Parts {
            store: Arc::new(store),
            clock: Arc::new(SystemClock),
            randomness: Arc::new(SystemRandomness),
            idempotency_kept: idempotency::KEPT,
            checks_users: false,
            writer_queues: WriterQueues::default(),
            pause: None,
            one_live_per: None,
        })
    }

    /// A clone of the service whose events name this actor, for one request or job. By default, events name
    /// [`Actor::Library`].
    #[must_use]
    pub fn by(&self, actor: Actor) -> Self {
        Self { actor, ..self.clone() }
    }

    /// A clone of the service with other rules of billing.
    #[must_use]
    pub fn with_rules(&self, rules: impl Rules + 'static) -> Self {
        Self { rules: Arc::new(rules), ..self.clone() }
    }

    /// The present moment by the service's clock.
    pub fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// The service's source of randomness.
    pub fn randomness(&self) -> &dyn Randomness {
        &*self.parts.randomness
    }
}

/// # Events and upkeep
impl SubscriptionService {
    /// Checks with an empty commit that the store accepts writes; for the readiness probe of a server.
    pub async fn check_store(&self) -> Result<(), Error> {
        self.store().commit(ChangeSet::default()).await.map_err(Error::Store)
    }

    /// The events after the sequence `after`, oldest first; 0 is before the first event.
    pub async fn events(&self, after: u64, limit: PageLimit) -> Result<Vec<RecordedEvent>, Error> {
        Ok(self.event_page(&EventQuery::after(after, limit)).await?.items)
    }

    /// The events of a query, the sequence after which the next page begins, and the sequences of the first and of the
    /// last event of the feed.
    pub async fn event_page(&self, query: &EventQuery) -> Result<EventPage, Error> {
        Ok(self.store().events(query).await?)
    }

    /// Deletes up to 1,000 events from the start of the feed that happened before a moment, and returns their number;
    /// call it regularly, each time until it returns 0. Events after the sequence `up_to` stay, because a reader that
    /// is known to this program has not read them yet. `None` sets no such limit.
    pub async fn forget_events_before(
        &self,
        moment: Timestamp,
        up_to: Option<u64>,
    ) -> Result<usize, Error> {
        let up_to = up_to.unwrap_or(u64::MAX);
        let mut count = 0;
        let mut last = 0;
        let mut query = EventQuery::after(0, PageLimit::MAX);
        while count < ChangeSet::RECORDS_MAX {
            let page = self.event_page(&query).await?;
            let old = page
                .items
                .iter()
                .take_while(|recorded| recorded.event.at < moment && recorded.sequence <= up_to);
            let old: Vec<_> = old.map(|recorded| recorded.sequence).collect();
            count += old.len();
            last = old.last().copied().unwrap_or(last);
            query.after = page.reached;
            if old.len() < query.limit.get() {
                break;
            }
        }
        if count > 0 {
            self.forget_events(last).await?;
        }
        Ok(count)
    }

    /// Removes the events up to and including this sequence from the feed. Call this method once every reader has read
    /// these events.
    pub async fn forget_events(&self, up_to: u64) -> Result<(), Error> {
        let changes = ChangeSet { forget_events: Some(up_to), ..ChangeSet::default() };
        self.store().commit(changes).await.map_err(Error::Store)
    }
}

impl SubscriptionService {
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.parts.store
    }

    pub(crate) fn rules(&self) -> &dyn Rules {
        &*self.rules
    }

    /// True if a subscription can only be created for a user with an account: see
    /// [`ServiceBuilder::check_users`].
    pub fn checks_users(&self) -> bool {
        self.parts.checks_users
    }

    pub(crate) fn writer_queues(&self) -> &WriterQueues {
        &self.parts.writer_queues
    }

    pub(crate) fn pause(&self) -> Option<Pause> {
        self.parts.pause
    }

    /// Commits a changed record with its event.
    pub(crate) async fn commit_changed<T: ServiceRecord>(
        &self,
        record: T,
        change: Change,
        guards: Vec<Guard>,
        now: Timestamp,
    ) -> Result<Arc<T>, Error> {
        let with = ChangeSet { guards, ..ChangeSet::default() };
        self.commit(Arc::new(record), change, with, now).await
    }

    /// Commits a record, its event and the changes in `with`, which follow the record and the event in the change set.
    pub(crate) async fn commit<T: ServiceRecord>(
        &self,
        record: Arc<T>,
        change: Change,
        with: ChangeSet,
        now: Timestamp,
    ) -> Result<Arc<T>, Error> {
        let changes = self.change_set(&record, change, with, now)?;
        let taken = changes.writes.clone();
        match self.store().commit(changes).await {
            Ok(()) => Ok(record),
            Err(StoreError::Taken(unique)) => Err(self.taken(unique, taken).await?),
            Err(StoreError::PlanInUse(_)) => Err(Conflict::PlanInUse.into()),
            Err(error) => Err(Error::Store(error)),
        }
    }

    /// The change set of a record, its event and the changes in `with`, which follow the record and the event.
    pub(crate) fn change_set<T: ServiceRecord>(
        &self,
        record: &Arc<T>,
        change: Change,
        mut with: ChangeSet,
        now: Timestamp,
    ) -> Result<ChangeSet, Error> {
        let event = self.event(record.subject(), record.version(), change, now)?;
        with.writes.insert(0, Arc::clone(record).into_record());
        with.events.insert(0, event);
        Ok(with)
    }

    /// Deletes a record, and commits the event of the deletion and the changes in `with` with it.
    pub(crate) async fn commit_deleted<T: ServiceRecord>(
        &self,
        record: &T,
        mut with: ChangeSet,
    ) -> Result<(), Error> {
        let subject = record.subject();
        let version = record.version();
        let event = self.event(subject.clone(), version.next(), Change::Deleted, self.now())?;
        with.deletes.push(Delete { key: subject.into(), version });
        with.events.insert(0, event);
        match self.store().commit(with).await {
            Err(StoreError::PlanInUse(_)) => Err(Conflict::PlanInUse.into()),
            done => done.map_err(Error::Store),
        }
    }

    /// A new event, which names the service's actor.
    pub(crate) fn event(
        &self,
        subject: Subject,
        version: Version,
        change: Change,
        at: Timestamp,
    ) -> Result<Event, Error> {
        let id = EventId::new(at, self.randomness())?;
        let actor = self.actor.clone();
        Ok(Event { id, at, subject, version, change, actor })
    }

    /// The error for a unique value that another record already has.
    async fn taken(&self, unique: Unique, writes: Vec<Record>) -> Result<Error, Error> {
        for write in &writes {
            for value in write.unique_values().filter(|value| value.rule() == unique) {
                let holder = self.store().find(value).await?.map(|record| record.key());
                if let Some(holder) = holder.filter(|holder| *holder != write.key()) {
                    return Ok(Conflict::Taken { unique, holder }.into());
                }
            }
        }
        // The record that had the value was deleted meanwhile, or it is the same record that is to be written. The
        // error is a conflict, so that the service decides again.
        let first = writes.first().map(Record::key);
        Ok(first.map_or(Conflict::RequestInProgress.into(), |key| {
            Error::Store(StoreError::Conflict(key))
        }))
    }
}

/// Checks that a record is still at the version that the caller had read.
pub(crate) fn expect_version(
    record: &impl ServiceRecord,
    if_version: Option<Version>,
) -> Result<(), Error> {
    let current = record.version();
    if if_version.is_some_and(|expected| expected != current) {
        return Err(Error::Stale { key: record.subject().into(), current });
    }
    Ok(())
}

/// Returns the record, or [`Error::NotFound`].
pub(crate) fn found<T>(
    record: Result<Option<T>, StoreError>,
    kind: &'static str,
    name: impl fmt::Display,
) -> Result<T, Error> {
    let found = record?;
    found.ok_or_else(|| Error::NotFound { record: kind, name: name.to_string() })
}
