//! Checkout links: where a user pays for a plan.

use std::sync::Arc;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::{SubscriptionService, found};
use crate::accounts::User;
use crate::error::{Conflict, Error};
use crate::plans::{CheckoutHosts, Plan};
use crate::store::StoreExt as _;
use crate::values::{Slug, UserId};

/// The page where a user pays for a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckoutLink {
    /// The address of the page; `None` if the plan has no `href`. See [`Plan::checkout_url`].
    pub url: Option<String>,
    /// The user who buys.
    pub user_id: UserId,
    /// The plan.
    #[serde(serialize_with = "in_short")]
    pub plan: Arc<Plan>,
}

/// Shows the id, the slug and the name of a plan.
fn in_short<S: Serializer>(plan: &Plan, serializer: S) -> Result<S::Ok, S::Error> {
    let mut shown = serializer.serialize_struct("Plan", 3)?;
    shown.serialize_field("id", &plan.id)?;
    shown.serialize_field("slug", &plan.slug)?;
    shown.serialize_field("name", &plan.name)?;
    shown.end()
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
