//! The port for reading objects from a payment provider.

pub(crate) mod allowance;
pub(crate) mod api_limits;
pub(crate) mod fetch;
pub(crate) mod http_api;
pub(crate) mod requests;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::providers::{ObjectId, ObjectKind, ObjectList};

/// Reads the objects of one provider, and never writes to the provider.
#[async_trait]
pub trait ProviderApi: Send + Sync + fmt::Debug {
    /// The present state of an object; `None` if there is none with this id.
    ///
    /// An invoice of Stripe comes with its payments expanded down to the charge, and with the disputes of these
    /// payments in an added field `disputes`.
    async fn object(&self, kind: ObjectKind, id: &ObjectId) -> Result<Option<Value>, ApiFailed>;

    /// A page of up to 100 objects. `after` is the [`next`](ApiPage::next) of the previous page; `None` for the first
    /// page.
    async fn page(&self, list: &ObjectList, after: Option<&str>) -> Result<ApiPage, ApiFailed>;
}

/// A page of objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiPage {
    /// The objects.
    pub items: Vec<Value>,
    /// The position of the next page, for the argument `after` of [`ProviderApi::page`]; `None` if this page is the
    /// last.
    pub next: Option<Box<str>>,
    /// The number of objects on all pages; `None` if it is not known.
    pub total: Option<u64>,
}

/// The reason why a read failed. The text of the underlying error never contains the API key.
#[derive(Debug, thiserror::Error)]
pub enum ApiFailed {
    /// The provider is out of reach, too slow or limits the rate: 429, 5xx, time-outs, responses that are too large.
    #[error("the provider is unavailable")]
    Unavailable {
        /// How long the provider asks to wait; `None` if it does not say.
        retry_after: Option<Duration>,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The API key is refused: 401 or 403.
    #[error("the provider refuses the API key: check api_key")]
    KeyRefused,
    /// The response is not the JSON that was requested.
    #[error("the response of the provider cannot be read")]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
}
