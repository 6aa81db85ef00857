//! The clients for outgoing HTTP. One fetches documents of identity providers and payment providers over HTTPS;
//! commands also use it to call this API. The other sends deliveries of webhooks.

mod deliver;
mod guard;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret as _, SecretString};
use subscription_core::http_client::{
    ANSWER_BYTES_MAX, Fetch, FetchFailed, FetchRequest, retry_after,
};
use url::{Host, Url, form_urlencoded};

pub use self::deliver::{DeliverSettings, HttpDeliver};
pub use self::guard::{ResolveName, SystemNames};
use crate::BoxError;

/// The maximum number of idle connections to one provider.
const IDLE_MAX: usize = 128;

/// How long a connection may be idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of an [`HttpFetch`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FetchSettings {
    /// The time limit of a whole fetch. Default: 10 s.
    pub timeout: Duration,
    /// The root certificates that are trusted, in DER. If the list is empty, those that browsers trust are used.
    pub roots: Vec<Vec<u8>>,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), roots: Vec::new() }
    }
}

subscription_core::with_fields! {
    FetchSettings {
        with_timeout(Duration) => timeout,
        with_roots(Vec<Vec<u8>>) => roots,
    }
}

/// Fetches documents over HTTPS, or over HTTP from this machine.
///
/// The client follows no redirects, uses no proxy, and limits the size of a response.
#[derive(Debug, Clone)]
pub struct HttpFetch {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
}

impl HttpFetch {
    /// Creates the client. Fails if a root certificate is invalid.
    pub fn new(settings: &FetchSettings) -> Result<Self, FetchFailed> {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(&settings.roots).map_err(FetchFailed::new)?)
            // `check` decides which hosts may be called without TLS.
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_MAX)
            .build(connector);
        Ok(Self { client, timeout: settings.timeout })
    }

    /// Refuses a URL that contains a user name, and a URL that is neither `https` nor `http` on this machine.
    pub fn check(url: &Url) -> Result<(), FetchFailed> {
        check(url).map_err(FetchFailed::from)
    }

    /// Calls a server of this API as the client `client_id`, and returns the status and the body of the response. If
    /// `json` is `None`, the request has no body.
    pub async fn call(
        &self,
        method: Method,
        url: &Url,
        client_id: &SecretString,
        json: Option<Vec<u8>>,
    ) -> Result<(u16, Vec<u8>), FetchFailed> {
        let answer = async {
            check(url)?;
            let client_id = secret_header(client_id.expose_secret())?;
            let request = Request::builder().method(method).uri(url.as_str());
            let mut request = request.header("client-id", client_id);
            if json.is_some() {
                request = request.header(header::CONTENT_TYPE, "application/json");
            }
            let json = Full::from(json.unwrap_or_default());
            let request = request.body(json).map_err(NotFetched::broken)?;
            let answer = self.answer(request).await?;
            Ok((answer.status().as_u16(), body(answer, ANSWER_BYTES_MAX).await?))
        };
        self.in_time(answer).await
    }

    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, NotFetched>> + Send,
    ) -> Result<T, FetchFailed> {
        let answer = tokio::time::timeout(self.timeout, answer).await;
        answer.unwrap_or(Err(NotFetched::TooSlow)).map_err(FetchFailed::from)
    }

    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, NotFetched> {
        self.client.request(request).await.map_err(NotFetched::broken)
    }
}

async fn body(answer: Response<Incoming>, bytes_max: usize) -> Result<Vec<u8>, NotFetched> {
    match Limited::new(answer.into_body(), bytes_max).collect().await {
        Ok(body) => Ok(body.to_bytes().into()),
        Err(error) if error.is::<LengthLimitError>() => Err(NotFetched::TooLarge(bytes_max)),
        Err(error) => Err(NotFetched::Broken(error)),
    }
}

/// The TLS settings. They always use the same crypto library, whichever one the process has installed.
fn tls(roots: &[Vec<u8>]) -> Result<ClientConfig, rustls::Error> {
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(crypto).with_safe_default_protocol_versions()?;
    if roots.is_empty() {
        return Ok(config.with_webpki_roots().with_no_client_auth());
    }
    let mut trusted = RootCertStore::empty();
    for root in roots {
        trusted.add(CertificateDer::from(root.as_slice()))?;
    }
    Ok(config.with_root_certificates(trusted).with_no_client_auth())
}

/// The reason why a fetch failed.
#[derive(Debug, thiserror::Error)]
enum NotFetched {
    #[error("the URL must be https, or http on this machine, without a user name or a password")]
    Unsafe,
    #[error("the value of a header must be visible ASCII characters")]
    Header,
    #[error("the server returned {status}")]
    Status { status: StatusCode, retry_after: Option<Duration> },
    #[error("the response has more than {0} bytes")]
    TooLarge(usize),
    #[error("the server took too long")]
    TooSlow,
    #[error("the server cannot be reached, or its response broke off")]
    Broken(#[source] BoxError),
}

impl NotFetched {
    fn broken(error: impl Into<BoxError>) -> Self {
        Self::Broken(error.into())
    }
}

/// The time to wait by the header `Retry-After`; `None` if the header is missing or invalid.
fn time_to_wait(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    retry_after(text(header::RETRY_AFTER)?, text(header::DATE))
}

impl From<NotFetched> for FetchFailed {
    fn from(error: NotFetched) -> Self {
        let NotFetched::Status { status, retry_after } = error else { return Self::new(error) };
        Self { status: Some(status.as_u16()), retry_after, source: error.into() }
    }
}

#[async_trait]
impl Fetch for HttpFetch {
    async fn fetch(&self, request: FetchRequest) -> Result<Vec<u8>, FetchFailed> {
        let answer = async {
            check(&request.url)?;
            let bytes_max = request.bytes_max;
            let answer = self.answer(to_http(request)?).await?;
            match answer.status() {
                StatusCode::OK => body(answer, bytes_max).await,
                status => {
                    let retry_after = time_to_wait(answer.headers());
                    Err(NotFetched::Status { status, retry_after })
                }
            }
        };
        self.in_time(answer).await
    }
}

/// Refuses a URL that contains a user name, and a URL whose request would be sent unencrypted to another machine.
fn check(url: &Url) -> Result<(), NotFetched> {
    let here = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => return Err(NotFetched::Unsafe),
    };
    let secure = url.scheme() == "https" || (url.scheme() == "http" && here);
    let nobody = url.username().is_empty() && url.password().is_none();
    if secure && nobody { Ok(()) } else { Err(NotFetched::Unsafe) }
}

fn to_http(request: FetchRequest) -> Result<Request<Full<Bytes>>, NotFetched> {
    let FetchRequest { url, form, basic, headers, bytes_max: _ } = request;
    let accept = "application/json, application/jwk-set+json";
    let mut to = Request::builder().uri(url.as_str()).header(header::ACCEPT, accept);
    let body = match form {
        None => Full::default(),
        Some(fields) => {
            to = to.method("POST");
            to = to.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            let mut form = form_urlencoded::Serializer::new(String::new());
            for (name, value) in &fields {
                form.append_pair(name, value.expose_secret());
            }
            Full::from(form.finish())
        }
    };
    let mut to = to.body(body).map_err(NotFetched::broken)?;
    if let Some((user, password)) = basic {
        to.headers_mut().insert(header::AUTHORIZATION, basic_header(&user, &password)?);
    }
    for (name, value) in headers {
        let name = HeaderName::try_from(name).map_err(NotFetched::broken)?;
        to.headers_mut().insert(name, secret_header(value.expose_secret())?);
    }
    Ok(to)
}

/// The header for a user and a password. Each of the two is first encoded as in a form (RFC 6749, 2.3.1).
fn basic_header(user: &SecretString, password: &SecretString) -> Result<HeaderValue, NotFetched> {
    let encoded = |text: &SecretString| {
        form_urlencoded::byte_serialize(text.expose_secret().as_bytes()).collect::<String>()
    };
    let pair = STANDARD.encode(format!("{}:{}", encoded(user), encoded(password)));
    secret_header(&format!("Basic {pair}"))
}

/// A header value that is marked as secret, so that it is left out where headers are logged.
fn secret_header(text: &str) -> Result<HeaderValue, NotFetched> {
    let mut value = HeaderValue::try_from(text).map_err(|_| NotFetched::Header)?;
    value.set_sensitive(true);
    Ok(value)
}
