//! Checkout links: where a user pays for a plan.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::{SubscriptionService, found};
use crate::accounts::User;
use crate::error::{Conflict, Error};
use crate::plans::{CheckoutHosts, Plan};
use crate::store::StoreExt as _;
use crate::values::id::{PlanId, UserId};
use crate::values::text::{Name, Slug};

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

impl Serialize for CheckoutLink {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct ShownPlan<'p> {
            id: PlanId,
            slug: &'p Slug,
            name: &'p Name,
        }
        #[derive(Serialize)]
        struct Shown<'l> {
            url: Option<&'l str>,
            user_id: UserId,
            plan: ShownPlan<'l>,
        }
        let Plan { id, slug, name, .. } = &*self.plan;
        let plan = ShownPlan { id: *id, slug, name };
        Shown { url: self.url.as_deref(), user_id: self.user_id, plan }.serialize(serializer)
    }
}

/// # Checkout
impl SubscriptionService {
    /// The page where a user pays for a plan that is active. The user must have an account if users are
    /// checked.
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
