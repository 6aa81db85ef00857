//! `/events`: the feed of changes.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use subscription_core::auth::Scope::{EventsRead, UsersRead};
use subscription_core::events::{Actor, RecordedEvent, Subject, TypePattern};
use subscription_core::store::{EventPage, EventQuery};
use subscription_core::{EventId, Timestamp, Version};

use crate::api::input::bounds::{EVENT_TYPES_MAX, EVENT_WAIT_SECONDS_MAX};
use crate::api::routes::{Area, list, scope};
use crate::api::{ApiError, Call, Reply};

pub(crate) static AREA: Area = Area::new("/events", &[list("/events", scope(EventsRead), &read)]);

const PARAMETERS: [&str; 5] = ["after", "limit", "type", "subject_id", "wait"];

#[derive(Serialize)]
struct Shown<'p> {
    data: Vec<ShownEvent<'p>>,
    has_more: bool,
    next_after: u64,
    last: u64,
}

#[derive(Serialize)]
pub(super) struct ShownEvent<'p> {
    id: EventId,
    sequence: u64,
    at: Timestamp,
    #[serde(rename = "type")]
    name: String,
    subject: &'p Subject,
    version: Version,
    actor: &'p Actor,
    change: Value,
}

async fn read(call: Box<Call>) -> Result<Reply, ApiError> {
    let query = &call.query;
    query.expect(&PARAMETERS, &["type"])?;
    let after = query.number("after", 0, i64::MAX.unsigned_abs())?;
    let wait = Duration::from_secs(query.number("wait", 0, EVENT_WAIT_SECONDS_MAX)?.unwrap_or(0));
    let asked = EventQuery::after(after.unwrap_or(0), query.limit()?)
        // The ids of all kinds of records have the same format, so a subject's id is parsed as an `EventId`.
        .with_subject(query.read::<EventId>("subject_id")?.map(EventId::uuid))
        .with_types(types(&call)?);
    let Call { state, .. } = &*call;
    // The wait is shorter than the time-out of the handler, so that the response is sent before the time-out.
    let wait = wait.min(state.timeouts.handler * 5 / 6);
    let client = &call.client()?.id;
    show(&state.long_polls.read(&call.service, client, asked, after, wait).await?)
}

/// The types of events that the query requests. For events of users, sessions and clients, the caller also needs the
/// scope [`UsersRead`]. A caller without this scope who requests no types gets all other events.
fn types(call: &Call) -> Result<Vec<TypePattern>, ApiError> {
    let mut types: Vec<TypePattern> = call.query.read_few("type", EVENT_TYPES_MAX)?;
    let client = call.client()?;
    if types.iter().any(TypePattern::is_of_accounts) {
        client.require(UsersRead)?;
    }
    if types.is_empty() && !client.scopes.contains(&UsersRead) {
        types.push(TypePattern::LEDGER);
    }
    Ok(types)
}

fn show(page: &EventPage) -> Result<Reply, ApiError> {
    let data = page.items.iter().map(shown).collect::<Result<_, _>>()?;
    let has_more = page.reached < page.last;
    Reply::ok(&Shown { data, has_more, next_after: page.reached, last: page.last })
}

pub(super) fn shown(recorded: &RecordedEvent) -> Result<ShownEvent<'_>, ApiError> {
    let RecordedEvent { sequence, event } = recorded;
    let mut change = serde_json::to_value(&event.change).map_err(ApiError::unforeseen)?;
    // The name of the change is already a part of the event's type.
    if let Value::Object(members) = &mut change {
        members.remove("change");
    }
    Ok(ShownEvent {
        id: event.id,
        sequence: *sequence,
        at: event.at,
        name: event.name(),
        subject: &event.subject,
        version: event.version,
        actor: &event.actor,
        change,
    })
}
