//! One try to deliver an event.

use super::payload;
use super::signing::Signing;
use super::wake::Wake;
use crate::error::Error;
use crate::events::RecordedEvent;
use crate::values::Timestamp;
use crate::webhooks::Webhooks;
use crate::webhooks::sending::outcome::Tried;

/// Sends an event with its record as it is now. `None` if it could not begin in time, or sending must stop.
pub(crate) async fn attempt(
    (webhooks, wake): (&Webhooks, &dyn Wake),
    signing: &Signing,
    recorded: &RecordedEvent,
    begin_by: Timestamp,
) -> Result<Option<Tried>, Error> {
    let body = payload::body(&webhooks.service, recorded).await?;
    let begun_at = webhooks.now();
    if begun_at > begin_by || wake.is_stopped() {
        return Ok(None);
    }
    let request = signing.request(&recorded.event.id.to_string(), begun_at, body);
    let outcome = webhooks.transport.deliver(request).await;
    let at = webhooks.now();
    Ok(Some(Tried { outcome, at, took: at.since(begun_at) }))
}
