//! Logs and counts every request, and adds the headers that every response has.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use subscription_core::UserId;
use subscription_core::auth::Client;
use tracing::field::display;

use crate::api::admission::cors::{Page, VARY_ORIGIN};
use crate::api::admission::rate::RateStatus;
use crate::api::output::unread_bytes::UnreadBytes;
use crate::api::routes::{Needs, Route};
use crate::api::{Api, ApiError, Refusal, Reply};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// The status that is logged for a request without a response: the client disconnected first, or the server stopped.
const UNANSWERED: u16 = 499;

/// Logs and counts a request when this value is dropped, whether there is a response or not.
pub(crate) struct RequestLog {
    pub(crate) api: Api,
    begun: Instant,
    method: Method,
    /// The bytes that the client of this connection has not read yet; `None` if they are not counted.
    unread: Option<Arc<UnreadBytes>>,
    pub(crate) route: Option<&'static Route>,
    pub(crate) request_id: HeaderValue,
    pub(crate) facts: ResponseFacts,
    /// The status of the response; `None` until there is a response.
    status: Option<StatusCode>,
    /// The code of the error; `None` if there is no error.
    code: Option<&'static str>,
}

/// Facts that are found while a request is handled, and that its response depends on.
#[derive(Default)]
pub(crate) struct ResponseFacts {
    /// The state of the route's rate limit; `None` if the route has no limit.
    pub(crate) rate: Option<RateStatus>,
    /// The caller, as it is logged.
    pub(crate) caller: LoggedCaller,
    /// The web page that sent the request; `None` if no page sent it.
    pub(crate) page: Option<Box<Page>>,
    /// True if the page may read the response.
    pub(crate) is_granted: bool,
    /// HTTP/1: true if the connection ends after the response, because the body was not read to its end.
    pub(crate) is_last: bool,
}

/// The caller of a request, as far as it is known and may be logged.
#[derive(Default)]
pub(crate) struct LoggedCaller {
    /// The client; never set in development, where every text is a client, perhaps the secret of another server.
    pub(crate) client: Option<Arc<Client>>,
    /// The user of the access token or of the portal token.
    pub(crate) user: Option<UserId>,
    /// The address; set only if addresses are logged.
    pub(crate) ip: Option<IpAddr>,
}

impl RequestLog {
    pub(crate) fn begin(api: &Api, method: &Method, unread: Option<Arc<UnreadBytes>>) -> Self {
        Self {
            api: api.clone(),
            begun: Instant::now(),
            method: method.clone(),
            unread,
            route: None,
            request_id: HeaderValue::from_static("none"),
            facts: ResponseFacts::default(),
            status: None,
            code: None,
        }
    }

    /// Turns a reply or an error into the response, and adds the headers that every response has.
    pub(crate) fn finish(mut self, reply: Result<Reply, ApiError>) -> Response<Full<Bytes>> {
        let reply = reply.and_then(|reply| {
            if self.has_room(&reply) { Ok(reply) } else { Err(Refusal::TooManyUnread.into()) }
        });
        if let Err(ApiError::Request(Refusal::RateLimited(status))) = &reply {
            self.api.state.metrics.limited(status.policy);
        }
        let request_id = self.request_id.to_str().unwrap_or_default();
        self.code = reply.as_ref().err().map(ApiError::code);
        let asks_for_token = self.route.is_some_and(Route::takes_token);
        let reply = reply.unwrap_or_else(|error| error.into_reply(request_id, asks_for_token));
        let mut response = reply.into_response();
        let status = response.status();
        let headers = response.headers_mut();
        headers.insert(NOSNIFF, HeaderValue::from_static("nosniff"));
        headers.insert(header::VARY, VARY_ORIGIN);
        if !self.may_be_cached(status) || !headers.contains_key(header::CACHE_CONTROL) {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        for (name, value) in self.facts.rate.iter().flat_map(RateStatus::headers) {
            // If another rate limit refused the request, the response already has the headers of that limit.
            headers.entry(name).or_insert(value);
        }
        if let Some(page) = &self.facts.page {
            page.set_headers(self.facts.is_granted, status, headers);
        }
        if self.facts.is_last {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        headers.insert(REQUEST_ID, self.request_id.clone());
        // The length in a 304 would have to be the length of the full response, which is not known here.
        if self.method == Method::HEAD && status != StatusCode::NOT_MODIFIED {
            let length = hyper::body::Body::size_hint(response.body()).exact().unwrap_or_default();
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            *response.body_mut() = Full::default();
        }
        self.status = Some(status);
        response
    }

    /// True if this reply may be sent, although the client has not read all earlier ones. Only a `GET` is ever refused,
    /// because it has changed nothing.
    fn has_room(&self, reply: &Reply) -> bool {
        let is_counted = self.method == Method::GET && !reply.is_shared;
        let unread = self.unread.as_ref().filter(|_| is_counted);
        unread.is_none_or(|unread| unread.has_room(reply.body.len()))
    }

    /// True if caches may store the response, if its handler allows it.
    ///
    /// A cache does not know that `client-id` is a credential, so it would give what one client may read to everybody.
    /// The route decides, and not the path, because a path can be spelled in many ways.
    fn may_be_cached(&self, status: StatusCode) -> bool {
        let is_error = status.is_client_error() || status.is_server_error();
        !is_error && self.route.is_some_and(|route| route.needs == Needs::Nothing)
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        let status = self.status.map_or(UNANSWERED, |status| status.as_u16());
        self.api.state.metrics.answered(&self.method, self.route, status, took);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let request_id = self.request_id.to_str().unwrap_or_default();
        let route = self.route.map_or(Route::NONE, |route| route.pattern);
        let method = self.method.as_str();
        let LoggedCaller { client, user, ip } = &self.facts.caller;
        let client = client.as_ref().map(|client| client.id.as_str());
        let (user, ip) = (user.map(display), ip.map(display));
        let message = match self.status {
            Some(_) => "request",
            None => "client disconnected before the response",
        };
        tracing::info!(
            method,
            route,
            status,
            code = self.code,
            micros,
            request_id,
            client,
            user,
            ip,
            message
        );
    }
}
