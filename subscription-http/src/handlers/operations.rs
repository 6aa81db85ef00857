//! `/health` and `/metrics`, for operators.

use http::StatusCode;

use crate::api::routes::Needs::{Loopback, Nothing};
use crate::api::routes::{Area, get};
use crate::api::{ApiError, Call, Reply};

pub(crate) static HEALTH: Area = Area {
    any_host: true,
    for_operators: true,
    ..Area::new(
        "/health/",
        &[get("/health/live", Nothing, &live), get("/health/ready", Nothing, &ready)],
    )
};

pub(crate) static METRICS: Area =
    Area { for_operators: true, ..Area::new("/metrics", &[get("/metrics", Loopback, &metrics)]) };

/// Reports that the process runs.
async fn live(_: Box<Call>) -> Result<Reply, ApiError> {
    Ok(Reply::json_bytes(StatusCode::OK, &br#"{"status":"live"}"#[..]))
}

/// Checks that the store accepts writes.
async fn ready(call: Box<Call>) -> Result<Reply, ApiError> {
    call.state.readiness.check(&call.service).await?;
    Ok(Reply::json_bytes(StatusCode::OK, &br#"{"status":"ready"}"#[..]))
}

async fn metrics(call: Box<Call>) -> Result<Reply, ApiError> {
    let text = call.state.metrics.text().map_err(ApiError::unforeseen)?;
    Ok(Reply::text("application/openmetrics-text; version=1.0.0; charset=utf-8", text))
}
