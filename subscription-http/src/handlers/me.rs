//! `/me`: the access, the subscriptions and the payments of the person who calls.

use std::sync::Arc;

use subscription_core::store::{PaymentQuery, SubscriptionFilter, SubscriptionQuery};
use subscription_core::{
    Action, Error, FaultCode, ManagedBy, NoInput, Plan, PlanChange, PlanId, Slug, Subscription,
    SubscriptionStatus,
};

use super::billing::billing;
use super::entitlement;
use super::subscriptions::newest_payments;
use crate::api::admission::self_service::SelfService;
use crate::api::output::bodies::{MyPayment, MySubscription};
use crate::api::routes::Needs::Person;
use crate::api::routes::{Area, Handler, Route, list, post_optional};
use crate::api::{ApiError, Call, Refusal, Reply};

pub(crate) static AREA: Area = Area::new(
    "/me/",
    &[
        list("/me/entitlement", Person, &show_entitlement),
        list("/me/subscriptions", Person, &list_page),
        list("/me/payments", Person, &payments),
        list("/me/checkout-link", Person, &checkout_link),
        change("/me/subscriptions/{id}/cancel", SelfService::Cancel, &cancel),
        change("/me/subscriptions/{id}/resume", SelfService::Resume, &resume),
        Route {
            body_is_optional: false,
            ..change("/me/subscriptions/{id}/change-plan", SelfService::ChangePlan, &change_plan)
        },
    ],
);

/// The route of a change that people may make if the setting `self_service` lists it.
const fn change(pattern: &'static str, change: SelfService, handler: Handler) -> Route {
    Route { self_service: Some(change), ..post_optional(pattern, Person, handler) }
}

async fn show_entitlement(call: Box<Call>) -> Result<Reply, ApiError> {
    entitlement::show(&call, call.person()?).await
}

async fn list_page(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&["limit", "cursor", "status"], &["status"])?;
    let filter = SubscriptionFilter::default().with_statuses(query.read_all("status")?);
    let asked = SubscriptionQuery::default().with_after(call.after()?);
    let asked = asked.with_limit(query.limit()?);
    let filter = filter.with_user_id(call.person()?);
    let page = call.service.subscriptions(asked.with_filter(filter)).await?;
    let mut data = Vec::with_capacity(page.items.len());
    for subscription in &page.items {
        data.extend(shown(&call, Arc::clone(subscription)).await?);
    }
    call.page_of(&page, &data)
}

/// The response body for a subscription, with the changes that its user may make now. `None` if the plan no longer
/// exists: the subscription, and then its plan, were deleted after the subscription was read.
async fn shown(
    call: &Call,
    subscription: Arc<Subscription>,
) -> Result<Option<MySubscription>, ApiError> {
    let next_plan = plan(call, subscription.scheduled_plan_id()).await?;
    let mut actions = call.state.self_service.clone();
    actions.retain(|change| {
        let action = match change {
            SelfService::Cancel => Action::Leave,
            SelfService::Resume => Action::Uncancel,
            SelfService::ChangePlan => {
                return subscription.managed_by == ManagedBy::Clock
                    && subscription.status == SubscriptionStatus::Active
                    && subscription.scheduled_change().is_none();
            }
        };
        call.service.allows(&subscription, action)
    });
    let billing = call.state.billing.as_ref();
    let next_charge = billing.and_then(|billing| billing.next_charge(&subscription));
    let plan = plan(call, Some(subscription.subscription_plan_id)).await?;
    Ok(plan.map(|plan| MySubscription { subscription, plan, next_plan, next_charge, actions }))
}

/// The plan with this id. `None` if `id` is `None`, or the plan was deleted.
async fn plan(call: &Call, id: Option<PlanId>) -> Result<Option<Arc<Plan>>, ApiError> {
    let Some(id) = id else { return Ok(None) };
    match call.service.plan_by_id(id).await {
        Err(Error::NotFound { .. }) => Ok(None),
        found => Ok(Some(found?)),
    }
}

async fn payments(call: Box<Call>) -> Result<Reply, ApiError> {
    let person = call.person()?;
    let of = match call.query.read("subscription_id")? {
        None => PaymentQuery::of_user(person),
        Some(id) => {
            let subscription = own(call.service.subscription(id).await)?;
            if subscription.user_id != person {
                return Err(Refusal::NotFound.into());
            }
            PaymentQuery::of(id)
        }
    };
    let asked = newest_payments(&call, of, &["limit", "cursor", "subscription_id"])?;
    let page = call.service.payments(asked).await?;
    let data: Vec<_> = page.items.iter().cloned().map(MyPayment).collect();
    call.page_of(&page, &data)
}

async fn checkout_link(call: Box<Call>) -> Result<Reply, ApiError> {
    call.query.expect(&["plan"], &[])?;
    let slug: Slug = call.query.required("plan")?;
    let hosts = &call.state.checkout_hosts;
    Reply::ok(&call.service.checkout_link(&slug, call.person()?, hosts).await?)
}

async fn cancel(call: Box<Call>) -> Result<Reply, ApiError> {
    act(&call, Action::Leave).await
}

async fn resume(call: Box<Call>) -> Result<Reply, ApiError> {
    act(&call, Action::Uncancel).await
}

async fn change_plan(call: Box<Call>) -> Result<Reply, ApiError> {
    let sent = call.input(PlanChange::from_json)?;
    let mut change = PlanChange::default();
    change.subscription_plan_id = sent.subscription_plan_id;
    change.agreed = sent.agreed;
    let plan = plan(&call, sent.subscription_plan_id).await?;
    if change != sent
        || !plan.is_some_and(|plan| call.state.self_service_plans.contains(&plan.slug))
    {
        let refused = Error::invalid(
            FaultCode::NotAllowedValue,
            "must be a plan that people may change to, and must not be sent with other changes",
            "subscription_plan_id",
        );
        return Err(refused.into());
    }
    change.user_id = Some(call.person()?);
    let billing = billing(&call)?.by(call.actor()?);
    let idempotency = call.idempotency()?;
    let changed = billing.change_plan_once(call.path("id")?, None, &change, idempotency);
    let changed = own(changed.await)?;
    let shown = shown(&call, changed.record).await?.ok_or(Refusal::NotFound)?;
    Ok(Reply::ok(&shown)?.replayed(changed.replayed))
}

/// Applies an action to a subscription of the caller.
async fn act(call: &Call, action: Action) -> Result<Reply, ApiError> {
    call.input(NoInput::from_json)?;
    let acted = own(call.service.act_of(call.person()?, call.path("id")?, action).await)?;
    let shown = shown(call, acted.record).await?.ok_or(Refusal::NotFound)?;
    Ok(Reply::ok(&shown)?.unchanged(!acted.is_changed))
}

/// The result for a record of the caller. The error for another user's record has the same bytes as the error for a
/// record that does not exist.
fn own<T>(found: Result<T, Error>) -> Result<T, ApiError> {
    match found {
        Err(Error::NotFound { .. }) => Err(Refusal::NotFound.into()),
        found => Ok(found?),
    }
}
