//! Checkout links: where a user pays for a plan.

use std::sync::Arc;

use super::{SubscriptionService, found};
use crate::accounts::User;
use crate::error::{Conflict, Error};
use crate::plans::{CheckoutHosts, Plan};
use crate::store::StoreExt as _;
use crate::values::{Slug, UserId};

/// The page where a user pays for a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckoutLink {
    /// The address of the page; `None` if the plan has no `href`. See [`Plan::checkout_url`].
    pub url: Option<String>,
    /// The user who buys.
    pub user_id: UserId,
    /// The plan.
    pub plan: Arc<Plan>,
}

crate::serialize_members! {
    CheckoutLink: link;
    url, user_id, plan { PlanInShort(&link.plan) },
}

struct PlanInShort<'p>(&'p Plan);

crate::serialize_members! {
    PlanInShort<'_>: plan.0;
    id, slug, name,
}

/// # Checkout
impl SubscriptionService {
    /// The page where a user pays for a plan that is active. If the service checks users, the user must have an
    /// account: see [`ServiceBuilder::check_users`](super::ServiceBuilder::check_users).
    pub async fn checkout_link(
        &self,
        slug: &Slug,
        user_id: UserId,
        hosts: &CheckoutHosts,
    ) -> Result<CheckoutLink, Error> {
        let plan = self.plan(slug).await?;
        if self.checks_users()
            && found(self.store().get_as::<User>(&user_id).await, "user", user_id)?.closing
        {
            return Err(Conflict::AccountClosing.into());
        }
        if !plan.is_active {
            return Err(Conflict::PlanInactive.into());
        }
        Ok(CheckoutLink { url: plan.checkout_url(user_id, hosts), user_id, plan })
    }
}
