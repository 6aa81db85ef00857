//! Documents: the OpenAPI description, a web page that shows it, and the public keys of access tokens.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::api::routes::Needs::Nothing;
use crate::api::routes::{ApiPart, Area, Route, get};
use crate::api::{ApiError, Call, Reply};
use crate::openapi::{self, Prepared};

pub(crate) static AREA: Area = Area::new(
    "/",
    &[
        get("/.well-known/jwks.json", Nothing, &public_keys),
        Route { part: Some(ApiPart::Docs), ..get("/openapi.json", Nothing, &openapi) },
        Route { part: Some(ApiPart::Docs), ..get("/docs", Nothing, &docs) },
    ],
);

/// Caches may store the response, and must ask again before each use. Without a header of its own, no response is
/// stored.
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");

/// With this header, a page of another origin that opens this one gets no handle of its window.
pub(crate) const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
pub(crate) const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

const PAGE: &str = include_str!("../openapi/docs.html");

/// The page, and its content security policy. The policy allows the page's own script and style, and requests to this
/// server.
static DOCS: LazyLock<(Prepared, HeaderValue)> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash("style"),
        hash("script"),
    );
    // The policy is ASCII and so is always a valid header value. This fallback, which allows nothing, is never used.
    let strictest = HeaderValue::from_static("default-src 'none'");
    (Prepared::new(PAGE), HeaderValue::from_str(&policy).unwrap_or(strictest))
});

/// The hash of the page's only `script` or `style`, as a policy lists it.
fn hash(element: &str) -> String {
    let after = PAGE.split_once(&format!("<{element}>")).map_or("", |(_, after)| after);
    let inner = after.split_once(&format!("</{element}>")).map_or("", |(inner, _)| inner);
    format!("sha256-{}", STANDARD.encode(Sha256::digest(inner)))
}

async fn public_keys(call: Box<Call>) -> Result<Reply, ApiError> {
    let mut reply = Reply::ok(&call.auth().public_keys())?;
    reply.set(header::CACHE_CONTROL, NO_CACHE);
    Ok(reply)
}

async fn openapi(call: Box<Call>) -> Result<Reply, ApiError> {
    prepared(&call, "application/json", openapi::document(call.served()))
}

async fn docs(call: Box<Call>) -> Result<Reply, ApiError> {
    let (page, policy) = &*DOCS;
    let mut reply = prepared(&call, "text/html; charset=utf-8", page)?;
    reply.set(header::CONTENT_SECURITY_POLICY, policy.clone());
    reply.set(OPENER_POLICY, SAME_ORIGIN);
    Ok(reply)
}

/// A text with its `ETag`, or 304 if the caller has this text already.
pub(crate) fn prepared(
    call: &Call,
    content_type: &'static str,
    prepared: &'static Prepared,
) -> Result<Reply, ApiError> {
    let mut reply = if call.has_tag(|tag| tag.as_bytes() == prepared.tag().as_bytes())? {
        Reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        Reply::text(content_type, prepared.bytes())
    };
    reply.is_shared = true;
    reply.set(header::ETAG, prepared.tag().clone());
    reply.set(header::CACHE_CONTROL, NO_CACHE);
    Ok(reply)
}
