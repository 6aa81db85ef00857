//! Entitlement: the access, features and quota that a user has now.

use crate::store::StoreExt as _;
use std::sync::Arc;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::{SubscriptionService, found};
use crate::error::Error;
use crate::plans::{NodeQuota, Plan, Tier};
use crate::store::{PageLimit, SubscriptionFilter, SubscriptionQuery};
use crate::subscriptions::Subscription;
use crate::values::{Name, PlanId, Slug, UserId};

/// The access that a user's subscriptions grant at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entitlement {
    /// The user.
    pub user_id: UserId,
    /// The subscriptions that grant access, newest first, each with its plan.
    pub grants: Vec<Grant>,
}

/// A subscription that grants access, and its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The subscription.
    pub subscription: Arc<Subscription>,
    /// The plan of the subscription.
    pub plan: Arc<Plan>,
}

impl Entitlement {
    /// True if any subscription grants access.
    pub fn has_access(&self) -> bool {
        !self.grants.is_empty()
    }

    /// True if any plan has the feature.
    pub fn has_feature(&self, feature: &str) -> bool {
        self.features().any(|found| found == feature)
    }

    /// The features of all plans, each once, in order.
    pub fn features(&self) -> impl Iterator<Item = &str> {
        let all = self.grants.iter().flat_map(|grant| grant.plan.features.list());
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }

    /// The largest quota of the plans. Quotas are not added: after an upgrade, the old and the new plan may both grant
    /// access for a while.
    pub fn node_quota(&self) -> NodeQuota {
        self.grants.iter().map(|grant| grant.plan.node_quota).max().unwrap_or_default()
    }
}

impl Serialize for Entitlement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = serializer.serialize_struct("Entitlement", 5)?;
        shown.serialize_field("user_id", &self.user_id)?;
        shown.serialize_field("has_access", &self.has_access())?;
        shown.serialize_field("features", &self.features().collect::<Vec<_>>())?;
        shown.serialize_field("node_quota", &self.node_quota())?;
        shown.serialize_field("grants", &self.grants)?;
        shown.end()
    }
}

impl Serialize for Grant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct ShownPlan<'p> {
            id: PlanId,
            slug: &'p Slug,
            name: &'p Name,
            tier: Tier,
        }
        let Self { subscription, plan } = self;
        let mut shown = serializer.serialize_struct("Grant", 5)?;
        shown.serialize_field("subscription_id", &subscription.id)?;
        shown.serialize_field("status", &subscription.status)?;
        shown.serialize_field("renews_at", &subscription.renews_at)?;
        shown.serialize_field("ends_at", &subscription.ends_at)?;
        let plan = ShownPlan { id: plan.id, slug: &plan.slug, name: &plan.name, tier: plan.tier };
        shown.serialize_field("plan", &plan)?;
        shown.end()
    }
}

/// # Entitlement
impl SubscriptionService {
    /// The access, features and quota that a user has now.
    pub async fn entitlement(&self, user_id: UserId) -> Result<Entitlement, Error> {
        let filter = SubscriptionFilter {
            user_id: Some(user_id),
            is_active: Some(true),
            ..SubscriptionFilter::default()
        };
        let limit = PageLimit::MAX;
        let mut query = SubscriptionQuery { filter, limit, ..SubscriptionQuery::default() };
        let mut entitlement = Entitlement { user_id, grants: Vec::new() };
        loop {
            let page = self.subscriptions(query.clone()).await?;
            for subscription in page.items {
                let plan = self.store().get_as::<Plan>(&subscription.subscription_plan_id).await;
                // If the plan was deleted after the page was read, the subscription grants nothing.
                match found(plan, "plan", subscription.subscription_plan_id) {
                    Ok(plan) => entitlement.grants.push(Grant { subscription, plan }),
                    Err(Error::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            query.after = page.next;
            if query.after.is_none() {
                return Ok(entitlement);
            }
        }
    }
}
