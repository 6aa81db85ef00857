//! Cancelling, pausing and resuming subscriptions.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;

use super::idempotency::{Decision, IdempotentRequest};
use super::{Created, RuleDecision, SubscriptionService, expect_version, found};
use crate::error::Error;
use crate::store::{ChangeSet, Idempotency, Key, Operation};
use crate::subscriptions::{Action, Subscription};
use crate::values::{SubscriptionId, Timestamp, UserId, Version};

/// The input of a request to apply a verb. Its hash is stored with the idempotency key. If a request with the same key
/// has another hash, it is a different request, and is refused.
#[derive(Serialize)]
struct Request {
    id: SubscriptionId,
    action: Action,
}

/// A subscription after a verb of its user.
#[derive(Debug, Clone)]
pub struct Acted {
    /// The subscription as it is now.
    pub record: Arc<Subscription>,
    /// False if the verb changed nothing: for example, it had been applied before.
    pub is_changed: bool,
}

/// The result of a verb, and whether it changed the subscription.
struct Applied {
    created: Created<Subscription>,
    is_changed: bool,
}

/// # Verbs
///
/// A method that names a user changes only a subscription of that user. The subscription of another user is
/// [`Error::NotFound`], like an unknown subscription.
impl SubscriptionService {
    /// Cancels a subscription at the end of its period: see [`Subscription::cancel`]. To cancel it again changes
    /// nothing.
    pub async fn cancel(&self, id: SubscriptionId) -> Result<Arc<Subscription>, Error> {
        self.act(id, Action::Cancel(None)).await
    }

    /// Undoes the cancellation of a subscription before it ends, or ends its pause: see [`Subscription::resume`]. To
    /// resume it again changes nothing.
    pub async fn resume(&self, id: SubscriptionId) -> Result<Arc<Subscription>, Error> {
        self.act(id, Action::Resume).await
    }

    /// Applies a verb, such as cancel, to a subscription. To apply it again changes nothing.
    pub async fn act(
        &self,
        id: SubscriptionId,
        action: Action,
    ) -> Result<Arc<Subscription>, Error> {
        Ok(self.act_once(id, None::<Version>, action, None::<Idempotency>).await?.record)
    }

    /// Applies a verb to a subscription if it is still at `version`, and only once for each [`Idempotency`]. If
    /// `version` is `None`, every version is accepted; without an [`Idempotency`], each call applies the verb.
    pub async fn act_once(
        &self,
        id: SubscriptionId,
        version: impl Into<Option<Version>> + Send,
        action: Action,
        idempotency: impl Into<Option<Idempotency>> + Send,
    ) -> Result<Created<Subscription>, Error> {
        Ok(self.apply_action(id, None, version.into(), action, idempotency.into()).await?.created)
    }

    /// Applies a verb to a subscription of this user, and says whether it changed something.
    pub async fn act_of(
        &self,
        user_id: UserId,
        id: SubscriptionId,
        action: Action,
    ) -> Result<Acted, Error> {
        let applied = self.apply_action(id, Some(user_id), None, action, None).await?;
        Ok(Acted { record: applied.created.record, is_changed: applied.is_changed })
    }

    /// True if the verb can be applied to the subscription now, and changes it.
    pub fn allows(&self, subscription: &Subscription, action: Action) -> bool {
        matches!(self.rules().act(subscription, action, self.now()), Ok(Some(_)))
    }

    async fn apply_action(
        &self,
        id: SubscriptionId,
        owner: Option<UserId>,
        version: Option<Version>,
        action: Action,
        idempotency: Option<Idempotency>,
    ) -> Result<Applied, Error> {
        let request = Request { id, action };
        // Of several decisions the last one counts: those before it met a conflict.
        let is_changed = &AtomicBool::new(false);
        let decide = |current: Arc<Subscription>, now| async move {
            let is_theirs = owner.is_none_or(|owner| owner == current.user_id);
            let current = found(Ok(is_theirs.then_some(current)), "subscription", id)?;
            // A discount is only for periods that have not begun. So the steps that are due, for example a renewal that
            // the clock has not made yet, are taken first.
            if matches!(action, Action::GiveDiscount(_) | Action::RemoveDiscount) {
                self.without_due_steps(&current, now).await?;
            }
            let outcome = self.rules().act(&current, action, now)?;
            is_changed.store(outcome.is_some(), Relaxed);
            Ok(outcome.map(|outcome| (outcome, ChangeSet::default())))
        };
        let created = self.apply(id, version, &request, idempotency, decide).await?;
        Ok(Applied { created, is_changed: is_changed.load(Relaxed) })
    }

    /// Changes a subscription as `decide` says, if it is still at `version` (`None`: at any version), and only once for
    /// each idempotency key. `decide` returns the outcome and the change set that is committed with it, or `None` if
    /// nothing changes.
    pub(crate) async fn apply<F>(
        &self,
        id: SubscriptionId,
        version: Option<Version>,
        request: &(impl Serialize + Sync),
        idempotency: Option<Idempotency>,
        decide: impl Fn(Arc<Subscription>, Timestamp) -> F + Send + Sync,
    ) -> Result<Created<Subscription>, Error>
    where
        F: Future<Output = Result<Option<(RuleDecision, ChangeSet)>, Error>> + Send,
    {
        let request = IdempotentRequest::new(Operation::Act, idempotency, request);
        let applied = self
            .retrying_on(Key::Subscription(id), || {
                self.once(request.as_ref(), || async {
                    let current = self.subscription(id).await?;
                    expect_version(&*current, version)?;
                    let now = self.now();
                    let Some((outcome, with)) = decide(Arc::clone(&current), now).await? else {
                        return Ok(Decision { record: current, write: None, now });
                    };
                    let (record, change, with) = self.changes_of(outcome, with, now).await?;
                    Ok(Decision { record, write: Some((change, with)), now })
                })
            })
            .await?;
        if applied.replayed {
            return Ok(applied);
        }
        Ok(Created { record: self.take_due_steps(applied.record).await, replayed: false })
    }
}
