//! The JSON of a subscription, with the period that it is in.

use serde::{Serialize, Serializer};

use super::{Subscription, SubscriptionStatus};
use crate::plans::BillingCycle;
use crate::values::clock::Timestamp;
use crate::values::id::{PlanId, SubscriptionId, UserId};
use crate::values::metadata::Metadata;
use crate::values::text::ExternalId;
use crate::values::version::Version;

impl Subscription {
    /// The start of the period that ends with the next renewal, but not before `starts_at`; the start
    /// of the trial during it. `None` where nothing renews.
    pub fn current_period_start(&self) -> Option<Timestamp> {
        let renews_at = self.renews_at?;
        let start = match self.status {
            SubscriptionStatus::OnTrial => None,
            SubscriptionStatus::Pending
            | SubscriptionStatus::Active
            | SubscriptionStatus::PastDue
            | SubscriptionStatus::Unpaid
            | SubscriptionStatus::Paused
            | SubscriptionStatus::Cancelled
            | SubscriptionStatus::Expired => self.schedule().last_before(renews_at),
        };
        Some(start.map_or(self.starts_at, |start| start.max(self.starts_at)))
    }

    /// The end of the current period, which is the next renewal.
    pub const fn current_period_end(&self) -> Option<Timestamp> {
        self.renews_at
    }
}

/// The fields in the order in which callers see them.
#[derive(Serialize)]
struct Shown<'s> {
    id: SubscriptionId,
    user_id: UserId,
    subscription_plan_id: PlanId,
    external_subscription_id: Option<&'s ExternalId>,
    billing_cycle: BillingCycle,
    status: SubscriptionStatus,
    is_active: bool,
    blocked: bool,
    renews_at: Option<Timestamp>,
    starts_at: Timestamp,
    ends_at: Option<Timestamp>,
    current_period_start: Option<Timestamp>,
    current_period_end: Option<Timestamp>,
    metadata: Option<&'s Metadata>,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: Version,
}

impl Serialize for Subscription {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = Shown {
            id: self.id,
            user_id: self.user_id,
            subscription_plan_id: self.subscription_plan_id,
            external_subscription_id: self.external_subscription_id.as_ref(),
            billing_cycle: self.billing_cycle,
            status: self.status,
            is_active: self.is_active,
            blocked: self.blocked,
            renews_at: self.renews_at,
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            current_period_start: self.current_period_start(),
            current_period_end: self.current_period_end(),
            metadata: self.metadata.as_ref(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            version: self.version,
        };
        shown.serialize(serializer)
    }
}
