//! `/authentication`: sign-up, sign-in, token refresh, the user's sessions, logout and the deletion of an account.

use http::StatusCode;
use serde_json::json;
use subscription_core::auth::Scope::Auth;
use subscription_core::auth::{ProofOfIdentity, RefreshRequest, SignIn, SignedIn};

use crate::api::admission::rate::RouteLimit;
use crate::api::output::bodies::{LoggedInBody, SessionBody, SignedInBody};
use crate::api::routes::Needs::{Bearer, BearerEvenExpired};
use crate::api::routes::{Area, Route, delete, get, post, post_empty, scope};
use crate::api::{ApiError, Call, Reply};

pub(crate) static AREA: Area = Area::new(
    "/authentication",
    &[
        Route {
            limit: Some(RouteLimit::SignIn),
            ..post("/authentication/sign-in", scope(Auth), &sign_in)
        },
        Route {
            limit: Some(RouteLimit::SignIn),
            ..post("/authentication/sign-up", scope(Auth), &sign_up)
        },
        post_empty("/authentication/user-logged-in", Bearer, &user_logged_in),
        Route {
            limit: Some(RouteLimit::Refresh),
            ..post("/authentication/refresh-token", scope(Auth), &refresh_token)
        },
        delete("/authentication/delete-my-account/{auth_id}", Bearer, &delete_my_account),
        get("/authentication/tokens", Bearer, &tokens),
        post_empty("/authentication/tokens/logout", BearerEvenExpired, &logout),
        post_empty("/authentication/tokens/revoke-all", Bearer, &revoke_all),
        post_empty(
            "/authentication/tokens/revoke-all-except-current",
            Bearer,
            &revoke_all_except_current,
        ),
    ],
);

fn signed_in(status: StatusCode, signed_in: &SignedIn) -> Result<Reply, ApiError> {
    Reply::json(status, &SignedInBody(signed_in))
}

fn proof(call: &Call) -> Result<SignIn, ApiError> {
    let ProofOfIdentity { access_token, email } = call.input(ProofOfIdentity::from_json)?;
    let client_id = call.client()?.id.clone();
    Ok(SignIn { client_id, access_token, email, origin: call.origin() })
}

async fn sign_in(call: Box<Call>) -> Result<Reply, ApiError> {
    signed_in(StatusCode::OK, &call.auth().sign_in(proof(&call)?).await?)
}

async fn sign_up(call: Box<Call>) -> Result<Reply, ApiError> {
    signed_in(StatusCode::CREATED, &call.auth().sign_up(proof(&call)?).await?)
}

async fn refresh_token(call: Box<Call>) -> Result<Reply, ApiError> {
    let request = call.input(RefreshRequest::from_json)?;
    call.state.limiters.session(request.claimed_session())?;
    let refreshed = call.auth().refresh(&call.client()?.id, &request.refresh_token).await?;
    call.state.limiters.refreshed(refreshed.session.id);
    signed_in(StatusCode::OK, &refreshed)
}

async fn user_logged_in(call: Box<Call>) -> Result<Reply, ApiError> {
    let caller = call.caller()?;
    let user = call.auth().user(caller).await?;
    Reply::ok(&LoggedInBody { user: &user, session: &caller.session })
}

async fn delete_my_account(call: Box<Call>) -> Result<Reply, ApiError> {
    let auth_id: String = call.path("auth_id")?;
    let auth = call.auth().clone();
    let caller = call.caller()?.clone();
    // The deletion runs in a separate task, so that the deletion of a large account continues if the caller
    // disconnects.
    let deletion = tokio::spawn(async move { auth.delete_account(&caller, &auth_id).await });
    deletion.await.map_err(ApiError::unforeseen)??;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

async fn tokens(call: Box<Call>) -> Result<Reply, ApiError> {
    let caller = call.caller()?;
    let sessions = call.auth().sessions(caller).await?;
    let data = sessions.iter().map(|session| SessionBody::new(session, Some(&caller.session)));
    let data: Vec<_> = data.collect();
    Reply::ok(&json!({ "data": data }))
}

fn revoked(sessions: usize) -> Result<Reply, ApiError> {
    Reply::ok(&json!({ "revoked": sessions }))
}

async fn logout(call: Box<Call>) -> Result<Reply, ApiError> {
    revoked(call.auth().logout(&call.client()?.id, call.token()?).await?)
}

async fn revoke_all(call: Box<Call>) -> Result<Reply, ApiError> {
    revoked(call.auth().revoke_all(call.caller()?).await?)
}

async fn revoke_all_except_current(call: Box<Call>) -> Result<Reply, ApiError> {
    revoked(call.auth().revoke_all_except_current(call.caller()?).await?)
}
