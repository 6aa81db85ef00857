//! `advance`: applies the events that are due.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};

use super::observation::{Observation, Round, StoredEvent};
use super::outcome::{EventOutcome, Interrupted};
use super::plans::AllPlans;
use crate::error::Error;
use crate::providers::api::api_limits::ReadOrder;
use crate::providers::facade::Account;
use crate::providers::inbox::documents::EVENTS;
use crate::providers::{EventState, EventStatus, ObjectRef, Providers};
use crate::store::{
    ChangeSet, Delete, Document, DocumentFilter, DocumentQuery, Key, PageLimit, Position, SortKey,
    StoreError, StoreExt as _, Stored,
};
use crate::values::{Slug, Timestamp, locked};

/// The number of observations of one source that run at once. It is large, because a store can write the change sets of
/// several callers together. The rate limit of the source still delays the reads.
const AT_ONCE: usize = 384;
/// The number of events after which one call of `advance` reads no further page of events. Events that must still wait
/// are counted too.
const SCANNED_MAX: usize = 5_000;
/// The largest number of events for which one observation is made. These events and the records fit in one change set.
const ANSWERED_MAX: usize = 500;
/// How long until the events of a source that is not configured are tried again.
const NOT_CONFIGURED: Duration = Duration::from_hours(6);
/// How long until an event that cannot be read is tried again.
const SET_ASIDE: Duration = Duration::from_hours(6);
/// How long until an observation is tried again after other writers were faster at each try.
const LOST: Duration = Duration::from_secs(1);

/// The result of [`Providers::advance`]. [`Providers::counters`] has the counts since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// The number of events by source and by their state afterwards.
    pub events: BTreeMap<(Slug, EventStatus), usize>,
    /// The number of events that were deleted, because they were finished long ago.
    pub deleted: usize,
    /// How long the event that had waited longest had been due; 0 if no event was due.
    pub lag: Duration,
    /// True if more events are due: call again at once.
    pub more: bool,
    /// When the next event is due; `None` if none is.
    pub next_at: Option<Timestamp>,
}

/// The events of each object, by source.
type Groups = BTreeMap<Slug, BTreeMap<ObjectRef, Vec<StoredEvent>>>;

impl Providers {
    /// Applies up to `limit` events that are due: fetches each object that they name once, and writes the
    /// records, the links and the states of the events.
    ///
    /// An event stays due if other writers committed first at each try of its observation, or if the rate limit of its
    /// source delays the read.
    pub async fn advance(&self, limit: usize) -> Result<Applied, Error> {
        let now = self.now();
        let mut applied = Applied::default();
        let groups = self.due_groups(now, limit, &mut applied).await?;
        // The plans are read after the events. So if a plan was changed before an event was received, the event is
        // applied with the changed plan.
        let plans = if groups.is_empty() { Vec::new() } else { self.all_plans().await? };
        let plans: AllPlans = plans.into();
        let mut sources = Vec::new();
        for (source, groups) in groups {
            let Some(account) = self.account(&source) else {
                let until = now.saturating_add(NOT_CONFIGURED);
                for stored_events in groups.into_values() {
                    self.postpone(&stored_events, None, until).await?;
                }
                continue;
            };
            let events = groups.values().flatten().map(|stored_event| &stored_event.body);
            let events = events.filter(|event| !event.is_of_sync());
            let last = events.map(|event| event.received_at).max();
            self.note_events(&source, last).await?;
            let round = Round { plans: Arc::clone(&plans), bound: Mutex::default() };
            sources.push(async move {
                let parts = groups.into_iter().flat_map(|(object, stored_events)| {
                    let parts = stored_events.chunks(ANSWERED_MAX);
                    parts.map(|part| (object.clone(), part.to_vec())).collect::<Vec<_>>()
                });
                // What is tried again does not take the allowance of new events.
                let mut parts: Vec<_> = parts.collect();
                parts.sort_by_key(|(_, stored_events)| stored_events.iter().all(is_retry));
                let tries = stream::iter(parts)
                    .map(|(object, stored_events)| {
                        self.apply(account, object, stored_events, &round)
                    })
                    .buffer_unordered(AT_ONCE);
                let results = tries.collect::<Vec<_>>().await;
                let bound = round.bound.into_inner().unwrap_or_else(PoisonError::into_inner);
                let woken =
                    if bound.is_empty() { Ok(()) } else { self.wake(&source, &bound, None).await };
                (source, results, woken)
            });
        }
        for (source, results, woken) in join_all(sources).await {
            woken?;
            for result in results {
                match result? {
                    Ok((status, count)) => {
                        *applied.events.entry((source.clone(), status)).or_default() += count;
                    }
                    Err(until) => applied.at(until),
                }
            }
        }
        applied.more &= applied.deleted > 0 || !applied.events.is_empty();
        let later = if applied.more { Some(now) } else { self.next_due(now).await? };
        if let Some(at) = later {
            applied.at(at);
        }
        Ok(applied)
    }

    /// Reads the events that are due and groups them by object. A finished event is due at the time of its deletion: it
    /// is deleted.
    async fn due_groups(
        &self,
        now: Timestamp,
        limit: usize,
        applied: &mut Applied,
    ) -> Result<Groups, Error> {
        let query = DocumentQuery::new(EVENTS, DocumentFilter::DueBy(now));
        let query = query.with_limit(PageLimit::MAX);
        let mut query = query.with_after(locked(&self.search_after).take());
        let mut taken = Taken { limit, now, count: 0, groups: Groups::new() };
        let mut retries = Vec::new();
        let mut expired = Vec::new();
        let mut scanned = 0;
        loop {
            let page = self.store().readable_as::<Document>(query.clone()).await?;
            for document in &page.items {
                let stored_event: StoredEvent = match Stored::read(document) {
                    Ok(stored_event) => stored_event,
                    Err(error) => {
                        self.set_aside(document, &error, now).await?;
                        continue;
                    }
                };
                let event = &stored_event.body;
                if event.status().is_finished() {
                    let key = Key::Document(document.key.clone());
                    let deletes = vec![Delete { key, version: document.version }];
                    expired.push(ChangeSet { deletes, ..ChangeSet::default() });
                    continue;
                }
                let Some(object) = event.resolved.clone().or(event.object.clone()) else {
                    continue;
                };
                let account = self.account(&event.source);
                if let Some(until) = account.and_then(|it| it.api_limits.object_held(&object, now))
                {
                    applied.at(until);
                    continue;
                }
                applied.lag =
                    applied.lag.max(document.due_at.map_or(Duration::ZERO, |at| now.since(at)));
                if !is_retry(&stored_event) {
                    taken.take(account, object, stored_event, applied);
                } else if retries.len() < limit {
                    retries.push((account, object, stored_event));
                }
            }
            scanned += page.items.len();
            query.after = page.next;
            let is_searched = scanned >= SCANNED_MAX;
            if query.after.is_none() || taken.count >= limit || is_searched {
                applied.more = query.after.is_some() || taken.count >= limit;
                if is_searched {
                    // The events before this place may be those of a source that has no reads left. The next call goes
                    // on from here, so that the events of other sources behind them do not wait for all of them.
                    *locked(&self.search_after) = query.after;
                }
                break;
            }
        }
        for (account, object, stored_event) in retries {
            taken.take(account, object, stored_event, applied);
        }
        let deleted = self.store().commit_each(expired).await;
        applied.deleted = deleted.into_iter().flatten().count();
        Ok(taken.groups)
    }

    /// Observes the object that `object` leads to, for these events. Returns the status and the number of the events,
    /// or the moment at which they are tried again.
    async fn apply(
        &self,
        account: &Account,
        object: ObjectRef,
        stored_events: Vec<StoredEvent>,
        round: &Round,
    ) -> Result<Result<(EventStatus, usize), Timestamp>, Error> {
        let count = stored_events.len();
        let now = self.now();
        if let Some(until) = account.api_limits.used_up(now) {
            return Ok(Err(until));
        }
        let stored = stored_events.clone();
        let interrupted = match self.observe_for(account, object, stored_events, Some(round)).await
        {
            Ok(outcome) => return Ok(Ok((outcome.status, count))),
            Err(interrupted) => interrupted,
        };
        let held = interrupted.retry(now.saturating_add(LOST))?;
        if !held.unavailable {
            return Ok(Err(held.until));
        }
        self.postpone(&stored, Some(EventStatus::UNAVAILABLE), held.until).await?;
        Ok(Ok((EventStatus::UNAVAILABLE, count)))
    }

    /// Finds the object that `object` leads to, and observes it for these events.
    pub(crate) async fn observe_for(
        &self,
        account: &Account,
        object: ObjectRef,
        mut stored_events: Vec<StoredEvent>,
        round: Option<&Round>,
    ) -> Result<EventOutcome, Interrupted> {
        let resolved = match account.resolve(&object, self.now()).await {
            Ok((resolved, user)) => {
                for stored_event in &mut stored_events {
                    stored_event.body.user_id = stored_event.body.user_id.or(user);
                }
                resolved
            }
            Err(Interrupted::Settled(outcome)) => {
                let mut of = Observation::of(account, object, stored_events);
                return self.answer(&mut of, outcome).await;
            }
            Err(interrupted) => return Err(interrupted),
        };
        let read_order = if resolved == object { ReadOrder::First } else { ReadOrder::Later };
        let plans = round.map(|round| Arc::clone(&round.plans));
        let of = Observation::of(account, resolved, stored_events);
        self.observe(Observation { read_order, plans, round, ..of }).await
    }

    /// Lets an event that cannot be read wait for a few hours, because no other event waits for it. A later release may
    /// be able to read it.
    async fn set_aside(
        &self,
        document: &Document,
        error: &StoreError,
        now: Timestamp,
    ) -> Result<(), Error> {
        let damaged = document.damaged(error);
        tracing::error!(id = damaged.id, cause = damaged.cause, "a provider event cannot be read");
        let version = document.version.next();
        let due_at = Some(now.saturating_add(SET_ASIDE));
        let later = Document { version, due_at, ..document.clone() };
        match self.store().commit(ChangeSet::writing(later)).await {
            Ok(()) | Err(StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives stored events another due time, and also another status if `status` is given.
    pub(crate) async fn postpone(
        &self,
        stored_events: &[StoredEvent],
        status: Option<EventStatus>,
        until: Timestamp,
    ) -> Result<(), Error> {
        let mut sets = Vec::with_capacity(stored_events.len());
        for stored_event in stored_events {
            let mut event = stored_event.body.clone();
            let status = status.unwrap_or(event.status());
            event.state = status.state;
            event.reason = status.reason;
            sets.push(ChangeSet::writing(event.document(stored_event.version, Some(until))?));
        }
        for result in self.store().commit_each(sets).await {
            match result {
                // A conflict means that another worker has written the event since it was read. A busy event is still
                // due.
                Ok(()) | Err(StoreError::Conflict(_) | StoreError::Busy(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The time after `now` at which the next event is due; `None` if nothing is due later.
    async fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        // `~` sorts after every id, because ids are UUIDs.
        let last = "~".parse().map_err(|_| Error::WrongPosition)?;
        let key = SortKey::Document { due_at: Some(now), id: last };
        let query = DocumentQuery::new(EVENTS, DocumentFilter::DueBy(Timestamp::MAX))
            .with_after(Position { key, id: uuid::Uuid::nil() })
            .with_limit(PageLimit::ONE);
        let page = self.store().readable_as::<Document>(query).await?;
        Ok(page.items.first().and_then(|document| document.due_at))
    }
}

/// True if the event was tried before, and waits for something.
fn is_retry(stored_event: &StoredEvent) -> bool {
    stored_event.body.state == EventState::Waiting
}

/// The events that one call of `advance` applies.
struct Taken {
    limit: usize,
    now: Timestamp,
    count: usize,
    groups: Groups,
}

impl Taken {
    /// Takes an event, unless the limit is reached or its source has no read left for it. For all events of one object
    /// there is one read.
    fn take(
        &mut self,
        account: Option<&Account>,
        object: ObjectRef,
        stored_event: StoredEvent,
        applied: &mut Applied,
    ) {
        if self.count == self.limit {
            return;
        }
        let source = stored_event.body.source.clone();
        let taken = self.groups.get(&source);
        if taken.is_none_or(|objects| !objects.contains_key(&object))
            && let Some(limits) = account.map(|account| &account.api_limits)
            && let Some(reads) = limits.available(self.now)
            && taken.map_or(0, BTreeMap::len) >= reads
        {
            applied.at(limits.used_up(self.now).unwrap_or(self.now));
            return;
        }
        self.count += 1;
        let objects = self.groups.entry(source).or_default();
        objects.entry(object).or_default().push(stored_event);
    }
}

impl Applied {
    fn at(&mut self, at: Timestamp) {
        self.next_at = Some(self.next_at.map_or(at, |next| next.min(at)));
    }
}
