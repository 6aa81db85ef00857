//! The client for outgoing HTTP: fetches documents of identity providers over HTTPS.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret as _, SecretString};
use subscription_core::auth::{ANSWER_BYTES_MAX, Fetch, FetchFailed, FetchRequest};
use url::{Host, Url, form_urlencoded};

/// The most idle connections to a provider.
const IDLE_MAX: usize = 4;

/// How long a connection may be idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of an [`HttpFetch`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FetchSettings {
    /// How long a fetch may take in all: 10 s.
    pub timeout: Duration,
    /// The root certificates that are trusted, in DER; if empty, those that browsers trust.
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

/// Fetches over HTTPS, or over HTTP from this machine.
///
/// It follows no redirects, uses no proxy, and limits the size of a response.
#[derive(Debug, Clone)]
pub struct HttpFetch {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
}

impl HttpFetch {
    /// Fails if a root certificate is invalid.
    pub fn new(settings: &FetchSettings) -> Result<Self, FetchFailed> {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(&settings.roots).map_err(|error| FetchFailed(error.into()))?)
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

    /// Refuses a URL that is neither `https` nor `http` on this machine, or that has a user.
    pub fn check(url: &Url) -> Result<(), FetchFailed> {
        check(url).map_err(|error| FetchFailed(error.into()))
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Vec<u8>, NotFetched> {
        let answer = self.client.request(request).await.map_err(NotFetched::broken)?;
        if answer.status() != StatusCode::OK {
            return Err(NotFetched::Status(answer.status()));
        }
        match Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await {
            Ok(body) => Ok(body.to_bytes().into()),
            Err(error) if error.is::<LengthLimitError>() => Err(NotFetched::TooLarge),
            Err(error) => Err(NotFetched::Broken(error)),
        }
    }
}

/// The TLS settings, with a fixed crypto library, whichever one the process has installed.
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
    #[error("only https is asked, or http on this machine, without a user in the URL")]
    Unsafe,
    #[error("the provider answered {0}")]
    Status(StatusCode),
    #[error("the answer has more than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the provider took too long")]
    TooSlow,
    #[error("the provider cannot be asked")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl NotFetched {
    fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Broken(error.into())
    }
}

#[async_trait]
impl Fetch for HttpFetch {
    async fn fetch(&self, request: FetchRequest) -> Result<Vec<u8>, FetchFailed> {
        let answer = async {
            check(&request.url)?;
            self.answer(to_http(request)?).await
        };
        tokio::time::timeout(self.timeout, answer)
            .await
            .unwrap_or(Err(NotFetched::TooSlow))
            .map_err(|error| FetchFailed(error.into()))
    }
}

/// Refuses a URL whose request would be sent unencrypted, unless to this machine.
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
    let FetchRequest { url, form, basic } = request;
    let accept = "application/json, application/jwk-set+json";
    let mut to = Request::builder().uri(url.as_str()).header(header::ACCEPT, accept);
    if let Some((user, password)) = basic {
        to = to.header(header::AUTHORIZATION, basic_header(&user, &password)?);
    }
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
    to.body(body).map_err(NotFetched::broken)
}

/// User and password, each encoded as in a form first (RFC 6749, 2.3.1).
fn basic_header(user: &str, password: &SecretString) -> Result<HeaderValue, NotFetched> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(user), encoded(password.expose_secret()));
    let text = format!("Basic {}", STANDARD.encode(pair));
    let mut value = HeaderValue::try_from(text).map_err(NotFetched::broken)?;
    // Marked, so that it is left out where headers are logged.
    value.set_sensitive(true);
    Ok(value)
}
