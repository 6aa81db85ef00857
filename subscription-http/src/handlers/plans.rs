//! `/subscription-plans`: the plans that users can subscribe to.

use http::StatusCode;
use subscription_core::auth::Scope::{PlansRead, PlansWrite, SubscriptionsRead};
use subscription_core::store::{PlanFilter, PlanOrder, PlanQuery};
use subscription_core::{Error, NewPlan, PlanChanges};

use crate::api::routes::{Area, delete, get, list, post, put, scope};
use crate::api::{ApiError, Call, Reply};

pub(crate) static AREA: Area = Area::new(
    "/subscription-plans",
    &[
        list("/subscription-plans", scope(PlansRead), &list_page),
        get("/subscription-plans/{slug}", scope(PlansRead), &show),
        list("/subscription-plans/{slug}/checkout-link", scope(SubscriptionsRead), &checkout_link),
        post("/subscription-plans", scope(PlansWrite), &create),
        put("/subscription-plans/{slug}", scope(PlansWrite), &update),
        delete("/subscription-plans/{slug}", scope(PlansWrite), &remove),
    ],
);

const PARAMETERS: [&str; 8] =
    ["limit", "cursor", "sort", "is_active", "billing_cycle", "product_id", "tier", "most_popular"];

const ORDERS: [(&str, PlanOrder); 4] = [
    ("tier", PlanOrder::Tier),
    ("price", PlanOrder::Price),
    ("name", PlanOrder::Name),
    ("created_at", PlanOrder::CreatedAt),
];

async fn list_page(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&PARAMETERS, &[])?;
    let (order, direction) = query.sort(&ORDERS)?.unwrap_or_default();
    let filter = PlanFilter::default()
        .with_is_active(query.boolean("is_active")?)
        .with_billing_cycle(query.read("billing_cycle")?)
        .with_product_id(query.read("product_id")?)
        .with_tier(query.read("tier")?)
        .with_most_popular(query.boolean("most_popular")?);
    let after = call.after()?;
    let limit = query.limit()?;
    let asked = PlanQuery::default()
        .with_filter(filter)
        .with_order(order)
        .with_direction(direction)
        .with_after(after)
        .with_limit(limit);
    let page = call.service.plans(asked).await?;
    call.page(&page)
}

async fn show(call: Box<Call>) -> Result<Reply, ApiError> {
    let slug = call.slug()?;
    let plan = match (call.service.plan(&slug).await, slug.as_str().parse()) {
        (Err(Error::NotFound { .. }), Ok(id)) => call.service.plan_by_id(id).await?,
        (found, _) => found?,
    };
    call.record(&plan)
}

async fn checkout_link(call: Box<Call>) -> Result<Reply, ApiError> {
    call.query.expect(&["user_id"], &[])?;
    let slug = call.slug()?;
    let user_id = call.query.required("user_id")?;
    let hosts = &call.state.checkout_hosts;
    Reply::ok(&call.service.checkout_link(&slug, user_id, hosts).await?)
}

async fn create(call: Box<Call>) -> Result<Reply, ApiError> {
    let new = call.input(NewPlan::from_json)?;
    let created = call.service.create_plan_once(new, call.idempotency()?).await?;
    let plan = &created.record;
    let reply = call.whole_record(StatusCode::CREATED, plan)?;
    Ok(reply.location(&format!("subscription-plans/{}", plan.slug)).replayed(created.replayed))
}

async fn update(call: Box<Call>) -> Result<Reply, ApiError> {
    let slug = call.slug()?;
    let changes = call.input(PlanChanges::from_json)?;
    let update = |version| call.service.update_plan_if(&slug, version, changes.clone());
    let plan = call.if_match(update).await?;
    call.whole_record(StatusCode::OK, &plan)
}

async fn remove(call: Box<Call>) -> Result<Reply, ApiError> {
    let slug = call.slug()?;
    call.if_match(|version| call.service.delete_plan_if(&slug, version)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
