//! The client that sends deliveries of webhooks to URLs that callers chose.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use subscription_core::webhooks::{AddressRules, Deliver, DeliveryRequest, DeliveryResult};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::guard::{BlockedAddress, ConnectTimedOut, Guard, InTime, ResolveName, SystemNames};
use super::{IDLE_TIMEOUT, time_to_wait, tls};

/// The maximum number of idle connections to one host.
const IDLE_MAX: usize = 8;

/// The largest head of a response, in bytes.
const HEAD_BYTES_MAX: usize = 16_384;

/// The maximum number of bytes of a response's body that are read, so that its connection can be used again.
const BODY_BYTES_MAX: usize = 4_096;

const USER_AGENT: &str = concat!("subscription-http/", env!("CARGO_PKG_VERSION"));

/// The settings of an [`HttpDeliver`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeliverSettings {
    /// The time limit of a whole attempt to send a delivery. Default: 15 s.
    pub timeout: Duration,
    /// How long an attempt may take to connect. Default: 5 s.
    pub connect_timeout: Duration,
    /// The root certificates that are trusted, in DER. If the list is empty, those that browsers trust are used.
    pub roots: Vec<Vec<u8>>,
    /// The rules for the addresses that deliveries may be sent to.
    pub addresses: AddressRules,
    /// Looks up the addresses of host names. Default: the resolver of the system.
    pub names: Arc<dyn ResolveName>,
}

impl Default for DeliverSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            roots: Vec::new(),
            addresses: AddressRules::default(),
            names: Arc::new(SystemNames),
        }
    }
}

subscription_core::with_fields! {
    DeliverSettings {
        with_timeout(Duration) => timeout,
        with_connect_timeout(Duration) => connect_timeout,
        with_roots(Vec<Vec<u8>>) => roots,
        with_addresses(AddressRules) => addresses,
        with_names(Arc<dyn ResolveName>) => names,
    }
}

type GuardedClient = Client<InTime<HttpsConnector<HttpConnector<Guard>>>, Full<Bytes>>;

/// Sends deliveries to addresses that are allowed.
///
/// The resolver checks each address that it returns, so connections are made only to addresses that were checked. The
/// client follows no redirects, uses no proxy, and drops the bodies of responses.
#[derive(Debug, Clone)]
pub struct HttpDeliver {
    secure: GuardedClient,
    /// The client for `http`. Fewer addresses are allowed for it than for `https`.
    plain: GuardedClient,
    rules: Arc<AddressRules>,
    timeout: Duration,
    runtime: Option<Handle>,
}

impl HttpDeliver {
    /// Fails if a root certificate is invalid. Deliveries are sent on the Tokio runtime that calls this function, not
    /// on the runtime that calls `deliver`. So a connection can be used again after a runtime that called `deliver` has
    /// ended.
    pub fn new(settings: &DeliverSettings) -> Result<Self, rustls::Error> {
        let tls = tls(&settings.roots)?;
        let rules = Arc::new(settings.addresses.clone());
        let client = |plain| client(settings, tls.clone(), Arc::clone(&rules), plain);
        let secure = client(false);
        let plain = client(true);
        let timeout = settings.timeout;
        Ok(Self { secure, plain, rules, timeout, runtime: Handle::try_current().ok() })
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> DeliveryResult {
        let is_plain = request.uri().scheme() == Some(&http::uri::Scheme::HTTP);
        let client = if is_plain { &self.plain } else { &self.secure };
        let host = request.uri().host().unwrap_or_default().to_owned();
        let mut answered = None;
        let tried = tokio::time::timeout(self.timeout, async {
            let response = client.request(request).await?;
            let status = response.status().as_u16();
            let retry_after = time_to_wait(response.headers());
            // The status is the outcome, even if the body never arrives.
            answered = Some(DeliveryResult::Answered { status, retry_after });
            discard(response.into_body()).await;
            Ok(())
        });
        let failed: Result<(), hyper_util::client::legacy::Error> = tried.await.unwrap_or(Ok(()));
        if let Err(error) = &failed {
            let cause = causes(error).last().map(ToString::to_string);
            tracing::debug!(host, cause, "a delivery failed");
        }
        match (answered, failed) {
            (Some(answered), _) => answered,
            (None, Ok(())) => DeliveryResult::TimedOut,
            (None, Err(error)) => outcome(&error),
        }
    }
}

fn client(
    settings: &DeliverSettings,
    tls: ClientConfig,
    rules: Arc<AddressRules>,
    plain: bool,
) -> GuardedClient {
    let names = Arc::clone(&settings.names);
    let mut tcp = HttpConnector::new_with_resolver(Guard { names, rules, plain });
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let schemes = HttpsConnectorBuilder::new().with_tls_config(tls);
    let schemes = if plain { schemes.https_or_http() } else { schemes.https_only() };
    let connector = schemes.enable_http1().wrap_connector(tcp);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_MAX)
        .http1_max_buf_size(HEAD_BYTES_MAX)
        .build(InTime { connector, limit: settings.connect_timeout })
}

#[async_trait]
impl Deliver for HttpDeliver {
    async fn deliver(&self, request: DeliveryRequest) -> DeliveryResult {
        if self.rules.check(&request.url).is_err() {
            return DeliveryResult::Blocked;
        }
        let Some(request) = to_http(request) else { return DeliveryResult::Blocked };
        let Some(runtime) = &self.runtime else { return self.send(request).await };
        let client = self.clone();
        let mut tries = JoinSet::new();
        // If the future of this `deliver` is dropped, `tries` is dropped too, which cancels the attempt.
        tries.spawn_on(async move { client.send(request).await }, runtime);
        tries.join_next().await.and_then(Result::ok).unwrap_or(DeliveryResult::Unreachable)
    }
}

/// The HTTP request. `None` if a header is invalid, or if hyper would read another host from the URL than the host
/// that was checked.
fn to_http(request: DeliveryRequest) -> Option<Request<Full<Bytes>>> {
    let DeliveryRequest { url, id, timestamp, signature, body, .. } = request;
    let uri: Uri = url.as_str().parse().ok()?;
    if uri.host() != url.host_str() {
        return None;
    }
    let mut request = Request::post(uri).body(Full::from(body)).ok()?;
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    let name = HeaderName::from_static;
    headers.insert(name("webhook-id"), HeaderValue::from_str(&id).ok()?);
    headers.insert(name("webhook-timestamp"), HeaderValue::from(timestamp));
    headers.insert(name("webhook-signature"), HeaderValue::from_str(&signature).ok()?);
    Some(request)
}

/// Reads a short body to its end, so that its connection can be used again. The connection of a longer body is closed.
async fn discard(mut body: Incoming) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > BODY_BYTES_MAX {
            return;
        }
    }
}

/// The outcome of an attempt that got no response.
fn outcome(error: &hyper_util::client::legacy::Error) -> DeliveryResult {
    if causes(error).any(<dyn Error>::is::<BlockedAddress>) {
        DeliveryResult::Blocked
    } else if causes(error).any(<dyn Error>::is::<ConnectTimedOut>) {
        DeliveryResult::TimedOut
    } else {
        DeliveryResult::Unreachable
    }
}

/// An error and all its causes, beginning with the error itself.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}
