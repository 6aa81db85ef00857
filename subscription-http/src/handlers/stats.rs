//! `/stats`: the figures of the business.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use subscription_core::Error;
use subscription_core::auth::Scope::{PaymentsRead, SubscriptionsRead};
use subscription_core::figures::{Figures, MONTHS_MAX};
use tokio::time::timeout;

use crate::api::routes::{ApiPart, Area, list, of_part, scope};
use crate::api::{ApiError, Call, Refusal, Reply};

pub(crate) static AREA: Area = Area::new(
    "/stats",
    &of_part(
        ApiPart::Figures,
        [
            list("/stats/now", scope(SubscriptionsRead), &now),
            list("/stats/months", scope(PaymentsRead), &months),
            list("/stats/forecast", scope(SubscriptionsRead), &forecast),
        ],
    ),
);

/// The number of months in the response if the query has no `months`.
const MONTHS_SHOWN: u64 = 24;

async fn now(call: Box<Call>) -> Result<Reply, ApiError> {
    call.query.expect(&[], &[])?;
    let now = |figures: Figures| async move { figures.now().await.map(Arc::unwrap_or_clone) };
    read(&call, now).await
}

async fn months(call: Box<Call>) -> Result<Reply, ApiError> {
    call.query.expect(&["months"], &[])?;
    let months = call.query.number("months", 1, MONTHS_MAX as u64)?.unwrap_or(MONTHS_SHOWN);
    let months = usize::try_from(months).unwrap_or(MONTHS_MAX);
    read(&call, move |figures| async move { figures.months(months).await }).await
}

async fn forecast(call: Box<Call>) -> Result<Reply, ApiError> {
    call.query.expect(&[], &[])?;
    let read_all =
        |figures: Figures| async move { figures.forecast().await.map(Arc::unwrap_or_clone) };
    read(&call, read_all).await
}

/// Maximum time to compute figures. Without this limit, a database connection that hangs would block all later requests
/// for figures.
const READING_MAX: Duration = Duration::from_mins(10);

/// Reads figures in a separate task. If the caller disconnects or times out, the task continues and fills the cache.
async fn read<T, F>(call: &Call, read: impl FnOnce(Figures) -> F) -> Result<Reply, ApiError>
where
    T: Serialize + Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let figures = call.state.figures.clone().ok_or(Refusal::RouteUnknown)?;
    let read = tokio::spawn(timeout(READING_MAX, read(figures)));
    let read = timeout(call.state.timeouts.figures, read).await?;
    let figures = read.map_err(ApiError::unforeseen)??;
    Reply::ok(&figures?)
}
