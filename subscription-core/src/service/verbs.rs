//! Cancelling and resuming subscriptions.

use std::sync::Arc;

use super::{SubscriptionService, found};
use crate::error::Error;
use crate::events::Change;
use crate::store::Key;
use crate::subscriptions::{Subscription, SubscriptionRefused};
use crate::values::clock::Timestamp;
use crate::values::id::{SubscriptionId, UserId};

type Verb = fn(&Subscription, Timestamp) -> Result<Option<Subscription>, SubscriptionRefused>;

/// # Verbs
///
/// The methods that name a user change only a subscription of that user; another one is
/// [`Error::NotFound`], as an unknown one is.
impl SubscriptionService {
    /// Cancels a subscription at the end of its period: see [`Subscription::cancel`]. Cancelling it again
    /// changes nothing.
    pub async fn cancel(&self, id: SubscriptionId) -> Result<Arc<Subscription>, Error> {
        self.apply(id, None, Subscription::cancel).await
    }

    /// Cancels a subscription of this user.
    pub async fn cancel_of(
        &self,
        user_id: UserId,
        id: SubscriptionId,
    ) -> Result<Arc<Subscription>, Error> {
        self.apply(id, Some(user_id), Subscription::cancel).await
    }

    /// Undoes the cancellation of a subscription before it ends: see [`Subscription::resume`]. Resuming it
    /// again changes nothing.
    pub async fn resume(&self, id: SubscriptionId) -> Result<Arc<Subscription>, Error> {
        self.apply(id, None, Subscription::resume).await
    }

    /// Undoes the cancellation of a subscription of this user.
    pub async fn resume_of(
        &self,
        user_id: UserId,
        id: SubscriptionId,
    ) -> Result<Arc<Subscription>, Error> {
        self.apply(id, Some(user_id), Subscription::resume).await
    }

    async fn apply(
        &self,
        id: SubscriptionId,
        owner: Option<UserId>,
        verb: Verb,
    ) -> Result<Arc<Subscription>, Error> {
        self.retrying_on(Key::Subscription(id), || async {
            let current = self.subscription(id).await?;
            let is_theirs = owner.is_none_or(|owner| owner == current.user_id);
            let current = found(Ok(is_theirs.then_some(current)), "subscription", id)?;
            let now = self.now();
            let Some(next) = verb(&current, now)? else { return Ok(current) };
            let (from, to) = (current.status, next.status);
            let change = Change::SubscriptionStatusChanged { from, to };
            self.commit_changed(next, change, Vec::new(), now).await
        })
        .await
    }
}
