//! The bodies of deliveries.
//!
//! A body contains the event, and its record as a GET returns it at the time of the delivery. It never contains an
//! actor, an e-mail or IP address, a user agent or a hash.

use std::io::Write as _;
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use crate::accounts::User;
use crate::error::Error;
use crate::events::{RecordedEvent, Subject};
use crate::plans::Plan;
use crate::service::SubscriptionService;
use crate::store::{PageLimit, PlanOrder, PlanQuery, Position, SortKey, StoreError, StoreExt as _};
use crate::values::{PlanId, Timestamp, UserId, Version};

/// The maximum size of a record in a body, in bytes of JSON with the name of its member. A larger record is left out.
const OBJECT_BYTES_MAX: usize = OBJECT_NAME.len() + 16 * 1_024;
/// What comes before the record in a body.
const OBJECT_NAME: &[u8] = b",\"object\":";
/// The initial capacity of a body, in bytes. Nearly all bodies are shorter.
const BODY_BYTES: usize = 1_536;

/// The fields of a user that are sent.
#[derive(Serialize)]
struct ShownUser {
    id: UserId,
    created_at: Timestamp,
    version: Version,
}

/// The body of the delivery of an event, with the present state of its record.
pub(crate) async fn body(
    service: &SubscriptionService,
    recorded: &RecordedEvent,
) -> Result<Vec<u8>, Error> {
    let mut body = Vec::with_capacity(BODY_BYTES);
    head(&mut body, recorded).map_err(|error| StoreError::Damaged(error.into()))?;
    let before_object = body.len();
    match object(&mut body, service, recorded).await {
        Ok(()) if body.len() - before_object <= OBJECT_BYTES_MAX => {}
        // A record that cannot be read must not hold up the events of other records, nor the later ones of its own.
        Err(Error::Store(StoreError::Damaged(cause))) => {
            let record = recorded.event.subject.to_string();
            let sequence = recorded.sequence;
            tracing::warn!(record, sequence, %cause, "a webhook is sent without its record, which cannot be read");
            omit(&mut body, before_object);
        }
        Ok(()) => omit(&mut body, before_object),
        Err(error) => return Err(error),
    }
    body.extend_from_slice(b"}}");
    Ok(body)
}

/// Says in the place of the record that it is left out.
fn omit(body: &mut Vec<u8>, before_object: usize) {
    body.truncate(before_object);
    body.extend_from_slice(b",\"object_omitted\":true");
}

/// Writes the member `object`: the record of an event.
async fn object(
    body: &mut Vec<u8>,
    service: &SubscriptionService,
    recorded: &RecordedEvent,
) -> Result<(), Error> {
    body.extend_from_slice(OBJECT_NAME);
    match &recorded.event.subject {
        Subject::Plan(id) => write_object(body, plan(service, *id, recorded.event.version).await),
        Subject::Subscription(id) => write_object(body, service.subscription(*id).await),
        Subject::Payment(id) => write_object(body, service.payment(*id).await),
        Subject::User(id) => {
            let user = service.store().get_as::<User>(id).await?;
            let shown = |user: &User| {
                let User { id, created_at, version, .. } = *user;
                ShownUser { id, created_at, version }
            };
            write_object(body, Ok(Arc::new(user.as_deref().map(shown))))
        }
        // Events of sessions and clients are never sent.
        Subject::Session(_) | Subject::Client(_) => {
            body.extend_from_slice(b"null");
            Ok(())
        }
    }
}

/// The plan with the version `version` (that of the event) or a later one. If another process changed the plan, the
/// cache may still have an earlier version; then the plan is read from the store.
async fn plan(
    service: &SubscriptionService,
    id: PlanId,
    version: Version,
) -> Result<Arc<Plan>, Error> {
    let cached = service.plan_by_id(id).await?;
    if cached.version >= version {
        return Ok(cached);
    }
    // Lists are read from the store, not from the cache. So this reads a list of one plan that begins just before the
    // id of this plan.
    let before = Uuid::from_u128(id.uuid().as_u128().saturating_sub(1));
    let query = PlanQuery::default()
        .with_order(PlanOrder::CreatedAt)
        .with_after(Position { key: SortKey::CreatedAt, id: before })
        .with_limit(PageLimit::ONE);
    let found = service.plans(query).await?.whole()?.items.into_iter().find(|plan| plan.id == id);
    found.ok_or_else(|| Error::NotFound { record: "plan", name: id.to_string() })
}

/// The body of a ping: a delivery that only tests the endpoint.
pub(crate) fn ping(now: Timestamp) -> Vec<u8> {
    format!(r#"{{"type":"webhook.ping","timestamp":"{now}","data":{{}}}}"#).into_bytes()
}

/// Writes the body up to the member `object`, which is the record. Types, times and ids need no escaping in JSON.
fn head(body: &mut Vec<u8>, recorded: &RecordedEvent) -> Result<(), std::io::Error> {
    let RecordedEvent { sequence, event } = recorded;
    let name = event.name();
    let at = event.at;
    let version = event.version;
    write!(body, r#"{{"type":"{name}","timestamp":"{at}","sequence":{sequence},"data":{{"id":"#)?;
    match &event.subject {
        Subject::Client(id) => serde_json::to_writer(&mut *body, id)?,
        subject @ (Subject::Plan(_)
        | Subject::Subscription(_)
        | Subject::Payment(_)
        | Subject::User(_)
        | Subject::Session(_)) => serde_json::to_writer(&mut *body, &subject.uuid())?,
    }
    write!(body, r#","kind":"{}","version":{version},"change":"#, event.subject.kind())?;
    let mut change = serde_json::to_value(&event.change)?;
    // The type of the event already contains the name of the change.
    if let Some(members) = change.as_object_mut() {
        members.remove("change");
    }
    Ok(serde_json::to_writer(body, &change)?)
}

/// Writes a record, or null if it does not exist.
fn write_object<T: Serialize>(
    body: &mut Vec<u8>,
    record: Result<Arc<T>, Error>,
) -> Result<(), Error> {
    match record {
        Ok(record) => serde_json::to_writer(body, &*record)
            .map_err(|error| StoreError::Damaged(error.into()).into()),
        Err(Error::NotFound { .. }) => {
            body.extend_from_slice(b"null");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
