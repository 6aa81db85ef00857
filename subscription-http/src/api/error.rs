//! Maps every error to its status and its `problem+json` body (RFC 9457).

use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Map, Value, json};
use subscription_core::store::Key;
use subscription_core::{
    Conflict, Error, ErrorKind, Faults, InvalidTransition, Managed, Quote, Unauthenticated,
};
use tokio::time::error::Elapsed;

use super::admission::rate::RateStatus;
use super::input::bounds::{IDEMPOTENCY_KEY_CHARS_MAX, URI_BYTES_MAX, grouped};
use super::reply::Reply;
use crate::BoxError;

/// The error of a request.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// The service returned an error.
    Service(Error),
    /// The request was refused before it reached the service.
    Request(Refusal),
    /// A parameter of the query is invalid.
    Query { parameter: String, message: String },
    /// A bug. The cause is logged.
    Unforeseen(BoxError),
}

/// The reason why a request was refused before it reached the service. Its text is the `detail` of the problem.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the header {0} must be sent once, in ASCII, and not be too long")]
    HeaderInvalid(&'static str),
    #[error("a request must have one valid Host header")]
    HostInvalid,
    #[error("this server does not serve the host name in Host")]
    HostUnknown,
    #[error("the path has an encoded slash, a dot segment, or a control character")]
    PathInvalid,
    #[error("the body ended too early")]
    BodyUnreadable,
    #[error("the cursor is not for this list with these filters")]
    CursorInvalid,
    #[error(
        "an Idempotency-Key is 1 to {} visible ASCII characters",
        grouped(IDEMPOTENCY_KEY_CHARS_MAX)
    )]
    KeyInvalid,
    #[error("the header client-id is required")]
    ClientMissing,
    #[error("the header Authorization: Bearer <access token> is required")]
    TokenMissing,
    #[error("there is no such path")]
    RouteUnknown,
    #[error("there is no such record")]
    NotFound,
    #[error("this path supports {0}")]
    MethodNotAllowed(String),
    #[error("the body took too long to arrive")]
    TooSlow,
    /// The body has more than this number of bytes.
    #[error("a body has at most {} bytes", grouped(*.0))]
    BodyTooLarge(usize),
    #[error("a URI has at most {} bytes", grouped(URI_BYTES_MAX))]
    UriTooLong,
    #[error("the body must be sent as application/json")]
    MediaType,
    #[error("the body must be sent without a Content-Encoding")]
    ContentCoding,
    #[error("too many requests; try again in {} s", .0.retry_after())]
    RateLimited(RateStatus),
    #[error("the server took too long; try again")]
    Overloaded,
    #[error("too many requests wait for events; try again")]
    TooManyWaiting,
    #[error("too many large webhooks arrive at once; try again")]
    TooManyBodies,
    #[error("too many bytes of this connection's responses are unread; read them, and try again")]
    TooManyUnread,
    /// The webhook was not signed by its payment provider. All faults of the signature have this one error.
    #[error("the webhook is not signed by its provider")]
    SignatureInvalid,
}

impl ApiError {
    pub(crate) fn unforeseen(error: impl Into<BoxError>) -> Self {
        Self::Unforeseen(error.into())
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::Service(error)
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self::Request(refusal)
    }
}

impl From<Unauthenticated> for ApiError {
    fn from(error: Unauthenticated) -> Self {
        Self::Service(error.into())
    }
}

impl From<Elapsed> for ApiError {
    /// The service took too long.
    fn from(_: Elapsed) -> Self {
        Refusal::Overloaded.into()
    }
}

/// The HTTP status for an error of the service.
fn status(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::Malformed => StatusCode::BAD_REQUEST,
        ErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::Forbidden => StatusCode::FORBIDDEN,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::Stale => StatusCode::PRECONDITION_FAILED,
        ErrorKind::Gone => StatusCode::GONE,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl Refusal {
    /// The HTTP status and the stable code of the refusal.
    const fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::HeaderInvalid(_) => (StatusCode::BAD_REQUEST, "header_invalid"),
            Self::HostInvalid | Self::HostUnknown => (StatusCode::BAD_REQUEST, "host_invalid"),
            Self::PathInvalid => (StatusCode::BAD_REQUEST, "path_invalid"),
            Self::BodyUnreadable => (StatusCode::BAD_REQUEST, "malformed_json"),
            Self::CursorInvalid => (StatusCode::BAD_REQUEST, "invalid_cursor"),
            Self::KeyInvalid => (StatusCode::BAD_REQUEST, "idempotency_key_invalid"),
            Self::ClientMissing => (StatusCode::UNAUTHORIZED, "client_id_missing"),
            Self::TokenMissing => (StatusCode::UNAUTHORIZED, "token_missing"),
            Self::RouteUnknown => (StatusCode::NOT_FOUND, "route_not_found"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            Self::MethodNotAllowed(_) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::BodyTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::UriTooLong => (StatusCode::URI_TOO_LONG, "uri_too_long"),
            Self::MediaType | Self::ContentCoding => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type_unsupported")
            }
            Self::RateLimited(_) => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            Self::SignatureInvalid => (StatusCode::BAD_REQUEST, "signature_invalid"),
            Self::Overloaded | Self::TooManyWaiting | Self::TooManyBodies | Self::TooManyUnread => {
                (StatusCode::SERVICE_UNAVAILABLE, "overloaded")
            }
        }
    }
}

impl ApiError {
    /// The response to a failed request; the cause of a server error is logged. `asks_for_token` is true if the route
    /// needs an access token.
    pub(crate) fn into_reply(self, request_id: &str, asks_for_token: bool) -> Reply {
        let (status, code, detail, more) = self.parts();
        if status.is_server_error() {
            self.log(request_id);
        }
        let (errors, quote) = match &self {
            Self::Service(Error::Invalid(faults)) => (Some(faults), None),
            Self::Service(Error::Conflict(Conflict::QuoteChanged(quote))) => (None, Some(&**quote)),
            Self::Service(_) | Self::Request(_) | Self::Query { .. } | Self::Unforeseen(_) => {
                (None, None)
            }
        };
        let problem = Problem {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: &detail,
            code,
            request_id,
            errors,
            quote,
            more,
        };
        let mut reply = Reply::empty(status);
        // Serializing texts and numbers cannot fail.
        reply.body = serde_json::to_vec(&problem).unwrap_or_default().into();
        reply.set(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            reply.set(header::WWW_AUTHENTICATE, challenge(code, asks_for_token));
        }
        self.set_headers(&mut reply, status);
        reply
    }

    /// The stable code of the error.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Service(error) => error.code(),
            Self::Request(refusal) => refusal.status_and_code().1,
            Self::Query { .. } => "invalid_query",
            Self::Unforeseen(_) => "internal",
        }
    }

    fn parts(&self) -> (StatusCode, &'static str, String, Map<String, Value>) {
        match self {
            // The cause of a server error is logged, and not sent to the caller.
            Self::Service(error) if status(error).is_server_error() => {
                let detail = "the request failed; try again later";
                (status(error), error.code(), detail.into(), Map::new())
            }
            Self::Service(error) => {
                (status(error), error.code(), error.to_string(), members(error))
            }
            Self::Request(refusal) => {
                let (status, code) = refusal.status_and_code();
                (status, code, refusal.to_string(), Map::new())
            }
            Self::Query { parameter, message } => {
                let more = Map::from_iter([("parameter".to_owned(), parameter.as_str().into())]);
                let detail = format!("the query parameter {parameter} {message}");
                (StatusCode::BAD_REQUEST, "invalid_query", detail, more)
            }
            Self::Unforeseen(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "the request failed".into(),
                Map::new(),
            ),
        }
    }

    fn set_headers(&self, reply: &mut Reply, status: StatusCode) {
        if status == StatusCode::SERVICE_UNAVAILABLE {
            reply.set(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Self::Request(Refusal::ContentCoding) = self {
            reply.set(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if let Self::Request(Refusal::RateLimited(status)) = self {
            reply.headers.extend(status.headers());
        }
        if let Self::Request(Refusal::MethodNotAllowed(allow)) = self
            && let Ok(allow) = HeaderValue::from_str(allow)
        {
            reply.set(header::ALLOW, allow);
        }
    }

    fn log(&self, request_id: &str) {
        let cause: &dyn std::error::Error = match self {
            Self::Service(error) => error,
            Self::Unforeseen(error) => &**error,
            Self::Request(_) | Self::Query { .. } => return,
        };
        let mut chain = cause.to_string();
        let mut source = cause.source();
        while let Some(error) = source {
            chain = format!("{chain}: {error}");
            source = error.source();
        }
        tracing::error!(request_id, cause = chain, "request failed");
    }
}

/// The `WWW-Authenticate` challenge of a 401 (RFC 9110, 11.6.1). It is `Bearer` if the route needs an access token and
/// the error is not about the client; otherwise it is `ClientId`. Identity and refresh tokens are sent in the body and
/// have no scheme of their own.
fn challenge(code: &str, asks_for_token: bool) -> HeaderValue {
    if asks_for_token && !code.starts_with("client_") {
        HeaderValue::from_static("Bearer error=\"invalid_token\"")
    } else {
        HeaderValue::from_static("ClientId realm=\"subscription\"")
    }
}

/// The body of an error. Its members are in the order in which people read them.
///
/// Problems have no web pages of their own. So the type is `about:blank`, whose title is the reason phrase of the
/// status (RFC 9457, 4.2.1). Programs distinguish problems by the code.
#[derive(Serialize)]
struct Problem<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<&'a Faults>,
    /// The quote is not a member of `more`, because a `Value` would not preserve the digits of an amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    quote: Option<&'a Quote>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// The additional members that only some errors have.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other errors have no additional members")]
fn members(error: &Error) -> Map<String, Value> {
    let members = match error {
        Error::Malformed(malformed) => {
            json!({ "line": malformed.line, "column": malformed.column })
        }
        Error::Conflict(Conflict::Transition(InvalidTransition { from, to, allowed, .. })) => {
            json!({ "from": from, "to": to, "allowed": allowed })
        }
        Error::Conflict(Conflict::Taken { holder: Key::Plan(id), .. }) => json!({ "holder": id }),
        Error::Conflict(Conflict::Taken { holder: Key::Subscription(id), .. }) => {
            json!({ "holder": id })
        }
        Error::Conflict(Conflict::Taken { holder: Key::Payment(id), .. }) => {
            json!({ "holder": id })
        }
        Error::Conflict(Conflict::CurrencyMismatch { from: Some(from), to: Some(to) }) => {
            json!({ "from": from, "to": to })
        }
        Error::Conflict(Conflict::PaymentSettled { fields }) => json!({ "fields": fields }),
        Error::Conflict(
            Conflict::PaymentOfPeriod { fields } | Conflict::Managed(Managed { fields, .. }),
        ) if !fields.is_empty() => json!({ "fields": fields }),
        Error::Stale { current, .. } => json!({ "current_version": current }),
        _ => Value::Null,
    };
    if let Value::Object(members) = members { members } else { Map::new() }
}
