//! What the interface says of itself: a document for machines, a page for people.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::api::call::Call;
use crate::api::cors::VARY_ORIGIN;
use crate::api::error::ApiError;
use crate::api::reply::Reply;
use crate::openapi::{self, Prepared};

const PAGE: &str = include_str!("../openapi/docs.html");

/// The page, and what it may do: run what it came with, and fetch from where it came.
static DOCS: LazyLock<(Prepared, HeaderValue)> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash("style"),
        hash("script"),
    );
    // Hashes are ASCII; a policy that could not be written would allow nothing.
    let strictest = HeaderValue::from_static("default-src 'none'");
    (Prepared::new(PAGE.to_owned()), HeaderValue::from_str(&policy).unwrap_or(strictest))
});

/// The hash by which a policy knows the page's one element of a kind.
fn hash(element: &str) -> String {
    let after = PAGE.split_once(&format!("<{element}>")).map_or("", |(_, after)| after);
    let inner = after.split_once(&format!("</{element}>")).map_or("", |(inner, _)| inner);
    format!("sha256-{}", STANDARD.encode(Sha256::digest(inner)))
}

pub(crate) async fn openapi(call: Box<Call>) -> Result<Reply, ApiError> {
    prepared(&call, "application/json", openapi::document())
}

pub(crate) async fn docs(call: Box<Call>) -> Result<Reply, ApiError> {
    let (page, policy) = &*DOCS;
    let mut reply = prepared(&call, "text/html; charset=utf-8", page)?;
    reply.set(header::CONTENT_SECURITY_POLICY, policy.clone());
    Ok(reply)
}

/// A text that was made before, or only that it is still the one that the caller has.
fn prepared(
    call: &Call,
    content_type: &'static str,
    prepared: &'static Prepared,
) -> Result<Reply, ApiError> {
    let mut reply = if call.has_tag(|tag| tag.as_bytes() == prepared.tag().as_bytes())? {
        Reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        Reply::text(content_type, prepared.bytes())
    };
    reply.set(header::VARY, VARY_ORIGIN);
    reply.set(header::ETAG, prepared.tag().clone());
    reply.set(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(reply)
}
