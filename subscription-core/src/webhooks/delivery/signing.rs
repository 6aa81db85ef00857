//! The signer of the requests to an endpoint.

use url::Url;

use super::signature::{Secret, current_secret, secret, sign};
use super::transport::DeliveryRequest;
use crate::server_keys::ServerKeys;
use crate::values::Timestamp;
use crate::webhooks::{Endpoint, SecretState};

/// The URL of an endpoint and the secrets that sign its deliveries, for one version of the endpoint.
#[derive(Debug)]
pub(crate) struct Signing {
    url: Url,
    current: [Secret; 1],
    /// Both secrets, the newest first, and the time at which the older one stops signing; `None` if there is only one
    /// secret.
    both: Option<([Secret; 2], Timestamp)>,
}

impl Signing {
    /// The URL and the secrets of an endpoint; `None` if the server key is missing or was replaced by another key.
    pub(crate) fn of(keys: &ServerKeys, endpoint: &Endpoint) -> Option<Self> {
        let current = current_secret(keys, endpoint)?;
        let SecretState { salt, previous, .. } = &endpoint.secret;
        let both = previous.and_then(|previous| {
            let older = secret(keys, previous.key_id, salt, endpoint.id, previous.generation)?;
            Some(([current.clone(), older], previous.until))
        });
        // This program stores only URLs that can be parsed. So the result is `None` here only if another program wrote
        // the URL.
        Some(Self { url: Url::parse(&endpoint.url).ok()?, current: [current], both })
    }

    /// A signed request. `id` must be the same in every try of an event.
    pub(crate) fn request(&self, id: &str, now: Timestamp, body: Vec<u8>) -> DeliveryRequest {
        let timestamp = now.micros().div_euclid(1_000_000);
        let secrets: &[Secret] = match &self.both {
            Some((both, until)) if now < *until => both,
            Some(_) | None => &self.current,
        };
        let signature = sign(secrets, id, timestamp, &body).into();
        DeliveryRequest { url: self.url.clone(), id: id.into(), timestamp, signature, body }
    }

    /// The URL without its query, for logs.
    pub(crate) fn shown_url(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.into()
    }
}
