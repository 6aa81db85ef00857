//! `/authentication`.

use http::{StatusCode, header};
use serde_json::json;
use subscription_core::auth::{Authentication, ProofOfIdentity, RefreshRequest, SignIn, SignedIn};

use crate::api::bodies::{LoggedInBody, SessionBody, SignedInBody};
use crate::api::call::Call;
use crate::api::cors::VARY_ORIGIN;
use crate::api::error::ApiError;
use crate::api::reply::Reply;

fn signed_in(status: StatusCode, signed_in: &SignedIn) -> Result<Reply, ApiError> {
    Ok(Reply::json(status, &SignedInBody::from(signed_in))?.no_store())
}

fn proof(call: &Call) -> Result<SignIn, ApiError> {
    let ProofOfIdentity { access_token, email } = call.input(ProofOfIdentity::from_json)?;
    let client_id = call.client()?.id.clone();
    Ok(SignIn { client_id, access_token, email, origin: call.origin() })
}

pub(crate) async fn sign_in(call: Box<Call>) -> Result<Reply, ApiError> {
    signed_in(StatusCode::OK, &call.auth().sign_in(proof(&call)?).await?)
}

pub(crate) async fn sign_up(call: Box<Call>) -> Result<Reply, ApiError> {
    signed_in(StatusCode::CREATED, &call.auth().sign_up(proof(&call)?).await?)
}

pub(crate) async fn refresh_token(call: Box<Call>) -> Result<Reply, ApiError> {
    let request = call.input(RefreshRequest::from_json)?;
    call.limiters().session(request.claimed_session())?;
    let refreshed = call.auth().refresh(&call.client()?.id, &request.refresh_token).await?;
    call.limiters().refreshed(refreshed.session.id);
    signed_in(StatusCode::OK, &refreshed)
}

pub(crate) async fn user_logged_in(call: Box<Call>) -> Result<Reply, ApiError> {
    let caller = call.caller()?;
    let user = call.auth().user(caller).await?;
    Ok(Reply::ok(&LoggedInBody::new(&user, &caller.session))?.no_store())
}

pub(crate) async fn delete_my_account(call: Box<Call>) -> Result<Reply, ApiError> {
    let auth_id: String = call.path("auth_id")?;
    let (auth, caller) = (call.auth().clone(), call.caller()?.clone());
    // A task of its own, so that the deletion of a large account continues if the caller disconnects.
    let deletion = tokio::spawn(async move { auth.delete_account(&caller, &auth_id).await });
    deletion.await.map_err(ApiError::unforeseen)??;
    Ok(Reply::empty(StatusCode::NO_CONTENT).no_store())
}

pub(crate) async fn tokens(call: Box<Call>) -> Result<Reply, ApiError> {
    let caller = call.caller()?;
    let sessions = call.auth().sessions(caller).await?;
    let data = sessions.iter().map(|session| SessionBody::new(session, &caller.session));
    let data: Vec<_> = data.collect();
    Ok(Reply::ok(&json!({ "data": data }))?.no_store())
}

fn revoked(sessions: usize) -> Result<Reply, ApiError> {
    Ok(Reply::ok(&json!({ "revoked": sessions }))?.no_store())
}

pub(crate) async fn logout(call: Box<Call>) -> Result<Reply, ApiError> {
    revoked(call.auth().logout(&call.client()?.id, call.token()?).await?)
}

pub(crate) async fn revoke_all(call: Box<Call>) -> Result<Reply, ApiError> {
    revoked(call.auth().revoke_all(call.caller()?).await?)
}

pub(crate) async fn revoke_all_except_current(call: Box<Call>) -> Result<Reply, ApiError> {
    revoked(call.auth().revoke_all_except_current(call.caller()?).await?)
}

pub(crate) async fn public_keys(call: Box<Call>) -> Result<Reply, ApiError> {
    let mut reply = Reply::ok(&Authentication::public_keys(call.auth()))?;
    reply.set(header::VARY, VARY_ORIGIN);
    Ok(reply)
}
