//! What those who run the service look at: health and metrics.

use serde_json::json;

use crate::call::Call;
use crate::error::ApiError;
use crate::reply::Reply;

/// The process answers.
pub(crate) async fn live(_: Call) -> Result<Reply, ApiError> {
    Reply::ok(&json!({ "status": "live" }))
}

/// The store answers too.
pub(crate) async fn ready(call: Call) -> Result<Reply, ApiError> {
    call.service().events(u64::MAX, subscription_core::store::PageLimit::default()).await?;
    Reply::ok(&json!({ "status": "ready" }))
}

pub(crate) async fn metrics(call: Call) -> Result<Reply, ApiError> {
    let text = call.api.metrics().text().map_err(ApiError::unforeseen)?;
    Ok(Reply::text("application/openmetrics-text; version=1.0.0; charset=utf-8", text))
}
