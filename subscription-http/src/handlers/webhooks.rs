//! `/webhook-endpoints`: the endpoints that events are sent to.

use http::StatusCode;
use serde::Serialize;
use subscription_core::auth::Scope::{UsersRead, WebhooksRead, WebhooksWrite};
use subscription_core::events::Subject;
use subscription_core::webhooks::{
    EndpointChanges, EndpointId, EndpointWithSecret, ListedParked, NewEndpoint, Resend, Rewind,
    Rotation, Secret, ShownEndpoint, Webhooks,
};

use super::events::{ShownEvent, shown};
use crate::api::routes::{
    ApiPart, Area, delete, get, list, of_part, post, post_empty, post_optional, put, scope,
};
use crate::api::{ApiError, Call, Refusal, Reply};

pub(crate) static AREA: Area = Area::new(
    "/webhook-endpoints",
    &of_part(
        ApiPart::Webhooks,
        [
            post("/webhook-endpoints", scope(WebhooksWrite), &create),
            list("/webhook-endpoints", scope(WebhooksRead), &list_page),
            get("/webhook-endpoints/{endpoint_id}", scope(WebhooksRead), &show),
            put("/webhook-endpoints/{endpoint_id}", scope(WebhooksWrite), &update),
            delete("/webhook-endpoints/{endpoint_id}", scope(WebhooksWrite), &remove),
            post_optional(
                "/webhook-endpoints/{endpoint_id}/rotate-secret",
                scope(WebhooksWrite),
                &rotate_secret,
            ),
            post_empty("/webhook-endpoints/{endpoint_id}/ping", scope(WebhooksWrite), &ping),
            post("/webhook-endpoints/{endpoint_id}/rewind", scope(WebhooksWrite), &rewind),
            post("/webhook-endpoints/{endpoint_id}/resend", scope(WebhooksWrite), &resend),
            list("/webhook-endpoints/{endpoint_id}/parked", scope(WebhooksRead), &parked),
        ],
    ),
);

/// The webhooks, within the scopes of the client.
fn webhooks(call: &Call) -> Result<Webhooks, ApiError> {
    let webhooks = call.state.webhooks.as_ref().ok_or(Refusal::RouteUnknown)?;
    Ok(webhooks.within(&call.client()?.scopes))
}

fn may_read_users(call: &Call) -> Result<bool, ApiError> {
    Ok(call.client()?.scopes.contains(&UsersRead))
}

/// Logs a call that changed an endpoint, and wakes the job that sends events. The log line omits the query of the URL,
/// because the query may contain a secret of the receiver.
fn note(
    call: &Call,
    id: EndpointId,
    action: &'static str,
    url: Option<&str>,
) -> Result<(), ApiError> {
    let actor = call.actor()?;
    let url = url.and_then(|url| url.split('?').next());
    tracing::info!(endpoint = %id, %actor, action, url, "webhook endpoint managed");
    call.state.webhook_signal.notify();
    Ok(())
}

/// The id of the endpoint in the path. Fails if the rate limit of this endpoint is reached.
fn limited(call: &Call) -> Result<EndpointId, ApiError> {
    let id = call.path("endpoint_id")?;
    call.state.limiters.endpoint(id)?;
    Ok(id)
}

/// An endpoint with its secret. No later response shows the secret.
#[derive(Serialize)]
struct SecretBody<'a> {
    #[serde(flatten)]
    endpoint: &'a ShownEndpoint,
    secret: Option<String>,
}

impl<'a> From<&'a EndpointWithSecret> for SecretBody<'a> {
    fn from(created: &'a EndpointWithSecret) -> Self {
        let secret = created.secret.as_ref().map(Secret::expose);
        Self { endpoint: &created.endpoint, secret }
    }
}

async fn create(call: Box<Call>) -> Result<Reply, ApiError> {
    let webhooks = webhooks(&call)?;
    let new = call.input(|json| NewEndpoint::from_json(json, webhooks.addresses()))?;
    let idempotency = call.idempotency()?;
    let created = webhooks.create_once(new, idempotency).await?;
    let endpoint = &created.endpoint;
    if !created.replayed {
        note(&call, endpoint.id, "create", Some(&endpoint.url))?;
    }
    let reply = Reply::json(StatusCode::CREATED, &SecretBody::from(&created))?;
    let reply = reply.location(&format!("webhook-endpoints/{}", endpoint.id));
    Ok(reply.version(endpoint.version).replayed(created.replayed))
}

async fn list_page(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&["limit", "cursor"], &[])?;
    let after = call.after()?;
    let page = webhooks(&call)?.list(after, query.limit()?).await?;
    call.page_of(&page, &page.items)
}

async fn show(call: Box<Call>) -> Result<Reply, ApiError> {
    whole(&webhooks(&call)?.get(call.path("endpoint_id")?).await?)
}

fn whole(endpoint: &ShownEndpoint) -> Result<Reply, ApiError> {
    Ok(Reply::ok(endpoint)?.version(endpoint.version))
}

async fn update(call: Box<Call>) -> Result<Reply, ApiError> {
    let webhooks = webhooks(&call)?;
    let id = call.path("endpoint_id")?;
    let changes = call.input(|json| EndpointChanges::from_json(json, webhooks.addresses()))?;
    let update = |version| webhooks.update_if(id, version, changes.clone());
    let endpoint = call.if_match(update).await?;
    note(&call, id, "update", Some(&endpoint.url))?;
    whole(&endpoint)
}

async fn remove(call: Box<Call>) -> Result<Reply, ApiError> {
    let webhooks = webhooks(&call)?;
    let id = call.path("endpoint_id")?;
    call.if_match(|version| webhooks.delete_if(id, version)).await?;
    note(&call, id, "delete", None)?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

async fn rotate_secret(call: Box<Call>) -> Result<Reply, ApiError> {
    let id = call.path("endpoint_id")?;
    let rotation = call.input(Rotation::from_json)?;
    let rotated = webhooks(&call)?.rotate_secret(id, rotation.overlap).await?;
    note(&call, id, "rotate_secret", None)?;
    Ok(Reply::ok(&SecretBody::from(&rotated))?.version(rotated.endpoint.version))
}

async fn ping(call: Box<Call>) -> Result<Reply, ApiError> {
    let id = limited(&call)?;
    let pinged = webhooks(&call)?.ping(id).await?;
    note(&call, id, "ping", None)?;
    Reply::ok(&pinged)
}

async fn rewind(call: Box<Call>) -> Result<Reply, ApiError> {
    let id = limited(&call)?;
    let to = call.input(Rewind::from_json)?;
    let endpoint = webhooks(&call)?.rewind(id, to).await?;
    note(&call, id, "rewind", None)?;
    whole(&endpoint)
}

async fn resend(call: Box<Call>) -> Result<Reply, ApiError> {
    let id = limited(&call)?;
    let events = call.input(Resend::from_json)?;
    let endpoint = webhooks(&call)?.resend(id, events).await?;
    note(&call, id, "resend", None)?;
    Ok(Reply::json(StatusCode::ACCEPTED, &endpoint)?.version(endpoint.version))
}

/// A parked event: the endpoint has not accepted it, or it waits for an earlier event of the same record.
#[derive(Serialize)]
struct ParkedBody<'a> {
    sequence: u64,
    #[serde(flatten)]
    parked: &'a ListedParked,
    /// `None` for an event of a user if the caller may not read users.
    event: Option<ShownEvent<'a>>,
}

impl<'a> ParkedBody<'a> {
    fn new(parked: &'a ListedParked, may_read_users: bool) -> Result<Self, ApiError> {
        let event = &parked.event;
        let is_shown = may_read_users || !matches!(event.event.subject, Subject::User(_));
        let shown = is_shown.then(|| shown(event)).transpose()?;
        Ok(Self { sequence: event.sequence, parked, event: shown })
    }
}

async fn parked(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&["limit", "cursor"], &[])?;
    let after = call.after()?;
    let page = webhooks(&call)?.parked(call.path("endpoint_id")?, after, query.limit()?).await?;
    let may_read_users = may_read_users(&call)?;
    let data = page.items.iter().map(|parked| ParkedBody::new(parked, may_read_users));
    let data: Vec<_> = data.collect::<Result<_, _>>()?;
    call.page_of(&page, &data)
}
