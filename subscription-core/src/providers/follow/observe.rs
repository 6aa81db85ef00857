//! `observe`: reads the link of an object to our record, fetches the object, decides which records to write, and
//! commits them.
//!
//! Every commit that writes a subscription or a payment also writes the link, with the version after the one that was
//! read before the fetch. If another observation has written the link since then, the commit fails. So of two
//! observations, the one that is committed later has also fetched later: old state never overwrites new state.

use super::observation::{Attempt, Observation, StoredEvent};
use super::outcome::{EventOutcome, Interrupted};
use super::records::Decision;
use crate::error::Error;
use crate::events::Actor;
use crate::plans::Plan;
use crate::providers::api::api_limits::ReadOrder;
use crate::providers::inbox::documents::Link;
use crate::providers::{EventStatus, ObjectKind, ObjectRef, Providers, Reason};
use crate::service::ObservedChanges;
use crate::store::{ChangeSet, Document, Guard, Key, Record, StoreError, Stored};
use crate::values::{Timestamp, Version};

/// The largest number of times that an observation is tried again, for example because another writer committed first.
const TRIES_MAX: u32 = 5;

impl Providers {
    /// Observes an object: reads it from the provider and updates our records. If the object is an invoice whose
    /// subscription has no link yet, observes the subscription first.
    pub(crate) async fn observe(
        &self,
        mut of: Observation<'_>,
    ) -> Result<EventOutcome, Interrupted> {
        for _ in 0..TRIES_MAX {
            let needed = match self.observe_one(&mut of).await {
                Err(Interrupted::NeedsFirst(needed)) => needed,
                observed => return observed,
            };
            let outcome = match self.observe_one(&mut of.of_needed(needed)).await {
                Err(Interrupted::NeedsFirst(_)) => return Err(Interrupted::Lost),
                observed => observed?,
            };
            let follows = matches!(outcome.status, EventStatus::APPLIED | EventStatus::SAME);
            if !follows || of.dry_run {
                return self.answer(&mut of, outcome).await;
            }
        }
        Err(Interrupted::Lost)
    }

    /// Observes one object. If another writer committed first, tries again, a bounded number of times.
    async fn observe_one(&self, of: &mut Observation<'_>) -> Result<EventOutcome, Interrupted> {
        for _ in 0..=TRIES_MAX {
            let mut attempt = self.begin(of).await?;
            let shown = of.shown.take();
            let is_shown = shown.is_some();
            if !is_shown {
                of.read_order = ReadOrder::Later;
            }
            let is_linked = attempt.link.is_some();
            let (outcome, decision) = match self.decide(of, &mut attempt, shown).await {
                Ok(decision) => (decision.outcome.clone(), Some(decision)),
                Err(Interrupted::Settled(outcome)) => {
                    let subscription_id = attempt.link.and_then(|link| link.body.subscription_id);
                    (EventOutcome { subscription_id, is_new: !is_linked, ..outcome }, None)
                }
                Err(interrupted) => return Err(interrupted),
            };
            // The object in a page of a sync may be older than the link that was read. So the object is fetched now if
            // there is anything to write: it differs from our records, or one of the events is stored.
            let writes = outcome.status != EventStatus::SAME || of.has_stored();
            if is_shown && is_linked && writes {
                continue;
            }
            match self.commit(of, outcome, decision).await {
                Err(Interrupted::Lost) => self.reload(of).await?,
                done => return done,
            }
        }
        Err(Interrupted::Lost)
    }

    /// Begins a try: reads the link. If the try may create a record, also adds the users that the stored events of the
    /// object name to the claims of the observation.
    async fn begin(&self, of: &mut Observation<'_>) -> Result<Attempt, Error> {
        let source = &of.account.source.name;
        let now = self.now();
        let key = Link::key(source, &of.object)?;
        let link: Option<Stored<Link>> = Stored::load(self.store(), &key).await?;
        // To create a record, its user must be known. Each stored event of the provider's object can contain the user's
        // id, so all of them are read, not only those that led to this call.
        let makes_record = link.as_ref().is_none_or(|link| link.body.attach);
        if makes_record && of.object.kind != ObjectKind::Invoice {
            for event in self.events_of(source, &of.object).await? {
                of.claims.add(&event.body);
            }
        }
        Ok(Attempt { link, now, read_order: of.read_order })
    }

    /// Commits this outcome for the events of an observation, and writes no records.
    pub(crate) async fn answer(
        &self,
        of: &mut Observation<'_>,
        outcome: EventOutcome,
    ) -> Result<EventOutcome, Interrupted> {
        self.commit(of, EventOutcome { is_new: true, ..outcome }, None).await
    }

    /// Commits the records, the links and the states of the events. The error is [`Interrupted::Lost`] if another
    /// writer was faster.
    async fn commit(
        &self,
        of: &mut Observation<'_>,
        mut outcome: EventOutcome,
        decision: Option<Decision>,
    ) -> Result<EventOutcome, Interrupted> {
        let is_same = outcome.status == EventStatus::SAME;
        if of.dry_run || (of.skips_same && is_same && !of.has_stored()) {
            return Ok(outcome);
        }
        let now = self.now();
        // If this commit binds the customer to a user, or if a caller has named the user, other events of the customer
        // that wait for a user must become due.
        let binds = |decision: &Decision| decision.binding.is_some() || of.claims.decided.is_some();
        let mut binds = decision.as_ref().is_some_and(binds);
        let mut changes = ChangeSet::default();
        let mut is_second_live = false;
        if let Some(decision) = decision {
            match self.changes(of, decision, now).await {
                Ok(observed) => {
                    changes = observed.changes;
                    is_second_live = observed.is_second_live;
                }
                Err(Interrupted::Settled(failed)) => {
                    outcome = failed;
                    binds = false;
                }
                Err(interrupted) => return Err(interrupted),
            }
        }
        for stored_event in &of.stored_events {
            changes
                .writes
                .extend(answered(stored_event, &of.object, &outcome, now)?.map(Record::from));
        }
        if !changes.is_empty() {
            match self.store().commit(changes).await {
                Ok(()) => {}
                Err(StoreError::Conflict(_) | StoreError::Taken(_)) => {
                    return Err(Interrupted::Lost);
                }
                Err(error) => return Err(error.into()),
            }
        }
        of.account.count(|counters| {
            let count = u64::try_from(of.stored_events.len()).unwrap_or(u64::MAX);
            *counters.events.entry(outcome.status).or_default() += count;
            counters.second_live += u64::from(is_second_live);
        });
        self.wake_others(of, &outcome, binds).await?;
        Ok(outcome)
    }

    /// The change set of a decision. If a value is invalid for our record, the error is [`Interrupted::Settled`] with
    /// an outcome by which the events have failed.
    async fn changes(
        &self,
        of: &Observation<'_>,
        decision: Decision,
        now: Timestamp,
    ) -> Result<ObservedChanges, Interrupted> {
        let Decision { outcome, subscription, payments, plan, links, binding } = decision;
        let mut changes = ChangeSet::default();
        changes.writes.extend(links.into_iter().chain(binding).map(Record::from));
        // The plan may have been read before the fetch, and may have changed since. Then this guard makes the commit
        // fail.
        changes.guards.extend(plan.as_deref().map(unchanged));
        let service = self.service.by(Actor::Provider(of.account.source.name.clone()));
        match service.observed_changes(subscription, payments, changes, now).await {
            // The plan or the user's account has been deleted since it was read, or the account is being deleted.
            Err(Error::Conflict(_)) => Err(Interrupted::Lost),
            Err(Error::Invalid(faults)) => {
                let field = faults.iter().next().map_or("", |fault| &*fault.field);
                if matches!(field, "user_id" | "subscription_plan_id") {
                    return Err(Interrupted::Lost);
                }
                let path = Some(format!("/{field}").into());
                let status = EventStatus::failed(Reason::Unreadable);
                Err(Interrupted::Settled(EventOutcome { status, path, ..outcome }))
            }
            changes => Ok(changes?),
        }
    }

    /// If the customer of the object may be bound to a user now, makes the events of this customer due that wait
    /// because the user was unknown or in conflict.
    async fn wake_others(
        &self,
        of: &Observation<'_>,
        outcome: &EventOutcome,
        binds: bool,
    ) -> Result<(), Error> {
        let Some(customer) = &outcome.customer else { return Ok(()) };
        let waits = outcome.status == EventStatus::waiting(Reason::UnknownCustomer)
            && of.claims.decided.is_none();
        // If this event waits for the user of its customer: another commit may have bound the customer meanwhile, and
        // may have looked for waiting events before this event was stored. So the binding is read again.
        if binds || waits && self.customer_link(of.account, customer).await?.is_some() {
            match of.round {
                Some(round) => round.bound(customer.clone()),
                None => {
                    self.wake(&of.account.source.name, &[customer.clone()].into(), None).await?;
                }
            }
        }
        Ok(())
    }

    /// Prepares the next try of an observation: reads its events again, and drops the plans in memory, so that the next
    /// try reads the plans again. Events that another worker has finished or deleted are left out.
    async fn reload(&self, of: &mut Observation<'_>) -> Result<(), Error> {
        of.plans = None;
        for mut stored_event in std::mem::take(&mut of.stored_events) {
            let is_new = stored_event.version == Version::NEW;
            let stored: Option<StoredEvent> =
                Stored::load(self.store(), &stored_event.body.document_key()?).await?;
            match stored {
                Some(stored) if is_new => stored_event.version = stored.version,
                Some(stored) if stored.body.status().is_finished() => continue,
                Some(stored) => stored_event = stored,
                None if is_new => {}
                None => continue,
            }
            of.stored_events.push(stored_event);
        }
        Ok(())
    }
}

/// The guard that makes a commit fail if the plan was changed after it was read.
fn unchanged(plan: &Plan) -> Guard {
    Guard::Unchanged { key: Key::Plan(plan.id), version: plan.version }
}

/// The document of an event after an outcome; `None` if it need not be stored.
fn answered(
    stored_event: &StoredEvent,
    object: &ObjectRef,
    outcome: &EventOutcome,
    now: Timestamp,
) -> Result<Option<Document>, Error> {
    let mut event = stored_event.body.clone();
    let status = outcome.status.after_waiting(event.received_at, now);
    if stored_event.version == Version::NEW && status.is_finished() {
        return Ok(None);
    }
    event.state = status.state;
    event.reason = status.reason;
    event.attempts = event.attempts.saturating_add(1);
    event.path.clone_from(&outcome.path);
    event.resolved = Some(object.clone()).filter(ObjectRef::is_followed);
    event.customer = outcome.customer.clone().or(event.customer);
    event.subscription_id = outcome.subscription_id.or(event.subscription_id);
    event.document(stored_event.version, status.due_at(event.attempts, now)).map(Some)
}
