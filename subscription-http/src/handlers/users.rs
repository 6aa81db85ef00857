//! `/users`: accounts and their sessions, for operators.

use http::StatusCode;
use secrecy::ExposeSecret as _;
use serde_json::json;
use subscription_core::auth::PORTAL_LIFETIME;
use subscription_core::auth::Scope::{PaymentsRead, PortalWrite, UsersRead, UsersWrite};
use subscription_core::store::{PaymentQuery, UserFilter};
use subscription_core::{NoInput, UserId};

use super::subscriptions::newest_payments;
use crate::api::input::bounds::USER_IDS_MAX;
use crate::api::input::query::Query;
use crate::api::output::bodies::{AccountBody, SessionBody, UserBody};
use crate::api::routes::{ApiPart, Area, Route, get, list, post_empty, post_optional, scope};
use crate::api::{ApiError, Call, Refusal, Reply};

pub(crate) static AREA: Area = Area::new(
    "/users",
    &[
        list("/users", scope(UsersRead), &list_page),
        get("/users/{user_id}", scope(UsersRead), &show),
        get("/users/{user_id}/sessions", scope(UsersRead), &sessions),
        list("/users/{user_id}/payments", scope(PaymentsRead), &payments),
        post_optional("/users/{user_id}/revoke-sessions", scope(UsersWrite), &revoke_sessions),
        Route {
            part: Some(ApiPart::Portal),
            ..post_empty("/users/{user_id}/portal-links", scope(PortalWrite), &link_portal)
        },
    ],
);

const FILTERS: [&str; 3] = ["email", "email_starts_with", "id"];

fn filter(query: &Query) -> Result<UserFilter, ApiError> {
    query.expect_one_of(&FILTERS)?;
    if let Some(email) = query.read("email")? {
        return Ok(UserFilter::Email(email));
    }
    if let Some(prefix) = query.read("email_starts_with")? {
        return Ok(UserFilter::EmailPrefix(prefix));
    }
    let ids = query.read_few("id", USER_IDS_MAX)?;
    Ok(if ids.is_empty() { UserFilter::All } else { UserFilter::Ids(ids) })
}

async fn list_page(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&["limit", "cursor", "email", "email_starts_with", "id"], &["id"])?;
    let filter = filter(query)?;
    let limit = query.limit()?;
    let after = call.after()?;
    let page = call.auth().users(filter, after, limit).await?;
    let data: Vec<_> = page.items.iter().map(|user| UserBody(user)).collect();
    call.page_of(&page, &data)
}

async fn payments(call: Box<Call>) -> Result<Reply, ApiError> {
    let of = PaymentQuery::of_user(call.path("user_id")?);
    let asked = newest_payments(&call, of, &["limit", "cursor"])?;
    let page = call.service.payments(asked).await?;
    call.page(&page)
}

async fn show(call: Box<Call>) -> Result<Reply, ApiError> {
    let user = call.auth().user_by_id(call.path("user_id")?).await?;
    let version = user.version;
    if call.has(version)? {
        return Ok(Reply::empty(StatusCode::NOT_MODIFIED).version(version));
    }
    Ok(Reply::ok(&AccountBody(&user))?.version(version))
}

async fn sessions(call: Box<Call>) -> Result<Reply, ApiError> {
    let sessions = call.auth().sessions_of(call.path("user_id")?).await?;
    let data: Vec<_> = sessions.iter().map(|session| SessionBody::new(session, None)).collect();
    Reply::ok(&json!({ "data": data }))
}

async fn link_portal(call: Box<Call>) -> Result<Reply, ApiError> {
    let page = call.state.portal.as_ref().ok_or(Refusal::RouteUnknown)?;
    let user: UserId = call.path("user_id")?;
    let token = call.auth().issue_portal_token(user).await?;
    let client = &call.client()?.id;
    tracing::info!(%client, %user, "portal link made");
    // The token is in the fragment, because browsers do not send the fragment of a URL to servers.
    let url = format!("{page}#token={}", token.expose_secret());
    let expires_at = call.service.now().saturating_add(PORTAL_LIFETIME);
    Reply::json(StatusCode::CREATED, &json!({ "url": url, "expires_at": expires_at }))
}

async fn revoke_sessions(call: Box<Call>) -> Result<Reply, ApiError> {
    call.input(NoInput::from_json)?;
    let revoked = call.auth().revoke_sessions_of(call.path("user_id")?, call.actor()?).await?;
    Reply::ok(&json!({ "revoked": revoked }))
}
