//! The JSON of a subscription, with its current period.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::{ScheduledChange, Subscription, SubscriptionStatus, Terms};
use crate::values::Timestamp;

impl Subscription {
    /// The start of the running period as it is stored, else of the period that ends with the next renewal, but not
    /// before `starts_at`. During a trial it is the start of the trial. `None` if no start is stored and the
    /// subscription does not renew.
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

impl Serialize for Subscription {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Subscription", 29)?;
        let discount = self.discount();
        fields.serialize_field("id", &self.id)?;
        fields.serialize_field("user_id", &self.user_id)?;
        fields.serialize_field("subscription_plan_id", &self.subscription_plan_id)?;
        fields.serialize_field("external_subscription_id", &self.external_subscription_id)?;
        fields.serialize_field("billing_cycle", &self.billing_cycle)?;
        fields.serialize_field("managed_by", &self.managed_by)?;
        fields.serialize_field("quantity", &self.quantity)?;
        fields.serialize_field("price", &self.price())?;
        fields.serialize_field("currency", &self.currency())?;
        fields.serialize_field("credit", &self.credit())?;
        fields.serialize_field("discount", &discount.map(|it| it.shown()))?;
        fields.serialize_field("status", &self.status)?;
        fields.serialize_field("is_active", &self.is_active)?;
        fields.serialize_field("blocked", &self.blocked)?;
        fields.serialize_field("renews_at", &self.renews_at)?;
        fields.serialize_field("starts_at", &self.starts_at)?;
        fields.serialize_field("ends_at", &self.ends_at)?;
        fields.serialize_field("current_period_start", &self.current_period_start())?;
        fields.serialize_field("current_period_end", &self.current_period_end())?;
        fields.serialize_field("trial_ends_at", &self.trial_ends_at())?;
        fields.serialize_field("resumes_at", &self.resumes_at())?;
        fields.serialize_field("past_due_since", &self.past_due_since())?;
        fields.serialize_field("next_action_at", &self.next_action_at())?;
        fields.serialize_field("scheduled_change", &self.shown_change())?;
        fields.serialize_field("manage_url", &self.manage_url())?;
        fields.serialize_field("metadata", &self.metadata)?;
        fields.serialize_field("created_at", &self.created_at)?;
        fields.serialize_field("updated_at", &self.updated_at)?;
        fields.serialize_field("version", &self.version)?;
        fields.end()
    }
}

/// A scheduled change as its JSON shows it, with the moment at which it happens.
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
    /// The scheduled change as it is shown.
    pub fn shown_change(&self) -> Option<ShownChange> {
        let effective_at = self.renews_at;
        Some(ShownChange(match self.scheduled_change()? {
            ScheduledChange::ChangePlan(terms) => Shown::ChangePlan { effective_at, terms },
            ScheduledChange::Pause { resumes_at } => Shown::Pause { effective_at, resumes_at },
        }))
    }
}
