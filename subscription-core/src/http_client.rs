//! The trait for outgoing HTTP requests. The library has no HTTP client: the program that embeds it brings one.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use chrono::DateTime;
use secrecy::SecretString;
use url::Url;

/// The largest size of a response's body, in bytes, unless [`FetchRequest::bytes_max`] is set to another size.
pub const ANSWER_BYTES_MAX: usize = 262_144;

/// A request for a document.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// The address.
    pub url: Url,
    /// The form to send with POST; `None` for a GET.
    pub form: Option<Vec<(&'static str, SecretString)>>,
    /// User and password for `Authorization: Basic`.
    pub basic: Option<(SecretString, SecretString)>,
    /// Further headers. A header with the name of a default header, such as `Accept`, replaces the default header.
    pub headers: Vec<(&'static str, SecretString)>,
    /// The largest size of the response's body, in bytes.
    pub bytes_max: usize,
}

impl FetchRequest {
    /// A GET of a document of at most [`ANSWER_BYTES_MAX`] bytes.
    pub const fn get(url: Url) -> Self {
        Self { url, form: None, basic: None, headers: Vec::new(), bytes_max: ANSWER_BYTES_MAX }
    }
}

/// Fetches documents of identity providers and payment providers.
///
/// To ensure safety, an implementation uses `https` only (or `http` to loopback, for tests), follows no
/// redirects, has a time-out, and reads at most [`FetchRequest::bytes_max`] bytes of a body. Any status but 200 is
/// an error.
#[async_trait]
pub trait Fetch: Send + Sync + fmt::Debug {
    /// Sends the request and returns the body of the response.
    async fn fetch(&self, request: FetchRequest) -> Result<Vec<u8>, FetchFailed>;
}

/// A document could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("the document could not be fetched")]
pub struct FetchFailed {
    /// The HTTP status of the response, if there was one and it was not 200. The code for payment providers needs it;
    /// the code for identity providers does not.
    pub status: Option<u16>,
    /// The time to wait before a retry, if the response states it: see [`retry_after`].
    pub retry_after: Option<Duration>,
    /// The cause. Its text must not contain the secrets of the request.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl FetchFailed {
    /// A failure without a response, or with a response that cannot be used.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { status: None, retry_after: None, source: source.into() }
    }
}

/// The time to wait, from the response headers `Retry-After` (seconds, or an HTTP date) and `Date`.
///
/// A date in `Retry-After` is compared with the server's own `Date`, because the two clocks may differ. `None` if
/// `Retry-After` is a date and there is no `Date`, or if a header cannot be read.
pub fn retry_after(retry_after: &str, date: Option<&str>) -> Option<Duration> {
    let text = retry_after.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs);
    }
    let at = DateTime::parse_from_rfc2822(text).ok()?;
    let now = DateTime::parse_from_rfc2822(date?).ok()?;
    Some(at.signed_duration_since(now).to_std().unwrap_or(Duration::ZERO))
}
