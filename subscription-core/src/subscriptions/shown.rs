//! The JSON of a subscription, with its current period.

use serde::Serialize;

use super::{ScheduledChange, Subscription, SubscriptionStatus, Terms};
use crate::values::Timestamp;

impl Subscription {
    /// The start of the running period as it is stored. If it is not stored, it is `starts_at` during a trial, and
    /// otherwise the start of the period that ends at the next renewal, but not before `starts_at`. `None` if no start
    /// is stored and the subscription does not renew.
    pub fn current_period_start(&self) -> Option<Timestamp> {
        if let Some(start) = self.billing.as_ref().and_then(|billing| billing.current_period_start)
        {
            return Some(start);
        }
        let renews_at = self.renews_at?;
        let on_trial = self.status == SubscriptionStatus::OnTrial;
        let start = if on_trial { None } else { self.schedule().last_before(renews_at) };
        Some(start.map_or(self.starts_at, |start| start.max(self.starts_at)))
    }

    /// The end of the current period, which is the next renewal.
    pub const fn current_period_end(&self) -> Option<Timestamp> {
        self.renews_at
    }
}

crate::serialize_members! {
    Subscription: subscription;
    id, user_id, subscription_plan_id, external_subscription_id, billing_cycle, managed_by, quantity, price(),
    currency(), credit(), discount { subscription.discount().map(|it| it.shown()) }, status, is_active, blocked,
    renews_at, starts_at, ends_at, current_period_start(), current_period_end(), trial_ends_at(), resumes_at(),
    past_due_since(), next_action_at(), scheduled_change { subscription.shown_change() }, manage_url(), metadata,
    created_at, updated_at, version,
}

/// A scheduled change in the form that the API returns, with the moment at which it happens.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(transparent)]
pub struct ShownChange(Shown);

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
enum Shown {
    ChangePlan {
        effective_at: Option<Timestamp>,
        #[serde(flatten)]
        terms: Terms,
    },
    Pause {
        effective_at: Option<Timestamp>,
        resumes_at: Option<Timestamp>,
    },
}

impl Subscription {
    /// The scheduled change in the form that the API returns.
    pub fn shown_change(&self) -> Option<ShownChange> {
        // A change that waits for its payment happens when the payment is made, so it has no fixed moment.
        let effective_at = self.renews_at.filter(|_| self.awaited_payment().is_none());
        Some(ShownChange(match self.scheduled_change()? {
            ScheduledChange::ChangePlan(terms) | ScheduledChange::ByUser { terms, .. } => {
                Shown::ChangePlan { effective_at, terms }
            }
            ScheduledChange::Pause { resumes_at } => Shown::Pause { effective_at, resumes_at },
        }))
    }
}
