//! The ping: a delivery that tests an endpoint. It is not an event of the feed.

use serde::Serialize;

use crate::error::{Conflict, Error};
use crate::values::{EventId, Timestamp};
use crate::webhooks::delivery::payload;
use crate::webhooks::delivery::signing::Signing;
use crate::webhooks::{Endpoint, EndpointId, Webhooks};

/// The outcome of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Ping {
    /// The name of the outcome, such as `delivered` or `timed_out`.
    pub outcome: &'static str,
    /// The status of the response; `None` if there was no response.
    pub status: Option<u16>,
    /// How long the ping took, in milliseconds.
    pub duration_ms: u64,
}

impl Webhooks {
    /// Sends one `webhook.ping`, also to a disabled endpoint. If the endpoint accepts the ping, its stall ends.
    pub async fn ping(&self, id: EndpointId) -> Result<Ping, Error> {
        let endpoint = self.load(id).await?.endpoint.body;
        let began = self.now();
        let signing = Signing::of(&self.keys, &endpoint).ok_or(Conflict::KeyMissing)?;
        let event = EventId::new(began, self.service.randomness())?.to_string();
        let request = signing.request(&event, began, payload::ping(began));
        let outcome = self.transport.deliver(request).await;
        let ended = self.now();
        if outcome.is_delivered() {
            self.note_success(id, ended).await?;
        }
        let duration_ms = u64::try_from(ended.since(began).as_millis()).unwrap_or(u64::MAX);
        Ok(Ping { outcome: outcome.name(), status: outcome.status(), duration_ms })
    }

    /// Ends the stall of an endpoint that accepted a ping.
    async fn note_success(&self, id: EndpointId, now: Timestamp) -> Result<(), Error> {
        let attempt = || async {
            let mut loaded = self.load(id).await?;
            if loaded.delivery.body.stall.is_none() {
                return Ok(());
            }
            loaded.delivery.body.last_success_at = Some(now);
            let woken = self.end_stall(&mut loaded, now).await?;
            self.write_loaded(&mut loaded, false, woken, Vec::new()).await
        };
        self.service.retrying_on(&Endpoint::key(id)?, attempt).await
    }
}
