//! The trait for outgoing HTTP requests. The library has no HTTP client: the program that embeds it brings one.

use std::fmt;

use async_trait::async_trait;
use secrecy::SecretString;
use url::Url;

/// The largest size of a response's body, in bytes.
pub const ANSWER_BYTES_MAX: usize = 262_144;

/// A request for a document.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// The address.
    pub url: Url,
    /// The form to send with POST; `None` for a GET.
    pub form: Option<Vec<(&'static str, SecretString)>>,
    /// User and password for `Authorization: Basic`.
    pub basic: Option<(String, SecretString)>,
}

/// Fetches documents of identity providers.
///
/// To ensure safety, an implementation uses `https` only (or `http` to loopback, for tests), follows no
/// redirects, has a time-out, and reads at most [`ANSWER_BYTES_MAX`] bytes of a body. Any status but 200 is an
/// error.
#[async_trait]
pub trait Fetch: Send + Sync + fmt::Debug {
    /// Sends the request and returns the body of the response.
    async fn fetch(&self, request: FetchRequest) -> Result<Vec<u8>, FetchFailed>;
}

/// A document could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("the document could not be fetched")]
pub struct FetchFailed(#[source] pub Box<dyn std::error::Error + Send + Sync>);
