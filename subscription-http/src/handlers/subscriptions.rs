//! `/subscriptions`: the subscriptions of users to plans.

use http::StatusCode;
use subscription_core::auth::Scope::{PaymentsRead, SubscriptionsRead, SubscriptionsWrite};
use subscription_core::store::{
    Direction, PaymentQuery, SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use subscription_core::{NewSubscription, SubscriptionChanges};

use crate::api::routes::{Area, delete, get, list, post, put, scope};
use crate::api::{ApiError, Call, Reply};

pub(crate) static AREA: Area = Area::new(
    "/subscriptions",
    &[
        list("/subscriptions", scope(SubscriptionsRead), &list_page),
        get("/subscriptions/{id}", scope(SubscriptionsRead), &show),
        list("/subscriptions/{id}/payments", scope(PaymentsRead), &payments),
        post("/subscriptions", scope(SubscriptionsWrite), &create),
        put("/subscriptions/{id}", scope(SubscriptionsWrite), &update),
        delete("/subscriptions/{id}", scope(SubscriptionsWrite), &remove),
    ],
);

const PARAMETERS: [&str; 10] = [
    "limit",
    "cursor",
    "sort",
    "user_id",
    "subscription_plan_id",
    "status",
    "is_active",
    "external_subscription_id",
    "renews_before",
    "renews_after",
];

const ORDERS: [(&str, SubscriptionOrder); 2] =
    [("created_at", SubscriptionOrder::CreatedAt), ("renews_at", SubscriptionOrder::RenewsAt)];

async fn list_page(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&PARAMETERS, &["status"])?;
    let newest_first = (SubscriptionOrder::CreatedAt, Direction::Descending);
    let (order, direction) = query.sort(&ORDERS)?.unwrap_or(newest_first);
    let filter = SubscriptionFilter::default()
        .with_user_id(query.read("user_id")?)
        .with_subscription_plan_id(query.read("subscription_plan_id")?)
        .with_statuses(query.read_all("status")?)
        .with_is_active(query.boolean("is_active")?)
        .with_external_subscription_id(query.read("external_subscription_id")?)
        .with_renews_before(query.read("renews_before")?)
        .with_renews_after(query.read("renews_after")?);
    let after = call.after()?;
    let limit = query.limit()?;
    let now = call.service.now();
    let asked = SubscriptionQuery::default()
        .with_filter(filter)
        .with_order(order)
        .with_direction(direction)
        .with_after(after)
        .with_limit(limit)
        .with_now(now);
    let page = call.service.subscriptions(asked).await?;
    call.page(&page)
}

async fn show(call: Box<Call>) -> Result<Reply, ApiError> {
    let subscription = call.service.subscription(call.path("id")?).await?;
    // As time passes, access begins and ends without a write, and so without a new version. The caller may have read
    // this version before access changed, so `304 Not Modified` would be wrong.
    if subscription.access_moves() && subscription.access_moved_by(call.service.now()) {
        return call.whole_record(StatusCode::OK, &subscription);
    }
    call.record(&subscription)
}

async fn payments(call: Box<Call>) -> Result<Reply, ApiError> {
    let asked = newest_payments(&call, PaymentQuery::of(call.path("id")?), &["limit", "cursor"])?;
    let page = call.service.payments_of_subscription(asked).await?;
    call.page(&page)
}

/// The query for the page of payments that a call requests. The newest payment is first.
pub(super) fn newest_payments(
    call: &Call,
    of: PaymentQuery,
    parameters: &[&str],
) -> Result<PaymentQuery, ApiError> {
    let query = &call.query;
    query.expect(parameters, &[])?;
    let of = of.with_direction(Direction::Descending).with_limit(query.limit()?);
    Ok(of.with_after(call.after()?))
}

async fn create(call: Box<Call>) -> Result<Reply, ApiError> {
    let new = call.input(NewSubscription::from_json)?;
    let created = call.service.create_subscription_once(new, call.idempotency()?).await?;
    let made = &created.record;
    let reply = call.whole_record(StatusCode::CREATED, made)?;
    Ok(reply.location(&format!("subscriptions/{}", made.id)).replayed(created.replayed))
}

async fn update(call: Box<Call>) -> Result<Reply, ApiError> {
    let id = call.path("id")?;
    let changes = call.input(SubscriptionChanges::from_json)?;
    let update = |version| call.service.update_subscription_if(id, version, changes.clone());
    let next = call.if_match(update).await?;
    call.whole_record(StatusCode::OK, &next)
}

async fn remove(call: Box<Call>) -> Result<Reply, ApiError> {
    let id = call.path("id")?;
    call.if_match(|version| call.service.delete_subscription_if(id, version)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
