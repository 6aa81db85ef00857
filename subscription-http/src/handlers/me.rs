//! `/me`: the access and the subscriptions of the signed-in person.

use std::sync::Arc;

use subscription_core::store::{SubscriptionFilter, SubscriptionQuery};
use subscription_core::{Action, Error, NoInput, Plan, Slug, Subscription, UserId};

use super::entitlement;
use crate::api::admission::self_service::SelfService;
use crate::api::output::bodies::MySubscription;
use crate::api::routes::Needs::Bearer;
use crate::api::routes::{Area, Route, list, post_optional};
use crate::api::{ApiError, Call, Refusal, Reply};

pub(crate) static AREA: Area = Area {
    is_private: true,
    ..Area::new(
        "/me/",
        &[
            list("/me/entitlement", Bearer, &show_entitlement),
            list("/me/subscriptions", Bearer, &list_page),
            list("/me/checkout-link", Bearer, &checkout_link),
            Route {
                self_service: Some(SelfService::Cancel),
                ..post_optional("/me/subscriptions/{id}/cancel", Bearer, &cancel)
            },
            Route {
                self_service: Some(SelfService::Resume),
                ..post_optional("/me/subscriptions/{id}/resume", Bearer, &resume)
            },
        ],
    )
};

/// The id of the signed-in person; an error if the account is being deleted.
async fn user(call: &Call) -> Result<UserId, ApiError> {
    Ok(call.auth().user(call.caller()?).await?.id)
}

async fn show_entitlement(call: Box<Call>) -> Result<Reply, ApiError> {
    entitlement::show(&call, user(&call).await?).await
}

async fn list_page(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&["limit", "cursor", "status"], &["status"])?;
    let filter = SubscriptionFilter::default().with_statuses(query.read_all("status")?);
    let asked = SubscriptionQuery::default().with_after(call.after()?);
    let asked = asked.with_limit(query.limit()?);
    let filter = filter.with_user_id(user(&call).await?);
    let page = call.service.subscriptions(asked.with_filter(filter)).await?;
    let mut plans = Vec::with_capacity(page.items.len());
    for subscription in &page.items {
        plans.push(plan_of(&call, subscription).await?);
    }
    let shown = page
        .items
        .iter()
        .zip(&plans)
        .filter_map(|(subscription, plan)| Some(shown(&call, subscription, plan.as_deref()?)));
    let data: Vec<_> = shown.collect();
    call.page_of(&page, &data)
}

/// The plan of a subscription. `None` if the plan and the subscription were deleted after the subscription was read.
async fn plan_of(call: &Call, subscription: &Subscription) -> Result<Option<Arc<Plan>>, ApiError> {
    match call.service.plan_by_id(subscription.subscription_plan_id).await {
        Ok(plan) => Ok(Some(plan)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The response body for a subscription: it also lists the changes that its user may make now.
fn shown<'a>(call: &Call, subscription: &'a Subscription, plan: &'a Plan) -> MySubscription<'a> {
    let mut actions = call.state.self_service.clone();
    actions.retain(|change| {
        let action = match change {
            SelfService::Cancel => Action::Leave,
            SelfService::Resume => Action::Uncancel,
        };
        call.service.allows(subscription, action)
    });
    MySubscription::new(subscription, plan, actions)
}

async fn checkout_link(call: Box<Call>) -> Result<Reply, ApiError> {
    call.query.expect(&["plan"], &[])?;
    let slug: Slug = call.query.required("plan")?;
    let hosts = &call.state.checkout_hosts;
    Reply::ok(&call.service.checkout_link(&slug, user(&call).await?, hosts).await?)
}

async fn cancel(call: Box<Call>) -> Result<Reply, ApiError> {
    act(&call, Action::Leave).await
}

async fn resume(call: Box<Call>) -> Result<Reply, ApiError> {
    act(&call, Action::Uncancel).await
}

/// Applies an action to a subscription of the caller. The error for another user's subscription has the same bytes as
/// the error for a subscription that does not exist.
async fn act(call: &Call, action: Action) -> Result<Reply, ApiError> {
    call.input(NoInput::from_json)?;
    let user_id = user(call).await?;
    let changed = match call.service.act_of(user_id, call.path("id")?, action).await {
        Err(Error::NotFound { .. }) => return Err(Refusal::NotFound.into()),
        changed => changed?,
    };
    let plan = plan_of(call, &changed).await?.ok_or(Refusal::NotFound)?;
    Reply::ok(&shown(call, &changed, &plan))
}
