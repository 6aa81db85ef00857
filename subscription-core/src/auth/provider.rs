//! Identity providers on the network: `OpenID` Connect (OIDC) with published keys, and token introspection.
//!
//! The library has no HTTP client: the program that embeds it implements [`Fetch`].

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use jsonwebtoken::jwk::Jwk;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::identity::{Identity, IdentityRefused, IdentityVerifier, TOKEN_BYTES_MAX, Trust};
use super::jws::{Algorithm, Compact, VerifyingKey};
use crate::http_client::{ANSWER_BYTES_MAX, Fetch, FetchFailed, FetchRequest};
use crate::values::{Email, Timestamp, locked};

/// Maximum number of a provider's keys that are stored.
const KEYS_MAX: usize = 100;

/// Minimum time between the starts of two fetches of the keys, even if tokens with unknown key ids arrive.
const FETCH_EVERY: Duration = Duration::from_secs(30);

/// The age at which the keys are fetched again; if the fetch fails, the old keys stay in use until [`KEYS_AGE_MAX`].
const FRESH_FOR: Duration = Duration::from_hours(1);

/// The age from which keys are no longer used, even if they cannot be fetched: the provider may have withdrawn them.
const KEYS_AGE_MAX: Duration = Duration::from_hours(24);

/// The algorithms accepted from an OIDC provider.
const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa];

/// Verifies the tokens of an OIDC provider with its published keys.
#[derive(Debug)]
pub struct OidcIdentities {
    trust: Trust,
    keys_url: Url,
    fetch: Arc<dyn Fetch>,
    known: Mutex<KnownKeys>,
    flight: async_lock::Mutex<Flight>,
}

/// The running request for the provider's keys; `None` while nothing is requested.
///
/// The fetch outlives the caller that began it. Otherwise a caller that disconnects would cancel the fetch, and the
/// other callers would have no keys until the next fetch is due. An attacker could repeat this.
#[derive(Default)]
struct Flight(Option<PendingFetch>);

type PendingFetch = Pin<Box<dyn Future<Output = Result<Vec<u8>, FetchFailed>> + Send>>;

impl Flight {
    /// Waits for the response; `None` if no fetch is in progress.
    async fn landed(&mut self) -> Option<Result<Vec<u8>, FetchFailed>> {
        poll_fn(|context| {
            // The fetch is taken out of `self` while it is polled, so that a fetch that panics is not polled again.
            let Some(mut fetch) = self.0.take() else { return Poll::Ready(None) };
            let polled = fetch.as_mut().poll(context);
            if polled.is_pending() {
                self.0 = Some(fetch);
            }
            polled.map(Some)
        })
        .await
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flight({})", if self.0.is_some() { "running" } else { "none" })
    }
}

#[derive(Debug, Default)]
struct KnownKeys {
    /// The keys in the order of the key set, each with its id, if it has one.
    keys: Vec<(Option<String>, VerifyingKey)>,
    fetched_at: Option<Timestamp>,
    tried_at: Option<Timestamp>,
}

impl OidcIdentities {
    /// Trusts the keys at `keys_url` (the provider's `jwks_uri`).
    pub fn new(trust: Trust, keys_url: Url, fetch: Arc<dyn Fetch>) -> Self {
        Self {
            trust,
            keys_url,
            fetch,
            known: Mutex::default(),
            flight: async_lock::Mutex::default(),
        }
    }

    /// The provider's key with this key id. If the token names no key id (`None`), the provider's key, if it has only
    /// one. If the key is unknown or too old, the keys are fetched, unless the last fetch was less than [`FETCH_EVERY`]
    /// ago.
    async fn key(&self, id: Option<&str>, now: Timestamp) -> Result<VerifyingKey, IdentityRefused> {
        if let Some(key) = self.known_key(id, now, true) {
            return Ok(key);
        }
        // One caller fetches the keys, and the others wait for the result. If a fetch is in progress, a caller whose
        // key is known does not wait, and uses that key, even if it is too old.
        let mut flight = match (self.flight.try_lock(), self.known_key(id, now, false)) {
            (Some(flight), _) => flight,
            (None, Some(key)) => return Ok(key),
            (None, None) => self.flight.lock().await,
        };
        if let Some(key) = self.known_key(id, now, true) {
            return Ok(key);
        }
        let fetched = self.fetch_keys(&mut flight, now).await;
        match (self.known_key(id, now, false), fetched) {
            (Some(key), _) => Ok(key),
            (None, Ok(())) if self.has_keys(now) => {
                tracing::info!(
                    "identity token rejected: the provider has no key with the key id (kid) that the token names"
                );
                Err(IdentityRefused::Rejected)
            }
            (None, Ok(())) => Err(IdentityRefused::Unavailable("no keys were received".into())),
            (None, Err(failed)) => Err(IdentityRefused::Unavailable(failed.into())),
        }
    }

    fn known_key(&self, id: Option<&str>, now: Timestamp, fresh: bool) -> Option<VerifyingKey> {
        let known = locked(&self.known);
        let fetched_at = known.fetched_at?;
        if now >= fetched_at.saturating_add(KEYS_AGE_MAX)
            || (fresh && !is_within(FRESH_FOR, fetched_at, now))
        {
            return None;
        }
        let found = match (id, known.keys.as_slice()) {
            // If two keys have the same id, the first one is used.
            (Some(id), keys) => keys.iter().find(|(known, _)| known.as_deref() == Some(id)),
            // A token of a provider with one key need not name the key.
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        found.map(|(_, key)| key.clone())
    }

    /// True if there are keys that are not too old.
    fn has_keys(&self, now: Timestamp) -> bool {
        let known = locked(&self.known);
        let are_current = |at: Timestamp| now < at.saturating_add(KEYS_AGE_MAX);
        !known.keys.is_empty() && known.fetched_at.is_some_and(are_current)
    }

    /// True if a fetch may begin now: at least [`FETCH_EVERY`] must have passed since the last one began. If it returns
    /// true, it records `now` as the time at which the new fetch begins.
    fn may_try(&self, now: Timestamp) -> bool {
        let mut known = locked(&self.known);
        if known.tried_at.is_some_and(|at| is_within(FETCH_EVERY, at, now)) {
            return false;
        }
        known.tried_at = Some(now);
        true
    }

    /// Waits for the fetch in progress, and stores the keys. If no fetch is in progress, starts one first, if it is
    /// due.
    async fn fetch_keys(&self, flight: &mut Flight, now: Timestamp) -> Result<(), FetchFailed> {
        if flight.0.is_none() && self.may_try(now) {
            let request = FetchRequest::get(self.keys_url.clone());
            let fetch = Arc::clone(&self.fetch);
            flight.0 = Some(Box::pin(async move { fetch.fetch(request).await }));
        }
        let Some(body) = flight.landed().await else { return Ok(()) };
        let keys = read_keys(&body?)?;
        if keys.is_empty() {
            tracing::warn!("the identity provider publishes no usable key: nobody can sign in");
        }
        let mut known = locked(&self.known);
        known.keys = keys;
        known.fetched_at = Some(now);
        Ok(())
    }
}

/// True if `now` is less than `span` after `at`, or less than [`FETCH_EVERY`] before it.
///
/// `now` can be before `at`, because a caller reads the clock before it waits for other callers. But if `now` is much
/// earlier, the clock was set back. The result is then false: otherwise no fetch would begin until the clock reaches
/// `at` again.
fn is_within(span: Duration, at: Timestamp, now: Timestamp) -> bool {
    now < at.saturating_add(span) && at < now.saturating_add(FETCH_EVERY)
}

/// The supported keys of a JWK set. A set without such keys is no error: the provider has withdrawn all others.
fn read_keys(body: &[u8]) -> Result<Vec<(Option<String>, VerifyingKey)>, FetchFailed> {
    #[derive(serde::Deserialize)]
    struct AnyKeys {
        keys: Vec<serde_json::Value>,
    }
    if body.len() > ANSWER_BYTES_MAX {
        return Err(FetchFailed::new("the key set is too large"));
    }
    let set: AnyKeys = serde_json::from_slice(body).map_err(FetchFailed::new)?;
    // Each key is parsed on its own, so that a key of an unknown type does not make the other keys unreadable.
    let keys = set.keys.into_iter().filter_map(|key| {
        let jwk: Jwk = serde_json::from_value(key).ok()?;
        let key = VerifyingKey::from_jwk(&jwk, &ALGORITHMS)?;
        Some((jwk.common.key_id, key))
    });
    Ok(keys.take(KEYS_MAX).collect())
}

#[async_trait]
impl IdentityVerifier for OidcIdentities {
    async fn verify(
        &self,
        token: &SecretString,
        _: &Email,
        now: Timestamp,
    ) -> Result<Identity, IdentityRefused> {
        let compact = Compact::parse(token.expose_secret(), TOKEN_BYTES_MAX)
            .filter(Compact::may_name_a_person)
            .ok_or(IdentityRefused::Rejected)?;
        let key = self.key(compact.key_id.as_deref(), now).await?;
        let Some(claims) = compact.verify(&key) else {
            tracing::info!("identity token rejected: its signature is wrong");
            return Err(IdentityRefused::Rejected);
        };
        self.trust.identity(&claims, now).ok_or(IdentityRefused::Rejected)
    }

    fn keys_fetched_at(&self) -> Option<Timestamp> {
        locked(&self.known).fetched_at
    }
}

/// Verifies each token by introspection at the provider (RFC 7662).
#[derive(Debug)]
pub struct IntrospectedIdentities {
    trust: Trust,
    endpoint: Url,
    client: (String, SecretString),
    fetch: Arc<dyn Fetch>,
}

impl IntrospectedIdentities {
    /// Introspects tokens at `endpoint`. `client` is the id and the secret by which this service authenticates there.
    pub fn new(
        trust: Trust,
        endpoint: Url,
        client: (String, SecretString),
        fetch: Arc<dyn Fetch>,
    ) -> Self {
        Self { trust, endpoint, client, fetch }
    }
}

#[async_trait]
impl IdentityVerifier for IntrospectedIdentities {
    async fn verify(
        &self,
        token: &SecretString,
        _: &Email,
        now: Timestamp,
    ) -> Result<Identity, IdentityRefused> {
        let text = token.expose_secret();
        if text.trim().is_empty() || text.len() > TOKEN_BYTES_MAX {
            return Err(IdentityRefused::Rejected);
        }
        let hint = SecretString::from("access_token");
        let (user, password) = self.client.clone();
        let request = FetchRequest {
            form: Some(vec![("token", token.clone()), ("token_type_hint", hint)]),
            basic: Some((user.into(), password)),
            ..FetchRequest::get(self.endpoint.clone())
        };
        let answer = self.fetch.fetch(request).await;
        let answer = answer.map_err(|failed| IdentityRefused::Unavailable(failed.into()))?;
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(IdentityRefused::Unavailable("the response is too large".into()));
        }
        self.trust.introspected(&answer, now).ok_or(IdentityRefused::Rejected)
    }
}
