//! Stores that break their contract, to test that the simulation finds the fault.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::auth::RevocationReason;
use subscription_core::events::{Change, ChangedFields};
use subscription_core::store::conformance::at_version;
use subscription_core::store::{
    ChangeSet, EventPage, EventQuery, Guard, Key, Page, Query, Record, StoreError, Unique,
    UniqueValue,
};
use subscription_core::{Amount, MemoryStore, Store, Subscription, SubscriptionId, Version};

/// The fault of a broken store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakage {
    /// Events of updates never arrive.
    DropsEvents,
    /// Events arrive twice.
    RepeatsEvents,
    /// The last writer wins, even if it had read an older version.
    IgnoresVersions,
    /// A plan is deleted even if subscriptions refer to it.
    DeletesUsedPlans,
    /// The idempotency record of a request is not stored with the record that the request created.
    DropsAnswers,
    /// A full page lacks its last record.
    CutsPages,
    /// A column is missing: a block on access is not stored.
    DropsBlocks,
    /// A column is missing: a moved anchor is not stored.
    DropsAnchors,
    /// A column is missing: the store does not store that a payment was settled.
    DropsSettled,
    /// Deleted payments stay.
    KeepsDeletedPayments,
    /// A column is missing: the store does not store that a session was revoked.
    DropsRevocations,
    /// Neither a logout nor its event is stored.
    LosesLogouts,
    /// Guards are ignored.
    IgnoresGuards,
    /// The store accepts any number of payments for one period.
    AsksTwice,
    /// A change of plan has the event of an update.
    HidesPlanChanges,
    /// The payment for a change of plan has twice its right amount.
    DoublesProrations,
    /// Charge keys are the ids of payments.
    KeysByPayment,
    /// Subscriptions do not store the time of their last change of plan.
    ForgetsSettlements,
    /// The credit is lost in a change of plan.
    LosesCredit,
    /// The payment for a change of plan stores the price before the change.
    PricesBeforeTheChange,
    /// A second attempt of a payment loses what its amount was computed from.
    RebuildsBasis,
    /// A change of plan with immediate effect keeps the discount.
    KeepsDiscount,
    /// A scheduled change of plan ends the discount when it is scheduled.
    EndsDiscountEarly,
}

/// A store that is broken in one way.
#[derive(Debug)]
pub struct BrokenStore<S = MemoryStore> {
    pub inner: S,
    pub breakage: Breakage,
}

impl<S: Store> BrokenStore<S> {
    async fn version(&self, key: &Key) -> Result<Version, StoreError> {
        Ok(self.inner.get(key).await?.map_or(Version::NEW, |record| record.version()))
    }

    /// Removes revocations from a change set: either only the mark in the session, or the whole logout.
    fn lose(&self, changes: &mut ChangeSet) {
        let whole = self.breakage == Breakage::LosesLogouts;
        for write in &mut changes.writes {
            if let Record::Session(session) = write {
                let session = Arc::make_mut(session);
                let logout = RevocationReason::Logout;
                session.revoked = session.revoked.filter(|by| whole && by.reason != logout);
            }
        }
        let logout = Change::Revoked { reason: RevocationReason::Logout };
        changes.events.retain(|event| !whole || event.change != logout);
    }

    /// Removes data from a change set that a later change, or billing after a restored backup, would need.
    fn forget(&self, changes: &mut ChangeSet) {
        for write in &mut changes.writes {
            match (self.breakage, write) {
                (Breakage::KeysByPayment, Record::Payment(payment)) => {
                    if let Some(asked) = &mut Arc::make_mut(payment).asked {
                        asked.by_clock = false;
                    }
                }
                (Breakage::ForgetsSettlements, Record::Subscription(held)) => {
                    if let Some(billing) = &mut Arc::make_mut(held).billing {
                        billing.settled_at = None;
                    }
                }
                _ => {}
            }
        }
    }

    /// Breaks the amounts and the discount of a change set.
    async fn break_amounts(&self, changes: &mut ChangeSet) -> Result<(), StoreError> {
        let is_change = |change: &Change| matches!(change, Change::PlanChanged { .. });
        let changes_plan = changes.events.iter().any(|event| is_change(&event.change));
        for write in &mut changes.writes {
            match (self.breakage, write) {
                (Breakage::PricesBeforeTheChange, Record::Payment(payment)) if changes_plan => {
                    let before = self.stored(payment.subscription_id).await?;
                    let payment = Arc::make_mut(payment);
                    let asked = payment.asked.as_mut();
                    if let Some(basis) = asked.and_then(|asked| asked.basis.as_mut())
                        && let Some(price) = before.and_then(|before| before.price())
                    {
                        basis.price = price;
                    }
                }
                (Breakage::RebuildsBasis, Record::Payment(payment)) => {
                    if let Some(asked) = &mut Arc::make_mut(payment).asked
                        && asked.attempt > 1
                    {
                        asked.basis = None;
                    }
                }
                (Breakage::KeepsDiscount, Record::Subscription(held)) if changes_plan => {
                    let before = self.stored(held.id).await?;
                    let before = before.and_then(|before| before.discount());
                    if let Some(billing) = &mut Arc::make_mut(held).billing {
                        billing.discount = billing.discount.or(before);
                    }
                }
                (Breakage::EndsDiscountEarly, Record::Subscription(held))
                    if held.scheduled_plan_id().is_some() =>
                {
                    if let Some(billing) = &mut Arc::make_mut(held).billing {
                        billing.discount = None;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The subscription before a commit.
    async fn stored(&self, id: SubscriptionId) -> Result<Option<Arc<Subscription>>, StoreError> {
        let found = self.inner.get(&Key::Subscription(id)).await?;
        let Some(Record::Subscription(held)) = found else { return Ok(None) };
        Ok(Some(held))
    }

    /// Breaks the commit of a change of plan.
    fn break_plan_change(&self, changes: &mut ChangeSet) {
        let is_change = |change: &Change| matches!(change, Change::PlanChanged { .. });
        if !changes.events.iter().any(|event| is_change(&event.change)) {
            return;
        }
        if self.breakage == Breakage::HidesPlanChanges {
            let hidden = changes.events.iter_mut().filter(|event| is_change(&event.change));
            hidden.for_each(|event| {
                event.change = Change::Updated { fields: ChangedFields::default() }
            });
        }
        for write in &mut changes.writes {
            match (self.breakage, write) {
                (Breakage::DoublesProrations, Record::Payment(payment)) => {
                    let payment = Arc::make_mut(payment);
                    payment.amount = payment.amount.times(2).unwrap_or(payment.amount);
                }
                (Breakage::LosesCredit, Record::Subscription(held)) => {
                    if let Some(billing) = &mut Arc::make_mut(held).billing {
                        billing.credit = Amount::ZERO;
                    }
                }
                _ => {}
            }
        }
    }

    /// Commits a change set. If the period already has a payment, the new payment is moved by one second, so that it is
    /// accepted.
    async fn commit_second(&self, mut changes: ChangeSet) -> Result<(), StoreError> {
        let result = self.inner.commit(changes.clone()).await;
        if !matches!(result, Err(StoreError::Taken(Unique::PaymentPeriod))) {
            return result;
        }
        for write in &mut changes.writes {
            if let Record::Payment(payment) = write
                && let Some(asked) = &mut Arc::make_mut(payment).asked
            {
                asked.period_start = asked.period_start.saturating_add(Duration::from_secs(1));
            }
        }
        self.inner.commit(changes).await
    }

    /// Changes the versions in a stale change set to fit the stored records, so that it is accepted.
    async fn rebase(&self, changes: &mut ChangeSet) -> Result<(), StoreError> {
        for write in &mut changes.writes {
            let version = self.version(&write.key()).await?.next();
            *write = at_version(write.clone(), version.get());
        }
        for delete in &mut changes.deletes {
            delete.version = self.version(&delete.key).await?;
        }
        for event in &mut changes.events {
            event.version = self.version(&event.subject.clone().into()).await?.next();
        }
        Ok(())
    }
}

#[async_trait]
impl<S: Store> Store for BrokenStore<S> {
    async fn commit(&self, mut changes: ChangeSet) -> Result<(), StoreError> {
        match self.breakage {
            Breakage::DropsEvents => changes.events.retain(|event| event.version == Version::FIRST),
            Breakage::RepeatsEvents => changes.events.extend(changes.events.clone()),
            Breakage::IgnoresVersions => self.rebase(&mut changes).await?,
            Breakage::DeletesUsedPlans => {
                changes.guards.retain(|guard| !matches!(guard, Guard::PlanUnused(_)));
            }
            Breakage::DropsAnswers => {
                changes.writes.retain(|write| !matches!(write, Record::Idempotency(_)));
            }
            Breakage::KeepsDeletedPayments => {
                changes.deletes.retain(|delete| !matches!(delete.key, Key::Payment(_)));
            }
            Breakage::DropsBlocks | Breakage::DropsAnchors | Breakage::DropsSettled => {
                for write in &mut changes.writes {
                    match (self.breakage, write) {
                        (Breakage::DropsBlocks, Record::Subscription(held)) => {
                            Arc::make_mut(held).blocked = false;
                        }
                        (Breakage::DropsAnchors, Record::Subscription(held)) => {
                            Arc::make_mut(held).anchor_at = None;
                        }
                        (Breakage::DropsSettled, Record::Payment(payment)) => {
                            Arc::make_mut(payment).settled = false;
                        }
                        _ => {}
                    }
                }
            }
            Breakage::DropsRevocations | Breakage::LosesLogouts => self.lose(&mut changes),
            Breakage::IgnoresGuards => changes.guards.clear(),
            Breakage::HidesPlanChanges | Breakage::DoublesProrations | Breakage::LosesCredit => {
                self.break_plan_change(&mut changes);
            }
            Breakage::KeysByPayment | Breakage::ForgetsSettlements => self.forget(&mut changes),
            Breakage::PricesBeforeTheChange
            | Breakage::RebuildsBasis
            | Breakage::KeepsDiscount
            | Breakage::EndsDiscountEarly => self.break_amounts(&mut changes).await?,
            Breakage::CutsPages => {}
            Breakage::AsksTwice => return self.commit_second(changes).await,
        }
        self.inner.commit(changes).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        let mut page = self.inner.list(query).await?;
        let is_plans = matches!(query, Query::Plan(_));
        if self.breakage == Breakage::CutsPages && is_plans && page.next.is_some() {
            page.items.pop();
        }
        Ok(page)
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.inner.get(key).await
    }

    async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
        self.inner.find(value).await
    }

    async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        self.inner.events(query).await
    }
}
