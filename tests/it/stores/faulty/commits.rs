//! The commits of a store with a fault.

#![expect(clippy::wildcard_enum_match_arm, reason = "each place knows a few of the faults")]

use std::collections::{HashMap, HashSet};
use subscription_core::plans::Plan;
use subscription_core::store::StoreExt as _;

use subscription_core::store::conformance::at_version;
use subscription_core::store::{
    BadChangeSet, ChangeSet, Guard, Record, StoreError, SubscriptionFilter, SubscriptionQuery,
    Unique, UniqueValue,
};
use subscription_core::{Payment, PaymentStatus, PlanId, Store, Subscription, Version};

use super::{Fault, FaultyStore};

/// Lets other tasks go on in the middle of a commit.
async fn let_others_in() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

fn value(write: &Record) -> Option<(Unique, String)> {
    // Of two values the last alone: of a user the address.
    let value = write.unique_values().last()?;
    let text = match value {
        UniqueValue::PlanSlug(slug) => slug.to_string(),
        UniqueValue::ExternalSubscription(id) | UniqueValue::ExternalPayment(id) => id.to_string(),
        UniqueValue::LiveKey(key) => key.into(),
        UniqueValue::PaymentPeriod(subscription, start) => format!("{subscription} {start}"),
        UniqueValue::UserIdentity(identity) => identity.subject.to_string(),
        UniqueValue::UserEmail(email) => email.key().into(),
    };
    Some((value.rule(), text))
}

fn set_version(write: &mut Record, version: Version) {
    *write = at_version(write.clone(), version.get());
}

impl FaultyStore {
    /// Commits as the fault has it.
    pub(super) async fn commit_faultily(&self, changes: ChangeSet) -> Result<(), StoreError> {
        if let Some(refusal) = self.refusal(&changes).await {
            return Err(refusal);
        }
        self.remember(&changes).await;
        let changes = self.tampered(changes).await;
        let answer = match self.fault {
            Some(Fault::AppliesTheFirstHalfOfRefusedSets) => {
                changes.check().map_err(StoreError::BadChangeSet)?;
                self.commit_parts(changes.clone(), false).await
            }
            Some(
                slow @ (Fault::ChecksVersionsBeforeLocking
                | Fault::ChecksGuardsBeforeLocking
                | Fault::ChecksPlanUseBeforeLocking
                | Fault::ShowsHalfOfACommit),
            ) => self.commit_slowly(slow, changes.clone()).await,
            Some(Fault::NumbersEventsBeforeLocking) => {
                let numbers = self.number(&changes);
                // Every other one is overtaken.
                if numbers.is_multiple_of(2) {
                    let_others_in().await;
                }
                self.inner.commit(changes.clone()).await
            }
            _ => self.inner.commit(changes.clone()).await,
        };
        if answer.is_err() {
            self.leave_behind(&changes).await;
        }
        match (self.fault, answer) {
            (Some(Fault::SwallowsTaken(fault)), Err(StoreError::Taken(unique)))
                if unique == fault =>
            {
                Ok(())
            }
            (Some(Fault::NamesAnotherUnique), Err(StoreError::Taken(_))) => {
                Err(StoreError::Taken(Unique::PlanSlug))
            }
            (Some(Fault::NamesTheFirstRecordInConflicts), Err(StoreError::Conflict(key))) => {
                Err(StoreError::Conflict(changes.writes.first().map_or(key, Record::key)))
            }
            (
                Some(Fault::SplitsLargeSets),
                Err(StoreError::BadChangeSet(BadChangeSet::TooLarge(_))),
            ) => self.commit_parts(changes, false).await,
            (_, answer) => answer,
        }
    }

    /// Commits each of several sets as the fault has it.
    pub(super) async fn commit_each_faultily(
        &self,
        mut sets: Vec<ChangeSet>,
    ) -> Vec<Result<(), StoreError>> {
        let is_reversed = self.has(Fault::CommitsTheLastSetFirst);
        if is_reversed {
            sets.reverse();
        }
        let mut first_state = HashMap::new();
        for key in sets.iter().flat_map(|changes| &changes.writes).map(Record::key) {
            first_state.insert(key.clone(), self.version(&key).await);
        }
        let mut outcomes: Vec<Result<(), StoreError>> = Vec::new();
        let mut leaked = Vec::new();
        for mut changes in sets {
            let first = changes.writes.first().map(|write| (write.key(), write.version()));
            let refusal = first.filter(|(key, version)| match self.fault {
                Some(Fault::RefusesTheSetsAfterARefusedOne) => outcomes.iter().any(Result::is_err),
                Some(Fault::JudgesAllSetsByTheFirstState) => {
                    first_state.get(key) != Some(&version.previous())
                }
                _ => false,
            });
            if let Some((key, _)) = refusal {
                outcomes.push(Err(StoreError::Conflict(key)));
                continue;
            }
            let events = changes.events.clone();
            if self.has(Fault::LeaksRefusedSetsIntoOthers) {
                changes.events.append(&mut leaked);
            }
            let outcome = self.commit_faultily(changes).await;
            if outcome.is_err() {
                leaked.extend(events);
            }
            outcomes.push(outcome);
        }
        if is_reversed {
            outcomes.reverse();
        }
        outcomes
    }

    /// Gives the events their places, and tells how many there are by then.
    fn number(&self, changes: &ChangeSet) -> usize {
        let mut memory = self.memory();
        for event in &changes.events {
            let sequence = u64::try_from(memory.sequences.len()).unwrap() + 1;
            memory.sequences.insert(event.id, sequence);
        }
        memory.sequences.len()
    }

    /// Gives every write the version that it needs to be taken.
    async fn force_writes(&self, changes: &mut ChangeSet, only_first: bool) {
        for write in &mut changes.writes {
            if write.version() != Version::NEW && (!only_first || write.version() == Version::FIRST)
            {
                let stored = self.version(&write.key()).await;
                set_version(write, stored.next());
            }
        }
    }

    async fn force_deletes(&self, changes: &mut ChangeSet) {
        let mut deletes = Vec::new();
        for mut delete in std::mem::take(&mut changes.deletes) {
            let stored = self.version(&delete.key).await;
            if stored != Version::NEW {
                delete.version = stored;
                deletes.push(delete);
            }
        }
        changes.deletes = deletes;
    }

    async fn commit_parts(
        &self,
        changes: ChangeSet,
        seen_meanwhile: bool,
    ) -> Result<(), StoreError> {
        let mut rest = changes;
        let later = rest.writes.split_off(rest.writes.len().div_ceil(2));
        let first = ChangeSet { writes: std::mem::take(&mut rest.writes), ..ChangeSet::default() };
        self.inner.commit(first).await?;
        if seen_meanwhile {
            let_others_in().await;
        }
        self.inner.commit(ChangeSet { writes: later, ..rest }).await
    }

    /// Why a set is refused that should be taken, or refused otherwise.
    async fn refusal(&self, changes: &ChangeSet) -> Option<StoreError> {
        match self.fault? {
            Fault::CountsDeletedSubscriptions => {
                let plans =
                    changes.guards.iter().filter(|guard| matches!(guard, Guard::PlanUnused(_)));
                let guards = plans.cloned().collect();
                self.inner.commit(ChangeSet { guards, ..ChangeSet::default() }).await.err()
            }
            Fault::RemembersDroppedSchedules => {
                let memory = self.memory();
                changes.guards.iter().find_map(|guard| match guard {
                    Guard::PlanUnused(plan) if memory.scheduled.contains(plan) => {
                        Some(StoreError::PlanInUse(*plan))
                    }
                    _ => None,
                })
            }
            Fault::KeepsValuesOfDeletedRecords | Fault::KeepsPeriodsOfCancelledPayments => {
                let memory = self.memory();
                let mut values = changes.writes.iter().filter_map(value);
                let taken = values.find(|value| memory.values.contains(value));
                taken.map(|(unique, _)| StoreError::Taken(unique))
            }
            Fault::RefusesRecordsTheirOwnValue => {
                let mut updates = changes.writes.iter().filter(|w| w.version() > Version::FIRST);
                let write = updates.find(|write| value(write).is_some())?;
                let same =
                    self.stored(&write.key()).await.is_some_and(|s| value(&s) == value(write));
                same.then(|| value(write)).flatten().map(|(unique, _)| StoreError::Taken(unique))
            }
            Fault::TakesNoneForAValue => {
                let mut memory = self.memory();
                let none = (Unique::ExternalPayment, String::new());
                let without = |write: &&Record| matches!(write, Record::Payment(payment) if payment.external_payment_id.is_none());
                let mut without = changes.writes.iter().filter(without);
                let clashes = without.any(|_| !memory.values.insert(none.clone()));
                clashes.then_some(StoreError::Taken(Unique::ExternalPayment))
            }
            Fault::ComparesValuesWithoutCase => {
                let mut memory = self.memory();
                let mut values = changes.writes.iter().filter_map(value);
                let clash = values.find(|(unique, value)| {
                    let folded = (*unique, value.to_lowercase());
                    let plain = (*unique, format!("as written: {value}"));
                    !memory.values.insert(folded) & memory.values.insert(plain)
                });
                clash.map(|(unique, _)| StoreError::Taken(unique))
            }
            Fault::ChecksValuesBeforeVersions => {
                let plan = changes.writes.iter().find_map(|write| {
                    if let Record::Plan(plan) = write { Some(plan) } else { None }
                });
                let (id, slug) = plan.map(|plan| (plan.id, plan.slug.clone()))?;
                let holder =
                    self.inner.find_as::<Plan>(UniqueValue::PlanSlug(&slug)).await.unwrap();
                holder.filter(|h| h.id != id).map(|_| StoreError::Taken(Unique::PlanSlug))
            }
            _ => None,
        }
    }

    async fn has_subscriptions(&self, plan: PlanId) -> bool {
        let filter = SubscriptionFilter::default().with_subscription_plan_id(Some(plan));
        let query = SubscriptionQuery::default().with_filter(filter);
        !self.inner.list_as::<Subscription>(query).await.unwrap().items.is_empty()
    }

    /// Makes of a change set what the fault makes of it.
    async fn tampered(&self, mut changes: ChangeSet) -> ChangeSet {
        match self.fault {
            Some(Fault::IgnoresVersionsOfWrites) => self.force_writes(&mut changes, false).await,
            Some(Fault::TakesFirstVersionsAsUpserts) => {
                self.force_writes(&mut changes, true).await;
            }
            Some(Fault::IgnoresVersionsOfDeletes) => self.force_deletes(&mut changes).await,
            Some(Fault::IgnoresGuards) => {
                changes.guards.retain(|guard| !matches!(guard, Guard::Unchanged { .. }));
            }
            Some(Fault::IgnoresPlanUse) => {
                changes.guards.retain(|guard| !matches!(guard, Guard::PlanUnused(_)));
            }
            Some(Fault::OverlooksScheduledPlans) => {
                for guard in std::mem::take(&mut changes.guards) {
                    let is_overlooked = match guard {
                        Guard::PlanUnused(plan) => !self.has_subscriptions(plan).await,
                        _ => false,
                    };
                    changes.guards.extend((!is_overlooked).then_some(guard));
                }
            }
            Some(Fault::IgnoresLiveSubscriptions) => {
                let is_about_live =
                    |guard: &Guard| matches!(guard, Guard::NoOtherLiveSubscription(_));
                changes.guards.retain(|guard| !is_about_live(guard));
            }
            Some(Fault::IgnoresExpiry) => {
                changes.guards.retain(|guard| !matches!(guard, Guard::Expired { .. }));
            }
            Some(Fault::TakesTheLastOfTwoWrites) => {
                let mut named = HashSet::new();
                changes.writes.reverse();
                changes.writes.retain(|write| named.insert(write.key()));
            }
            Some(Fault::TakesMirroredPaymentsForItsOwn) => {
                for write in &mut changes.writes {
                    if let Record::Payment(payment) = write {
                        let mut own = Payment::clone(payment);
                        own.asked.iter_mut().for_each(|asked| asked.mirrored = false);
                        *write = own.into();
                    }
                }
            }
            Some(Fault::DropsEvents) => changes.events.clear(),
            Some(Fault::ForgetsAllEvents) => {
                changes.forget_events = changes.forget_events.map(|_| u64::MAX);
            }
            Some(Fault::ForgetsOneEventTooFew) => {
                changes.forget_events = changes.forget_events.map(|last| last.saturating_sub(1));
            }
            _ => {}
        }
        changes
    }

    /// Commits in steps between which others come in.
    async fn commit_slowly(&self, fault: Fault, mut changes: ChangeSet) -> Result<(), StoreError> {
        let guards = changes.guards.clone();
        match fault {
            Fault::ChecksVersionsBeforeLocking => {
                let before = changes.writes.iter().map(|write| Guard::Unchanged {
                    key: write.key(),
                    version: write.version().previous(),
                });
                let guards = before.collect();
                self.inner.commit(ChangeSet { guards, ..ChangeSet::default() }).await?;
                let_others_in().await;
                self.force_writes(&mut changes, false).await;
            }
            Fault::ChecksGuardsBeforeLocking => {
                self.inner.commit(ChangeSet { guards, ..ChangeSet::default() }).await?;
                let_others_in().await;
                changes.guards.clear();
            }
            Fault::ChecksPlanUseBeforeLocking => {
                let (plan_use, others): (Vec<_>, _) =
                    guards.into_iter().partition(|guard| matches!(guard, Guard::PlanUnused(_)));
                if !plan_use.is_empty() {
                    let check = ChangeSet { guards: plan_use, ..ChangeSet::default() };
                    self.inner.commit(check).await?;
                    let_others_in().await;
                }
                changes.guards = others;
            }
            Fault::ShowsHalfOfACommit if changes.writes.len() > 1 => {
                return self.commit_parts(changes, true).await;
            }
            _ => {}
        }
        self.inner.commit(changes).await
    }

    /// Writes the part of a refused change set that the fault leaves behind.
    async fn leave_behind(&self, refused: &ChangeSet) {
        let events = refused.events.clone();
        let forget_events = refused.forget_events;
        let answers = refused.writes.iter().filter(|write| matches!(write, Record::Idempotency(_)));
        let left = match self.fault {
            Some(Fault::KeepsEventsOfRefusedSets) => ChangeSet { events, ..ChangeSet::default() },
            Some(Fault::ForgetsThoughRefused) => {
                ChangeSet { forget_events, ..ChangeSet::default() }
            }
            Some(Fault::KeepsAnswersOfRefusedSets) => {
                ChangeSet { writes: answers.cloned().collect(), ..ChangeSet::default() }
            }
            _ => return,
        };
        // An answer may clash with one that is there already.
        self.inner.commit(left).await.ok();
    }

    async fn remember(&self, changes: &ChangeSet) {
        for delete in &changes.deletes {
            let deleted = self.stored(&delete.key).await;
            let mut memory = self.memory();
            if self.has(Fault::KeepsValuesOfDeletedRecords) {
                memory.values.extend(deleted.iter().filter_map(value));
            }
            if let Some(Record::Plan(plan)) = deleted {
                memory.slugs.insert(plan.slug.clone(), Record::Plan(plan));
            }
        }
        let mut memory = self.memory();
        for write in &changes.writes {
            match write {
                Record::Plan(plan) => {
                    memory.firsts.entry(plan.id.uuid()).or_insert(write.clone());
                }
                Record::Subscription(subscription) => {
                    memory.scheduled.extend(subscription.scheduled_plan_id());
                    memory.firsts.entry(subscription.id.uuid()).or_insert(write.clone());
                }
                Record::Payment(payment) => {
                    memory.subscriptions.insert(payment.subscription_id);
                    let cancelled = payment.status == PaymentStatus::Canceled;
                    if cancelled && self.has(Fault::KeepsPeriodsOfCancelledPayments) {
                        let status = PaymentStatus::Pending;
                        let open = Record::from(Payment { status, ..Payment::clone(payment) });
                        memory.values.extend(value(&open));
                    }
                }
                Record::User(_)
                | Record::Session(_)
                | Record::Client(_)
                | Record::Idempotency(_)
                | Record::Document(_) => {}
            }
        }
    }
}
