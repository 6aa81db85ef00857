//! `/authentication`.

use std::net::IpAddr;

use http::{StatusCode, header};
use serde::Serialize;
use serde_json::json;
use subscription_core::auth::{
    Authentication, ProofOfIdentity, RefreshRequest, Session, SignIn, SignedIn, User,
};
use subscription_core::{Email, SessionId, Slug, Text, Timestamp, UserId};

use crate::api::call::Call;
use crate::api::cors::VARY_ORIGIN;
use crate::api::error::ApiError;
use crate::api::reply::Reply;

/// A user as they see themselves.
#[derive(Serialize)]
pub(crate) struct UserBody<'a> {
    id: UserId,
    email: &'a Email,
    created_at: Timestamp,
}

impl<'a> From<&'a User> for UserBody<'a> {
    fn from(user: &'a User) -> Self {
        Self { id: user.id, email: &user.email, created_at: user.created_at }
    }
}

/// A session as its user sees it; nothing of its tokens.
#[derive(Serialize)]
pub(crate) struct SessionBody<'a> {
    id: SessionId,
    current: bool,
    client: &'a Slug,
    issuer: &'a str,
    created_at: Timestamp,
    auth_time: Timestamp,
    last_refreshed_at: Timestamp,
    last_seen_at: Timestamp,
    expires_at: Timestamp,
    idle_expires_at: Timestamp,
    ip: Option<IpAddr>,
    user_agent: Option<&'a str>,
}

/// The session that is called in.
impl<'a> From<&'a Session> for SessionBody<'a> {
    fn from(session: &'a Session) -> Self {
        Self::new(session, session)
    }
}

impl<'a> SessionBody<'a> {
    fn new(session: &'a Session, current: &Session) -> Self {
        Self {
            id: session.id,
            current: session.id == current.id,
            client: &session.client_id,
            issuer: session.issuer.as_str(),
            created_at: session.created_at,
            auth_time: session.auth_time,
            last_refreshed_at: session.rotated_at,
            last_seen_at: session.last_seen_at,
            expires_at: session.expires_at,
            idle_expires_at: session.idle_expires_at,
            ip: session.origin.ip,
            user_agent: session.origin.user_agent.as_ref().map(Text::as_str),
        }
    }
}

#[derive(Serialize)]
struct SignedInBody<'a> {
    access_token: &'a str,
    token_type: &'static str,
    expires_in: u64,
    refresh_token: &'a str,
    refresh_expires_in: u64,
    auth_id: UserId,
    session_id: SessionId,
    user: UserBody<'a>,
}

fn signed_in(status: StatusCode, signed_in: &SignedIn) -> Result<Reply, ApiError> {
    use secrecy::ExposeSecret as _;
    let body = SignedInBody {
        access_token: signed_in.access_token.expose_secret(),
        token_type: "Bearer",
        expires_in: signed_in.expires_in.as_secs(),
        refresh_token: signed_in.refresh_token.expose_secret(),
        refresh_expires_in: signed_in.refresh_expires_in.as_secs(),
        auth_id: signed_in.user.id,
        session_id: signed_in.session.id,
        user: UserBody::from(&*signed_in.user),
    };
    Ok(Reply::json(status, &body)?.no_store())
}

impl Call {
    fn sign_in(&self) -> Result<SignIn, ApiError> {
        let ProofOfIdentity { access_token, email } = self.json(ProofOfIdentity::from_json)?;
        let client_id = self.client()?.id.clone();
        Ok(SignIn { client_id, access_token, email, origin: self.origin() })
    }
}

pub(crate) async fn sign_in(call: Box<Call>) -> Result<Reply, ApiError> {
    signed_in(StatusCode::OK, &call.auth().sign_in(call.sign_in()?).await?)
}

pub(crate) async fn sign_up(call: Box<Call>) -> Result<Reply, ApiError> {
    signed_in(StatusCode::CREATED, &call.auth().sign_up(call.sign_in()?).await?)
}

pub(crate) async fn refresh_token(call: Box<Call>) -> Result<Reply, ApiError> {
    let request = call.json(RefreshRequest::from_json)?;
    call.limiters().session(request.claimed_session())?;
    let refreshed = call.auth().refresh(&call.client()?.id, &request.refresh_token).await?;
    call.limiters().refreshed(refreshed.session.id);
    signed_in(StatusCode::OK, &refreshed)
}

pub(crate) async fn user_logged_in(call: Box<Call>) -> Result<Reply, ApiError> {
    let caller = call.caller()?;
    let user = call.auth().user(caller).await?;
    let (shown, session) = (call.written(&user)?, call.written(&caller.session)?);
    // Joined from what is written already: this is asked for on every page of a site.
    let mut body = Vec::with_capacity(shown.len() + session.len() + LOGGED_IN_BYTES);
    body.extend_from_slice(br#"{"logged_in":true,"auth_id":""#);
    body.extend_from_slice(user.id.uuid().as_hyphenated().encode_lower(&mut [0; 36]).as_bytes());
    body.extend_from_slice(br#"","user":"#);
    body.extend_from_slice(&shown);
    body.extend_from_slice(br#","session":"#);
    body.extend_from_slice(&session);
    body.push(b'}');
    Ok(Reply::written(StatusCode::OK, body).no_store())
}

/// Room for what there is beside the user and the session.
const LOGGED_IN_BYTES: usize = 128;

pub(crate) async fn delete_my_account(call: Box<Call>) -> Result<Reply, ApiError> {
    let auth_id: String = call.path("auth_id")?;
    let (auth, caller) = (call.auth().clone(), call.caller()?.clone());
    // On its own: the deletion of a large account goes on though the caller leaves.
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
