//! What those who run the service look at: health and metrics.

use http::StatusCode;

use crate::api::call::Call;
use crate::api::error::ApiError;
use crate::api::reply::Reply;

/// The process answers.
pub(crate) async fn live(_: Box<Call>) -> Result<Reply, ApiError> {
    Ok(Reply::json_bytes(StatusCode::OK, &br#"{"status":"live"}"#[..]))
}

/// The store takes writes.
pub(crate) async fn ready(call: Box<Call>) -> Result<Reply, ApiError> {
    call.api.readiness().check(call.service()).await?;
    Ok(Reply::json_bytes(StatusCode::OK, &br#"{"status":"ready"}"#[..]))
}

pub(crate) async fn metrics(call: Box<Call>) -> Result<Reply, ApiError> {
    let text = call.api.metrics().text().map_err(ApiError::unforeseen)?;
    Ok(Reply::text("application/openmetrics-text; version=1.0.0; charset=utf-8", text))
}
