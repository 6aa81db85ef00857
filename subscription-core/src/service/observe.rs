//! The change sets of observations at a payment provider: a subscription and payments, with their events.

use std::sync::Arc;

use super::SubscriptionService;
use super::payments::unchanged;
use crate::error::Error;
use crate::events::Change;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::ChangeSet;
use crate::subscriptions::{Phase, Subscription, SubscriptionStatus};
use crate::values::Timestamp;

/// One of our records, before and after the state of its object at a payment provider is copied to it.
#[derive(Debug, Clone)]
pub struct Followed<T> {
    /// The record as it is stored; `None` if the record is new.
    pub before: Option<Arc<T>>,
    /// The record as it is to be written; `None` if the stored record need not change.
    pub after: Option<T>,
}

/// The change set of an observation.
#[derive(Debug)]
pub struct ObservedChanges {
    /// The changes, which the caller commits.
    pub changes: ChangeSet,
    /// True if the subscription becomes a second live subscription, although a setting allows a user only one.
    pub is_second_live: bool,
}

/// # Observations of payment providers
impl SubscriptionService {
    /// The change set that writes an observed subscription and its payments, each with its event, and then makes the
    /// changes in `with`.
    ///
    /// The change set guards the plan of a subscription that is new or gets another plan, the account of the user of a
    /// new subscription, and the subscription itself if only its payments change. An inactive plan and a second live
    /// subscription are accepted, because the provider has already taken the money. A record that breaks the rules
    /// between its fields is [`Error::Invalid`].
    #[doc(hidden)]
    pub async fn observed_changes(
        &self,
        subscription: Followed<Subscription>,
        payments: Vec<Followed<Payment>>,
        mut with: ChangeSet,
        now: Timestamp,
    ) -> Result<ObservedChanges, Error> {
        let mut writes_payments = false;
        for payment in payments.into_iter().rev() {
            let Some(after) = payment.after else { continue };
            after.check()?;
            let before = payment.before.as_deref();
            let change = before.map_or(Change::Created, |before| before.change_to(&after));
            with = self.change_set(&Arc::new(after), change, with, now)?;
            writes_payments = true;
        }
        let Followed { before, after } = subscription;
        let before = before.as_deref();
        let Some(mut after) = after else {
            with.guards.extend(before.filter(|_| writes_payments).map(unchanged));
            return Ok(ObservedChanges { changes: with, is_second_live: false });
        };
        after.check()?;
        if before.is_none() {
            with.guards.extend(self.referenced_user(after.user_id).await?);
        }
        let plan = self.referenced_plan(after.subscription_plan_id).await?;
        if before.is_none_or(|before| before.subscription_plan_id != plan.id) {
            let guard = plan.unchanged();
            // The caller may have added the same guard already.
            with.guards.extend(Some(guard).filter(|guard| !with.guards.contains(guard)));
        }
        let has_key = self.follow_live_key(before, &mut after, &plan, &mut with, now).await?;
        let was_second = |before: &Subscription| {
            before.live_key.is_none() && before.status != SubscriptionStatus::Expired
        };
        let is_second_live = !has_key && !before.is_some_and(was_second);
        let change = before.map_or(Change::Created, |before| before.change_to(&after));
        let changes = self.change_set(&Arc::new(after), change, with, now)?;
        Ok(ObservedChanges { changes, is_second_live })
    }

    /// Sets the `live_key` of an observed subscription. The key ensures that a user has at most one live subscription.
    /// Returns false, and sets no key, if another live subscription already has the key.
    async fn follow_live_key(
        &self,
        before: Option<&Subscription>,
        after: &mut Subscription,
        plan: &Plan,
        with: &mut ChangeSet,
        now: Timestamp,
    ) -> Result<bool, Error> {
        if after.status == SubscriptionStatus::Expired {
            after.live_key = None;
            return Ok(true);
        }
        let same_plan = before.is_some_and(|before| before.subscription_plan_id == plan.id);
        let keeps_key = same_plan && after.live_key.is_some();
        if keeps_key || after.phase_at(now) == Phase::Over {
            return Ok(true);
        }
        self.claim_live_key_if_free(after, plan, with, now).await
    }
}
