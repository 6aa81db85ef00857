//! The verbs: changes that a caller names by what they do, instead of by fields.

use super::{Subscription, SubscriptionChanges, SubscriptionRefused, SubscriptionStatus};
use crate::values::clock::Timestamp;
use crate::values::states::InvalidTransition;

impl Subscription {
    /// The subscription cancelled at the end of its period, or `None` if it is cancelled already.
    ///
    /// Unless `ends_at` is set, it becomes the later of `renews_at` and `now`.
    pub fn cancel(&self, now: Timestamp) -> Result<Option<Self>, SubscriptionRefused> {
        self.change(SubscriptionChanges::status(SubscriptionStatus::Cancelled), now)
    }

    /// The subscription with its cancellation undone, or `None` if it is active already.
    ///
    /// Only a cancelled subscription can be resumed, before its `ends_at`, which is cleared.
    pub fn resume(&self, now: Timestamp) -> Result<Option<Self>, SubscriptionRefused> {
        let active = SubscriptionStatus::Active;
        if matches!(self.status, SubscriptionStatus::Active | SubscriptionStatus::Cancelled) {
            return self.change(SubscriptionChanges::status(active), now);
        }
        // Others become active when they are paid for, or by an update.
        let others = self.status.next().iter().filter(|status| **status != active);
        Err(InvalidTransition {
            record: "subscription",
            from: self.status.as_str(),
            to: active.as_str(),
            allowed: others.map(|status| status.as_str()).collect(),
        }
        .into())
    }
}
