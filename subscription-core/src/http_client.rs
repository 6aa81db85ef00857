//! The trait for outgoing HTTP requests: the library has no client of its own, so the embedder brings one.

use std::fmt;

use async_trait::async_trait;
use secrecy::SecretString;
use url::Url;

/// Maximum size of a provider's response.
pub const ANSWER_BYTES_MAX: usize = 262_144;

/// A request for a document.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// The address.
    pub url: Url,
    /// A form to be sent with POST; a GET if there is none.
    pub form: Option<Vec<(&'static str, SecretString)>>,
    /// User and password for `Authorization: Basic`.
    pub basic: Option<(String, SecretString)>,
}

/// Fetches documents of identity providers.
///
/// To ensure safety: only `https` (or `http` to loopback, for tests), no redirects, a time-out, and at
/// most [`ANSWER_BYTES_MAX`] bytes of a body; anything but status 200 is an error.
#[async_trait]
pub trait Fetch: Send + Sync + fmt::Debug {
    /// The body of the response.
    async fn fetch(&self, request: FetchRequest) -> Result<Vec<u8>, FetchFailed>;
}

/// A document could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("the document could not be fetched")]
pub struct FetchFailed(#[source] pub Box<dyn std::error::Error + Send + Sync>);
