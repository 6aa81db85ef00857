//! CORS (the Fetch standard): which web pages of other origins may call the API and read its responses.
//!
//! A response is *granted* if it has the CORS headers with which the page may read it. A preflight has no `client-id`:
//! it is granted if any live public client lists the origin of the page. Other responses are granted if the calling
//! client lists the origin. If the client is not known, as in a 401, any live public client that lists the origin is
//! enough, because the page must be able to read the `code`. The portal's page (the setting `portal_url`) needs no
//! client: its preflights are granted, and so are the responses to requests that it sends without a client. Credentials
//! mode is never allowed. In development, clients list no origins: pages from this machine are granted instead.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use subscription_core::Timestamp;
use subscription_core::auth::{Authentication, Client, WebOrigin};
use tokio::time::timeout;
use url::Url;

use super::clients::Clients;

/// The request headers that a page may send.
const ALLOWED: HeaderValue = HeaderValue::from_static(
    "client-id, authorization, content-type, idempotency-key, if-match, if-none-match",
);

/// The response headers that a page may read, in addition to the headers that CORS allows to every page.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "etag, location, retry-after, ratelimit, ratelimit-policy, x-request-id, idempotency-replayed",
);

/// How long a browser may cache the response to a preflight, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The value of `Vary` of every response. It says to caches that the response depends on the origin of the page; also
/// the response to a request without an origin, which a cache would else give to a page.
pub(crate) const VARY_ORIGIN: HeaderValue = HeaderValue::from_static("Origin");

/// How long the origins of all clients are cached.
const CACHED_FOR: Duration = Duration::from_secs(1);

/// How long the read of the origins of all clients from the store may take.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// The web page that sent a request. A request of a page has the header `Origin`.
pub(crate) struct Page {
    origin: HeaderValue,
    /// True if the request is a preflight.
    is_preflight: bool,
    /// The calling client; `None` until the client is known.
    pub(crate) client: Option<Arc<Client>>,
}

impl Page {
    /// The page that sent a request; `None` if the request has no `Origin`.
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Option<Box<Self>> {
        let origin = headers.get(header::ORIGIN)?.clone();
        let asks = headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let is_preflight = method == Method::OPTIONS && asks;
        Some(Box::new(Self { origin, is_preflight, client: None }))
    }

    /// True if the page has the origin of the portal, and the client is not known. If the client is known, the origins
    /// that the client lists decide.
    pub(crate) fn is_portal(&self, portal: &Url) -> bool {
        self.client.is_none() && self.origin == portal.origin().ascii_serialization()
    }

    /// Sets the headers from which the browser knows whether the page may read the response.
    pub(crate) fn set_headers(
        &self,
        is_granted: bool,
        status: StatusCode,
        headers: &mut HeaderMap,
    ) {
        if !is_granted {
            return;
        }
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.origin.clone());
        if !self.is_preflight {
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        } else if let (StatusCode::NO_CONTENT, Some(methods)) =
            (status, headers.get(header::ALLOW).cloned())
        {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
    }
}

/// A cache of the origins of all live clients.
#[derive(Default)]
pub(crate) struct Origins(Arc<Mutex<Option<Listed>>>);

struct Listed {
    read_at: Timestamp,
    origins: Arc<HashSet<WebOrigin>>,
}

impl Origins {
    /// True if the page may read the response to its request.
    pub(crate) async fn grant(
        &self,
        page: &Page,
        clients: &Clients,
        auth: &Authentication,
        now: Timestamp,
    ) -> bool {
        let Ok(origin) = page.origin.to_str() else { return false };
        match (clients, &page.client) {
            (Clients::Anybody, _) => {
                origin.parse::<WebOrigin>().is_ok_and(|origin| origin.is_loopback())
            }
            (Clients::Known, Some(client)) => client.origins.contains(origin),
            (Clients::Known, None) => self.now(auth, now).await.contains(origin),
        }
    }

    async fn now(&self, auth: &Authentication, now: Timestamp) -> Arc<HashSet<WebOrigin>> {
        let (known, is_fresh) = self.known(now).unwrap_or_default();
        if is_fresh {
            return known;
        }
        // The read is a separate task, which continues if the caller disconnects.
        let auth = auth.clone();
        let last = Arc::clone(&self.0);
        let read = tokio::spawn(async move {
            let clients = timeout(READ_TIMEOUT, auth.clients()).await.ok()?.ok()?;
            let live = clients.iter().filter(|client| client.is_live());
            let origins = live.flat_map(|client| client.origins.iter().cloned()).collect();
            let listed = Listed { read_at: now, origins: Arc::new(origins) };
            let origins = Arc::clone(&listed.origins);
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(listed);
            Some(origins)
        });
        // If the store fails or hangs, the previous origins are used.
        read.await.ok().flatten().unwrap_or(known)
    }

    /// The origins that were read last, and whether they are fresh; `None` before the first read. If they are not
    /// fresh, the first caller reads them again. Other callers use the old origins meanwhile.
    fn known(&self, now: Timestamp) -> Option<(Arc<HashSet<WebOrigin>>, bool)> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = known.as_mut()?;
        let is_fresh = listed.read_at <= now && now < listed.read_at.saturating_add(CACHED_FOR);
        if !is_fresh {
            listed.read_at = now;
        }
        Some((Arc::clone(&listed.origins), is_fresh))
    }
}
