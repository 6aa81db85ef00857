//! The response that a handler returns.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;
use subscription_core::Version;

use crate::api::error::ApiError;
use crate::api::output::unread_bytes::SharedBytes;

/// The initial capacity for headers. Most responses do not have more.
const HEADERS: usize = 8;

/// A response without the headers that are added to every response.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// True if the request changed nothing: its change was already made.
    pub(crate) is_unchanged: bool,
    /// True if all responses share the bytes of the body.
    pub(crate) is_shared: bool,
}

impl Reply {
    /// 200 with a JSON body.
    pub(crate) fn ok(body: &impl Serialize) -> Result<Self, ApiError> {
        Self::json(StatusCode::OK, body)
    }

    /// A JSON body.
    pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(body).map_err(ApiError::unforeseen)?;
        Ok(Self::json_bytes(status, body))
    }

    /// A body that is already serialized as JSON.
    pub(crate) fn json_bytes(status: StatusCode, json: impl Into<Bytes>) -> Self {
        Self { status, ..Self::text("application/json", json) }
    }

    /// 200 with a text.
    pub(crate) fn text(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut reply = Self { body: body.into(), ..Self::empty(StatusCode::OK) };
        reply.set(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        reply
    }

    /// A status without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        let headers = HeaderMap::with_capacity(HEADERS);
        Self { status, headers, body: Bytes::new(), is_unchanged: false, is_shared: false }
    }

    /// Sets the record's version as the `ETag`.
    pub(crate) fn version(mut self, version: Version) -> Self {
        if let Some(tag) = tag(version) {
            self.set(header::ETAG, tag);
        }
        self
    }

    /// Sets the `Location` of a new record. The path is relative to the request, because the API does not know where
    /// it is mounted.
    pub(crate) fn location(mut self, path: &str) -> Self {
        if let Ok(path) = HeaderValue::from_str(path) {
            self.set(header::LOCATION, path);
        }
        self
    }

    /// If `replayed` is true, marks the response as the result of an earlier request with the same idempotency key.
    pub(crate) fn replayed(mut self, replayed: bool) -> Self {
        self.is_unchanged |= replayed;
        if replayed {
            let name = HeaderName::from_static("idempotency-replayed");
            self.set(name, HeaderValue::from_static("true"));
        }
        self
    }

    /// Marks the response as one to a request that changed nothing.
    pub(crate) fn unchanged(mut self, is_unchanged: bool) -> Self {
        self.is_unchanged |= is_unchanged;
        self
    }

    pub(crate) fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.insert(name, value);
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        if self.is_shared {
            response.extensions_mut().insert(SharedBytes);
        }
        response
    }
}

/// A version in quotes.
fn tag(version: Version) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("\"{version}\"")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_the_version_in_quotes() {
        for version in [0, 1, 9, 10, 1_234_567, u64::MAX] {
            assert_eq!(tag(version.into()).unwrap(), format!("\"{version}\""));
        }
    }
}
