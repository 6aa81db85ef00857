//! The limit of one live subscription for each user, or for each user and product, if a setting requires this limit.

use super::{RuleDecision, SubscriptionService};
use crate::error::{Conflict, Error};
use crate::events::{Change, Subject};
use crate::plans::Plan;
use crate::store::{
    ChangeSet, Guard, Key, PageLimit, Record, StoreExt as _, SubscriptionFilter, SubscriptionQuery,
    Unique,
};
use crate::subscriptions::{Phase, Subscription, SubscriptionStatus};
use crate::values::Timestamp;
use crate::values::as_text::named_enum;

named_enum! {
    /// The scope in which a user may have only one live subscription.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum OneLivePer {
        /// All subscriptions of the user.
        User = "user",
        /// A product: the plans with the same `product_id`. A plan without a `product_id` is a product of its own.
        Product = "product",
    }
}

impl SubscriptionService {
    /// Gives a new subscription its live key, which only one subscription can have. If another subscription has the
    /// key, and the end of that subscription has passed, that subscription gets the status `Expired` in the same
    /// commit. If that end has not passed, the result is a conflict.
    pub(super) async fn claim_live_key(
        &self,
        new: &mut Subscription,
        plan: &Plan,
        with: &mut ChangeSet,
        now: Timestamp,
    ) -> Result<(), Error> {
        let Some(per) = self.parts.one_live_per else { return Ok(()) };
        if new.status == SubscriptionStatus::Expired {
            return Ok(());
        }
        let key = one_live_key(per, new, plan);
        if new.live_key.as_ref() == Some(&key) {
            return Ok(());
        }
        let statuses = SubscriptionStatus::all()
            .filter(|status| *status != SubscriptionStatus::Expired)
            .collect();
        let filter =
            SubscriptionFilter { user_id: Some(new.user_id), statuses, ..Default::default() };
        let limit = PageLimit::MAX;
        let mut query = SubscriptionQuery { filter, limit, now, ..SubscriptionQuery::default() };
        loop {
            let page = self.store().list_as::<Subscription>(query.clone()).await?;
            for other in page.items.iter().filter(|other| other.id != new.id) {
                if self.key_of(per, other).await? != key {
                    continue;
                }
                if other.phase_at(now) != Phase::Over {
                    let unique = Unique::LiveSubscription;
                    let holder = Key::Subscription(other.id);
                    return Err(Conflict::Taken { unique, holder }.into());
                }
                if other.live_key.is_some()
                    && let Some(expired) = other.expired(now)
                {
                    let change = other.change_to(&expired);
                    let subject = Subject::Subscription(other.id);
                    with.events.push(self.event(subject, expired.version, change, now)?);
                    with.writes.push(Record::from(expired));
                }
            }
            query.after = page.next;
            if query.after.is_none() {
                new.live_key = Some(key);
                return Ok(());
            }
        }
    }

    /// Gives a subscription its new live key if `next` has another user or another plan than `current`.
    pub(crate) async fn move_live_key(
        &self,
        current: &Subscription,
        next: &mut Subscription,
        with: &mut ChangeSet,
        now: Timestamp,
    ) -> Result<(), Error> {
        let moved = (current.user_id, current.subscription_plan_id)
            != (next.user_id, next.subscription_plan_id);
        if self.parts.one_live_per.is_none() || !moved {
            return Ok(());
        }
        let plan = self.plan_by_id(next.subscription_plan_id).await?;
        self.claim_live_key(next, &plan, with, now).await
    }

    /// Gives a subscription its live key, if the key is free. Returns false if another live subscription has the key:
    /// then this subscription gets no key.
    pub(super) async fn claim_live_key_if_free(
        &self,
        new: &mut Subscription,
        plan: &Plan,
        with: &mut ChangeSet,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut expired = ChangeSet::default();
        match self.claim_live_key(new, plan, &mut expired, now).await {
            Err(Error::Conflict(Conflict::Taken { unique: Unique::LiveSubscription, .. })) => {
                new.live_key = None;
                Ok(false)
            }
            claimed => {
                claimed?;
                with.writes.append(&mut expired.writes);
                with.events.append(&mut expired.events);
                Ok(true)
            }
        }
    }

    /// Gives a subscription its new live key when its scheduled change of plan is due. If another live subscription
    /// has that key, the change still happens, because it was agreed to before.
    pub(super) async fn move_live_key_of_step(
        &self,
        outcome: &mut RuleDecision,
        with: &mut ChangeSet,
        now: Timestamp,
    ) -> Result<(), Error> {
        let Change::PlanChanged { from_plan, to_plan } = outcome.change else { return Ok(()) };
        if self.parts.one_live_per.is_none() || from_plan == to_plan {
            return Ok(());
        }
        let next = &mut outcome.subscription;
        match self.store().get_as::<Plan>(&to_plan).await? {
            Some(plan) => drop(self.claim_live_key_if_free(next, &plan, with, now).await?),
            // A guard protects scheduled plans, so only a change of the tables by hand leads here. The change was agreed
            // to, and happens.
            None => next.live_key = None,
        }
        Ok(())
    }

    /// The guard that no subscription has the plan. It is returned if live keys contain the product of a plan, and the
    /// update gives the plan another product: the live keys of the plan's subscriptions would then be wrong.
    pub(super) fn product_guards(&self, plan: &Plan, next: &Plan) -> Vec<Guard> {
        let moves = self.parts.one_live_per == Some(OneLivePer::Product)
            && plan.product_id != next.product_id;
        moves.then_some(Guard::PlanUnused(plan.id)).into_iter().collect()
    }

    async fn key_of(&self, per: OneLivePer, other: &Subscription) -> Result<Box<str>, Error> {
        match (per, &other.live_key) {
            (_, Some(key)) => Ok(key.clone()),
            (OneLivePer::User, None) => Ok(other.user_id.to_string().into()),
            (OneLivePer::Product, None) => {
                let plan = self.plan_by_id(other.subscription_plan_id).await?;
                Ok(one_live_key(per, other, &plan))
            }
        }
    }
}

fn one_live_key(per: OneLivePer, subscription: &Subscription, plan: &Plan) -> Box<str> {
    let user = subscription.user_id;
    match (per, &plan.product_id) {
        (OneLivePer::User, _) => user.to_string().into(),
        (OneLivePer::Product, Some(product)) => format!("{user} {product}").into(),
        (OneLivePer::Product, None) => format!("{user} {}", plan.id).into(),
    }
}
