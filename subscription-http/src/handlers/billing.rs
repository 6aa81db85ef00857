//! The routes of billing: the actions on a subscription, its future steps, and the payments to collect.

use std::time::Duration;

use http::StatusCode;
use subscription_core::auth::Scope::{
    PaymentsRead, PaymentsWrite, SubscriptionsRead, SubscriptionsWrite,
};
use subscription_core::billing::Billing;
use subscription_core::store::DuePayments;
use subscription_core::{
    Action, CancelInput, Conflict, Error, ManagedBy, NewDiscount, NoInput, PauseInput,
    PaymentStatus, PlanChange, Timestamp,
};

use crate::api::input::bounds::TIMELINE_YEARS_MAX;
use crate::api::output::bodies::TimelineBody;
use crate::api::routes::{ApiPart, Area, Route, delete, list, post, post_optional, scope};
use crate::api::{ApiError, Call, Refusal, Reply};

pub(crate) static AREA: Area = Area::new(
    "/",
    &[
        post_optional("/subscriptions/{id}/cancel", scope(SubscriptionsWrite), &cancel),
        post_optional("/subscriptions/{id}/resume", scope(SubscriptionsWrite), &resume),
        post_optional("/subscriptions/{id}/pause", scope(SubscriptionsWrite), &pause),
        delete("/subscriptions/{id}/scheduled-change", scope(SubscriptionsWrite), &unschedule),
        billed(post("/subscriptions/{id}/discount", scope(SubscriptionsWrite), &give_discount)),
        billed(delete("/subscriptions/{id}/discount", scope(SubscriptionsWrite), &remove_discount)),
        billed(post("/subscriptions/{id}/change-plan", scope(SubscriptionsWrite), &change_plan)),
        billed(post(
            "/subscriptions/{id}/change-plan/preview",
            scope(SubscriptionsRead),
            &preview_plan_change,
        )),
        billed(list("/subscriptions/{id}/timeline", scope(SubscriptionsRead), &timeline)),
        billed(list("/due-payments", scope(PaymentsRead), &due_payments)),
        billed(post_optional(
            "/subscription-payments/{payment_id}/retry",
            scope(PaymentsWrite),
            &retry,
        )),
    ],
);

/// A route that is served only if billing is enabled.
const fn billed(route: Route) -> Route {
    Route { part: Some(ApiPart::Billing), ..route }
}

const YEAR: Duration = Duration::from_hours(365 * 24);

/// The statuses of the payments that a collector works on: the collection of a payment has not begun, or is in
/// progress.
const COLLECTED: &[(&str, PaymentStatus)] =
    &[("pending", PaymentStatus::Pending), ("processing", PaymentStatus::Processing)];

pub(super) fn billing(call: &Call) -> Result<&Billing, ApiError> {
    call.state.billing.as_ref().ok_or_else(|| Refusal::RouteUnknown.into())
}

async fn cancel(call: Box<Call>) -> Result<Reply, ApiError> {
    let input = call.input(CancelInput::from_json)?;
    act(&call, Action::Cancel(input.effective)).await
}

async fn resume(call: Box<Call>) -> Result<Reply, ApiError> {
    call.input(NoInput::from_json)?;
    act(&call, Action::Resume).await
}

async fn pause(call: Box<Call>) -> Result<Reply, ApiError> {
    let PauseInput { effective, resumes_at } = call.input(PauseInput::from_json)?;
    act(&call, Action::Pause { effective, resumes_at }).await
}

async fn act(call: &Call, action: Action) -> Result<Reply, ApiError> {
    let id = call.path("id")?;
    let idempotency = call.idempotency()?;
    let act = |version| call.service.act_once(id, version, action, idempotency.clone());
    let acted = call.if_match(act).await?;
    Ok(call.whole_record(StatusCode::OK, &acted.record)?.replayed(acted.replayed))
}

async fn unschedule(call: Box<Call>) -> Result<Reply, ApiError> {
    let id = call.path("id")?;
    let drop = |version| call.service.act_once(id, version, Action::Unschedule, None);
    match call.if_match(drop).await {
        // A subscription that callers manage never has a scheduled change. So the response is that the scheduled change
        // to delete is not found.
        Err(ApiError::Service(Error::Conflict(Conflict::Managed(managed))))
            if managed.by == ManagedBy::Caller =>
        {
            Err(Refusal::NotFound.into())
        }
        dropped => dropped.map(|_| Reply::empty(StatusCode::NO_CONTENT)),
    }
}

async fn give_discount(call: Box<Call>) -> Result<Reply, ApiError> {
    let new = call.input(NewDiscount::from_json)?;
    act(&call, Action::GiveDiscount(new)).await
}

async fn remove_discount(call: Box<Call>) -> Result<Reply, ApiError> {
    let id = call.path("id")?;
    let remove = |version| call.service.act_once(id, version, Action::RemoveDiscount, None);
    call.if_match(remove).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

async fn change_plan(call: Box<Call>) -> Result<Reply, ApiError> {
    let change = call.input(PlanChange::from_json)?;
    let id = call.path("id")?;
    let idempotency = call.idempotency()?;
    let billing = billing(&call)?.by(call.actor()?);
    let execute = |version| billing.change_plan_once(id, version, &change, idempotency.clone());
    let changed = call.if_match(execute).await?;
    Ok(call.whole_record(StatusCode::OK, &changed.record)?.replayed(changed.replayed))
}

async fn preview_plan_change(call: Box<Call>) -> Result<Reply, ApiError> {
    let change = call.input(PlanChange::from_json)?;
    Reply::ok(&billing(&call)?.preview_plan_change(call.path("id")?, &change).await?)
}

async fn timeline(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&["after", "until", "limit"], &[])?;
    let now = call.service.now();
    let limit = query.limit()?;
    let after = query.read("after")?.unwrap_or(Timestamp::MIN);
    let until = query.read("until")?.unwrap_or(after.max(now).saturating_add(YEAR));
    // A longer timeline would take long to compute and would be of little use, because prices and plans may change
    // before its later dates.
    let until = until.min(now.saturating_add(YEAR * TIMELINE_YEARS_MAX));
    let (steps, has_more) = billing(&call)?.timeline(call.path("id")?, after, until, limit).await?;
    Reply::ok(&TimelineBody { data: &steps, has_more })
}

async fn due_payments(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&["limit", "cursor", "before", "status"], &[])?;
    let status = query.one_of("status", COLLECTED)?.unwrap_or(PaymentStatus::Pending);
    let before = query.read("before")?.unwrap_or_else(|| call.service.now());
    let asked =
        DuePayments::until(status, before).with_after(call.after()?).with_limit(query.limit()?);
    let page = billing(&call)?.due_payments(asked).await?;
    call.page(&page)
}

async fn retry(call: Box<Call>) -> Result<Reply, ApiError> {
    call.input(NoInput::from_json)?;
    let id = call.path("payment_id")?;
    let idempotency = call.idempotency()?;
    let billing = billing(&call)?.by(call.actor()?);
    let retry = |version| billing.retry_payment(id, version, idempotency.clone());
    let retried = call.if_match(retry).await?;
    Ok(call.whole_record(StatusCode::OK, &retried.record)?.replayed(retried.replayed))
}
