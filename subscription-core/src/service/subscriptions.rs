//! Methods for subscriptions.

use crate::accounts::User;
use crate::store::StoreExt as _;
use std::sync::Arc;

use super::{Created, SubscriptionService, expect_version, found};
use crate::error::{Conflict, Error};
use crate::plans::{BillingCycle, Plan};
use crate::store::{
    ChangeSet, Collection, Document, DocumentKey, Guard, Idempotency, Key, Operation, Page, Record,
    StoreError, SubscriptionFilter, SubscriptionQuery,
};
use crate::subscriptions::{ManagedBy, NewSubscription, Subscription, SubscriptionChanges};
use crate::values::{FaultCode, PlanId, SubscriptionId, Timestamp, UserId, Version};

/// # Subscriptions
impl SubscriptionService {
    /// Creates a subscription to a plan that is active.
    pub async fn create_subscription(
        &self,
        new: NewSubscription,
    ) -> Result<Arc<Subscription>, Error> {
        Ok(self.create_subscription_once(new, None::<Idempotency>).await?.record)
    }

    /// Creates a subscription to a plan that is active, only once for each [`Idempotency`]. Without an [`Idempotency`],
    /// each call creates a subscription.
    pub async fn create_subscription_once(
        &self,
        new: NewSubscription,
        idempotency: impl Into<Option<Idempotency>> + Send,
    ) -> Result<Created<Subscription>, Error> {
        let new = &new;
        let made = self
            .create(Operation::CreateSubscription, idempotency.into(), new, |now| async move {
                let user = self.referenced_user(new.user_id).await;
                let plan = self.referenced_plan(new.subscription_plan_id).await;
                // If the plan does not exist, the rest of the input is still checked, to return all faults at once.
                let cycle = plan.as_ref().map_or(BillingCycle::MONTHLY, |plan| plan.billing_cycle);
                let id = SubscriptionId::new(now, self.randomness())?;
                let mut new = new.clone();
                let mut trial = None;
                if let Ok(plan) = &plan {
                    trial = self.set_defaults_of(plan, &mut new, now).await?;
                }
                let imported = new.status.is_some();
                let made = Subscription::create(new, cycle, id, now);
                let made = Error::all_faults(plan, made.map_err(Error::Invalid));
                let (user, (plan, made)) = Error::all_faults(user, made)?;
                let guards = user.into_iter().chain([open_for_new(&plan)?]).collect();
                let writes = trial.map(Record::from).into_iter().collect();
                let mut with = ChangeSet { guards, writes, ..ChangeSet::default() };
                let mut outcome = self.rules().create(made, imported, &plan, now)?;
                self.claim_live_key(&mut outcome.subscription, &plan, &mut with, now).await?;
                let (made, _, with) = self.changes_of(outcome, with, now).await?;
                Ok((Arc::unwrap_or_clone(made), with))
            })
            .await?;
        if made.replayed {
            return Ok(made);
        }
        Ok(Created { record: self.take_due_steps(made.record).await, replayed: false })
    }

    /// Sets the default manager, and the plan's trial if this is the user's first subscription. If the subscription
    /// gets this trial, returns a document that is written with the subscription. This document can be created only
    /// once for a user: if several subscriptions are created at the same time, only one gets a trial.
    async fn set_defaults_of(
        &self,
        plan: &Plan,
        new: &mut NewSubscription,
        now: Timestamp,
    ) -> Result<Option<Document>, Error> {
        let by_clock = self.rules().bills()
            && plan.currency.is_some()
            && new.external_subscription_id.is_none();
        let default = if by_clock { ManagedBy::Clock } else { ManagedBy::Caller };
        new.managed_by = new.managed_by.or(Some(default));
        if let Some(trial) = plan.trial_period
            && new.trial_ends_at.is_absent()
            && new.status.is_none()
            && self.has_no_subscription(new.user_id, now).await?
        {
            let document = trial_of(new.user_id)?;
            if self.store().get_as::<Document>(&document.key).await?.is_none() {
                new.trial_ends_at = trial.after(new.starts_at.unwrap_or(now)).into();
                return Ok(Some(document));
            }
        }
        Ok(None)
    }

    async fn has_no_subscription(&self, user: UserId, now: Timestamp) -> Result<bool, Error> {
        let filter = SubscriptionFilter::default().with_user_id(user);
        let query = SubscriptionQuery { filter, now, ..SubscriptionQuery::default() };
        Ok(self.store().list_as::<Subscription>(query).await?.items.is_empty())
    }

    /// The subscription with this id.
    pub async fn subscription(&self, id: SubscriptionId) -> Result<Arc<Subscription>, Error> {
        let subscription =
            found(self.store().get_as::<Subscription>(&id).await, "subscription", id)?;
        Ok(as_of(subscription, self.now()))
    }

    /// A page of subscriptions, as they are now.
    pub async fn subscriptions(
        &self,
        query: SubscriptionQuery,
    ) -> Result<Page<Arc<Subscription>>, Error> {
        if query.after.as_ref().is_some_and(|position| !query.order.fits(position)) {
            return Err(Error::WrongPosition);
        }
        let now = self.now();
        let query = SubscriptionQuery { now, ..query };
        let page = self.store().readable_as::<Subscription>(query).await?;
        let items = page.items.into_iter().map(|subscription| as_of(subscription, now)).collect();
        Ok(Page { items, ..page })
    }

    /// Changes a subscription. If all fields have the new values already, nothing is written.
    pub async fn update_subscription(
        &self,
        id: SubscriptionId,
        changes: SubscriptionChanges,
    ) -> Result<Arc<Subscription>, Error> {
        self.update_subscription_if(id, None::<Version>, changes).await
    }

    /// Changes a subscription if it is still at `version`. If `version` is `None`, every version is accepted.
    pub async fn update_subscription_if(
        &self,
        id: SubscriptionId,
        version: impl Into<Option<Version>> + Send,
        changes: SubscriptionChanges,
    ) -> Result<Arc<Subscription>, Error> {
        let version = version.into();
        let update = self.retrying_on(Key::Subscription(id), || async {
            let current = self.subscription(id).await?;
            expect_version(&*current, version)?;
            let now = self.now();
            let user = match changes.user_id.filter(|id| *id != current.user_id) {
                Some(user_id) => self.referenced_user(user_id).await,
                None => Ok(None),
            };
            let plan = match changes.subscription_plan_id {
                Some(id) if id != current.subscription_plan_id => {
                    self.referenced_plan(id).await.map(Some)
                }
                Some(_) | None => Ok(None),
            };
            let new_plan = plan.as_ref().ok().and_then(Option::as_deref);
            let next = current.change(changes.clone().with_cycle_of(new_plan), now);
            let next = next.map_err(Error::from);
            let (user, (plan, next)) = Error::all_faults(user, Error::all_faults(plan, next))?;
            let open = plan.as_deref().map(open_for_new).transpose()?;
            let guards = user.into_iter().chain(open).collect();
            let Some(next) = next else { return Ok(current) };
            let mut outcome = self.rules().change(&current, next, now)?;
            let mut with = ChangeSet { guards, ..ChangeSet::default() };
            self.move_live_key(&current, &mut outcome.subscription, &mut with, now).await?;
            self.commit_outcome(outcome, with, now).await
        });
        let updated = update.await?;
        Ok(self.take_due_steps(updated).await)
    }

    /// Deletes a subscription, but not its payments. If the clock manages it, its open payments are cancelled.
    pub async fn delete_subscription(&self, id: SubscriptionId) -> Result<(), Error> {
        self.delete_subscription_if(id, None::<Version>).await
    }

    /// Deletes a subscription if it is still at `version`. If `version` is `None`, every version is accepted.
    pub async fn delete_subscription_if(
        &self,
        id: SubscriptionId,
        version: impl Into<Option<Version>> + Send,
    ) -> Result<(), Error> {
        let version = version.into();
        self.retrying_on(Key::Subscription(id), || async {
            let subscription = self.subscription(id).await?;
            expect_version(&*subscription, version)?;
            let mut with = ChangeSet::default();
            if subscription.managed_by == ManagedBy::Clock {
                self.cancel_payments(id, Timestamp::MIN, &mut with, self.now()).await?;
            }
            self.commit_deleted(&*subscription, with).await
        })
        .await
    }

    /// Checks that the user has an account, and returns the guard that the account is not changed before the commit.
    /// `None` if the service does not check users.
    pub(super) async fn referenced_user(&self, id: UserId) -> Result<Option<Guard>, Error> {
        if !self.checks_users() {
            return Ok(None);
        }
        let user = self.store().get_as::<User>(&id).await?;
        let user = user.ok_or_else(|| unknown("user_id", "must be an existing user"))?;
        if user.closing {
            return Err(Conflict::AccountClosing.into());
        }
        Ok(Some(Guard::Unchanged { key: Key::User(id), version: user.version }))
    }

    pub(crate) async fn referenced_plan(&self, id: PlanId) -> Result<Arc<Plan>, Error> {
        let plan = self.store().get_as::<Plan>(&id).await?;
        plan.ok_or_else(|| unknown("subscription_plan_id", "must be an existing plan"))
    }
}

/// The document which records that a user has had a trial.
fn trial_of(user: UserId) -> Result<Document, Error> {
    let id = user.to_string().parse().map_err(|error| StoreError::Damaged(Box::new(error)))?;
    let key = DocumentKey { collection: Collection::named("trial"), id };
    let version = Version::FIRST;
    let owner = Some(user.uuid());
    Ok(Document { key, version, owner, label: None, due_at: None, body: "{}".into() })
}

fn unknown(field: &'static str, message: &'static str) -> Error {
    Error::invalid(FaultCode::UnknownReference, message, field)
}

/// Checks that the plan is active, and returns the guard that it is not changed before the commit.
fn open_for_new(plan: &Plan) -> Result<Guard, Error> {
    if plan.is_active { Ok(plan.unchanged()) } else { Err(Conflict::PlanInactive.into()) }
}

impl Plan {
    /// The guard that the plan is not changed before the commit.
    pub(crate) const fn unchanged(&self) -> Guard {
        Guard::Unchanged { key: Key::Plan(self.id), version: self.version }
    }
}

/// The subscription as of `now`; copied only if its access differs from the stored one.
fn as_of(subscription: Arc<Subscription>, now: Timestamp) -> Arc<Subscription> {
    if subscription.is_active == subscription.is_active_at(now) {
        subscription
    } else {
        Arc::new(subscription.as_of(now))
    }
}
