//! The port through which deliveries are sent.

use std::fmt;

use async_trait::async_trait;
use url::Url;

use crate::webhooks::DeliveryResult;

/// A delivery, to be sent with POST.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeliveryRequest {
    /// The URL of the endpoint.
    pub url: Url,
    /// The header `webhook-id`: the id of the event, which is the same in every try.
    pub id: Box<str>,
    /// The header `webhook-timestamp`, in seconds since 1970.
    pub timestamp: i64,
    /// The header `webhook-signature`.
    pub signature: Box<str>,
    /// The body that was signed: JSON.
    pub body: Vec<u8>,
}

impl DeliveryRequest {
    /// A delivery of `body`, which was signed with this id and time.
    pub fn new(
        url: Url,
        id: impl Into<Box<str>>,
        timestamp: i64,
        signature: impl Into<Box<str>>,
        body: impl Into<Vec<u8>>,
    ) -> Self {
        Self { url, id: id.into(), timestamp, signature: signature.into(), body: body.into() }
    }
}

/// Sends deliveries.
///
/// To be safe, an implementation must check each address that it connects to, not only the name. It must follow no
/// redirects, use no proxy, have a time-out, and store nothing of the body of a response.
#[async_trait]
pub trait Deliver: Send + Sync + fmt::Debug {
    /// Sends a delivery and returns the outcome.
    async fn deliver(&self, request: DeliveryRequest) -> DeliveryResult;
}
