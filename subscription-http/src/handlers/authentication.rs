//! `/authentication`.

use http::StatusCode;
use serde_json::{Value, json};
use subscription_core::auth::{
    Authentication, ProofOfIdentity, RefreshRequest, Session, SignIn, SignedIn, User,
};

use crate::call::Call;
use crate::error::ApiError;
use crate::reply::Reply;

fn user_body(user: &User) -> Value {
    json!({ "id": user.id, "email": user.email, "created_at": user.created_at })
}

/// A session as its user sees it; nothing of its tokens.
fn session_body(session: &Session, current: &Session) -> Value {
    json!({
        "id": session.id,
        "current": session.id == current.id,
        "client": session.client_id,
        "issuer": session.issuer,
        "created_at": session.created_at,
        "auth_time": session.auth_time,
        "last_refreshed_at": session.rotated_at,
        "last_seen_at": session.last_seen_at,
        "expires_at": session.expires_at,
        "idle_expires_at": session.idle_expires_at,
        "ip": session.origin.ip,
        "user_agent": session.origin.user_agent,
    })
}

fn signed_in(status: StatusCode, signed_in: &SignedIn) -> Result<Reply, ApiError> {
    use secrecy::ExposeSecret as _;
    let body = json!({
        "access_token": signed_in.access_token.expose_secret(),
        "token_type": "Bearer",
        "expires_in": signed_in.expires_in.as_secs(),
        "refresh_token": signed_in.refresh_token.expose_secret(),
        "refresh_expires_in": signed_in.refresh_expires_in.as_secs(),
        "auth_id": signed_in.user.id,
        "session_id": signed_in.session.id,
        "user": user_body(&signed_in.user),
    });
    Ok(Reply::json(status, &body)?.no_store())
}

impl Call {
    fn sign_in(&self) -> Result<SignIn, ApiError> {
        let ProofOfIdentity { access_token, email } = self.json(ProofOfIdentity::from_json)?;
        let client_id = self.client()?.id.clone();
        Ok(SignIn { client_id, access_token, email, origin: self.origin() })
    }
}

pub(crate) async fn sign_in(call: Call) -> Result<Reply, ApiError> {
    signed_in(StatusCode::OK, &call.auth().sign_in(call.sign_in()?).await?)
}

pub(crate) async fn sign_up(call: Call) -> Result<Reply, ApiError> {
    signed_in(StatusCode::CREATED, &call.auth().sign_up(call.sign_in()?).await?)
}

pub(crate) async fn refresh_token(call: Call) -> Result<Reply, ApiError> {
    let request = call.json(RefreshRequest::from_json)?;
    call.limiters().session(request.claimed_session())?;
    let refreshed = call.auth().refresh(&call.client()?.id, &request.refresh_token).await?;
    call.limiters().refreshed(refreshed.session.id);
    signed_in(StatusCode::OK, &refreshed)
}

pub(crate) async fn user_logged_in(call: Call) -> Result<Reply, ApiError> {
    let caller = call.caller()?;
    let user = call.auth().user(caller).await?;
    let body = json!({
        "logged_in": true,
        "auth_id": user.id,
        "user": user_body(&user),
        "session": session_body(&caller.session, &caller.session),
    });
    Ok(Reply::ok(&body)?.no_store())
}

pub(crate) async fn delete_my_account(call: Call) -> Result<Reply, ApiError> {
    let auth_id: String = call.path("auth_id")?;
    call.auth().delete_account(call.caller()?, &auth_id).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).no_store())
}

pub(crate) async fn tokens(call: Call) -> Result<Reply, ApiError> {
    let caller = call.caller()?;
    let sessions = call.auth().sessions(caller).await?;
    let data: Vec<_> = sessions.iter().map(|s| session_body(s, &caller.session)).collect();
    Ok(Reply::ok(&json!({ "data": data }))?.no_store())
}

fn revoked(sessions: usize) -> Result<Reply, ApiError> {
    Ok(Reply::ok(&json!({ "revoked": sessions }))?.no_store())
}

pub(crate) async fn logout(call: Call) -> Result<Reply, ApiError> {
    revoked(call.auth().logout(&call.client()?.id, call.token()?).await?)
}

pub(crate) async fn revoke_all(call: Call) -> Result<Reply, ApiError> {
    revoked(call.auth().revoke_all(call.caller()?).await?)
}

pub(crate) async fn revoke_all_except_current(call: Call) -> Result<Reply, ApiError> {
    revoked(call.auth().revoke_all_except_current(call.caller()?).await?)
}

pub(crate) async fn public_keys(call: Call) -> Result<Reply, ApiError> {
    Reply::ok(&Authentication::public_keys(call.auth()))
}
