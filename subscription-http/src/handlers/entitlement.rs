//! `/users/{user_id}/entitlement`: the access that a user has now.

use serde::Serialize;
use subscription_core::auth::Scope::SubscriptionsRead;
use subscription_core::{Entitlement, UserId};

use crate::api::routes::{Area, list, scope};
use crate::api::{ApiError, Call, Reply};

pub(crate) static AREA: Area = Area::new(
    "/users/",
    &[list("/users/{user_id}/entitlement", scope(SubscriptionsRead), &of_user)],
);

#[derive(Serialize)]
struct EntitlementBody {
    #[serde(flatten)]
    entitlement: Entitlement,
    #[serde(skip_serializing_if = "Option::is_none")]
    has_feature: Option<bool>,
}

async fn of_user(call: Box<Call>) -> Result<Reply, ApiError> {
    show(&call, call.path("user_id")?).await
}

/// The entitlement of a user. If the query names a feature, the response also says whether the entitlement has it.
pub(super) async fn show(call: &Call, user_id: UserId) -> Result<Reply, ApiError> {
    call.query.expect(&["feature"], &[])?;
    let feature = call.query.text("feature")?;
    let entitlement = call.service.entitlement(user_id).await?;
    let has_feature = feature.map(|feature| entitlement.has_feature(feature));
    Reply::ok(&EntitlementBody { entitlement, has_feature })
}
