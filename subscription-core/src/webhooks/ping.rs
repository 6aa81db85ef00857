//! The ping: a delivery that is in no feed, by which a caller tests an endpoint.

use serde::Serialize;
use serde_json::json;
use url::Url;

use super::documents::{Endpoint, EndpointId, SecretState};
use super::facade::Webhooks;
use super::outcome::Outcome;
use super::signature::{Secret, secret, sign};
use super::transport::DeliveryRequest;
use crate::error::{Conflict, Error};
use crate::store::StoreError;
use crate::values::clock::Timestamp;
use crate::values::id::EventId;

/// The outcome of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Ping {
    /// The name of the outcome.
    pub outcome: &'static str,
    /// The status of the answer.
    pub status: Option<u16>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl Webhooks {
    /// Sends one `webhook.ping`, also to an endpoint that is disabled. If it is accepted, the endpoint is no longer
    /// stalled.
    pub async fn ping(&self, id: EndpointId) -> Result<Ping, Error> {
        let endpoint = self.load(id).await?.endpoint.body;
        let began = self.now();
        let outcome = self.transport.deliver(self.ping_request(&endpoint, began)?).await;
        let ended = self.now();
        if outcome.is_delivered() {
            self.note_success(id, ended).await?;
        }
        let duration_ms = u64::try_from(ended.since(began).as_millis()).unwrap_or(u64::MAX);
        Ok(Ping { outcome: outcome.name(), status: Outcome::status(&outcome), duration_ms })
    }

    fn ping_request(&self, endpoint: &Endpoint, now: Timestamp) -> Result<DeliveryRequest, Error> {
        let url = Url::parse(&endpoint.url).map_err(|error| StoreError::Damaged(error.into()))?;
        let id = EventId::new(now, self.service.randomness())?.to_string();
        let data = json!({ "id": endpoint.id, "kind": "webhook_endpoint" });
        let body = json!({ "type": "webhook.ping", "timestamp": now, "data": data });
        let body = body.to_string().into_bytes();
        let secrets = self.secrets(endpoint, now).ok_or(Conflict::KeyMissing)?;
        let timestamp = now.micros().div_euclid(1_000_000);
        let signature = sign(&secrets, &id, timestamp, &body).into();
        Ok(DeliveryRequest { url, id: id.into(), timestamp, signature, body })
    }

    /// The secrets that sign now, the newest first; `None` if the server key is missing, or is another one.
    fn secrets(&self, endpoint: &Endpoint, now: Timestamp) -> Option<Vec<Secret>> {
        let SecretState { salt, previous, .. } = &endpoint.secret;
        let current = self.current_secret(endpoint)?;
        let previous = previous.filter(|previous| previous.until > now).and_then(|previous| {
            secret(&self.keys, previous.key_id, salt, endpoint.id, previous.generation)
        });
        Some([current].into_iter().chain(previous).collect())
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
