//! Entitlement: the access, features and quota that a user has now.

use crate::store::StoreExt as _;
use std::sync::Arc;

use super::{SubscriptionService, found};
use crate::error::Error;
use crate::plans::{NodeQuota, Plan};
use crate::store::{PageLimit, SubscriptionFilter, SubscriptionQuery};
use crate::subscriptions::Subscription;
use crate::values::UserId;

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

crate::serialize_members! {
    Entitlement: access;
    user_id, has_access(), features { access.features().collect::<Vec<_>>() }, node_quota(), grants,
}

crate::serialize_members! {
    Grant: grant.subscription;
    subscription_id { grant.subscription.id }, status, renews_at, ends_at, plan { GrantingPlan(&grant.plan) },
}

/// The plan of a grant, in short.
struct GrantingPlan<'p>(&'p Plan);

crate::serialize_members! {
    GrantingPlan<'_>: plan.0;
    id, slug, name, tier,
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
            let page = self.subscriptions(query.clone()).await?.whole()?;
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
