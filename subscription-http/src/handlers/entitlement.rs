//! `/users/{user_id}/entitlement`: the access that a user has now.

use http::StatusCode;
use subscription_core::UserId;
use subscription_core::auth::Scope::SubscriptionsRead;

use crate::api::routes::{Area, list, scope};
use crate::api::{ApiError, Call, Reply};

/// Initial capacity for the JSON; one with a few grants is shorter.
const JSON_BYTES: usize = 1_024;

pub(crate) static AREA: Area = Area {
    is_private: true,
    ..Area::new(
        "/users/",
        &[list("/users/{user_id}/entitlement", scope(SubscriptionsRead), &of_user)],
    )
};

async fn of_user(call: Box<Call>) -> Result<Reply, ApiError> {
    show(&call, call.path("user_id")?).await
}

/// The entitlement of a user, and whether it has the feature of the query.
pub(super) async fn show(call: &Call, user_id: UserId) -> Result<Reply, ApiError> {
    call.query.expect(&["feature"], &[])?;
    let feature = call.query.text("feature")?;
    let entitlement = call.service.entitlement(user_id).await?;
    let mut json = Vec::with_capacity(JSON_BYTES);
    serde_json::to_writer(&mut json, &entitlement).map_err(ApiError::unforeseen)?;
    if let Some(feature) = feature {
        json.pop();
        let has_feature = entitlement.has_feature(feature);
        json.extend_from_slice(format!(",\"has_feature\":{has_feature}}}").as_bytes());
    }
    Ok(Reply::json_bytes(StatusCode::OK, json))
}
