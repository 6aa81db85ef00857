//! The HTTP API without a socket: it takes a request, and returns the response.

pub(crate) mod admission;
pub(crate) mod call;
pub(crate) mod error;
pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod reply;
pub(crate) mod routes;
pub(crate) mod state;
pub(crate) mod waiting;

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Body;
use tokio::time::timeout;

use self::admission::cors::Page;
use self::admission::{Admission, CallerAddress};
pub(crate) use self::call::Call;
pub(crate) use self::error::{ApiError, Refusal};
use self::input::body::RequestBody;
use self::output::request_log::{RequestLog, ResponseFacts};
use self::output::unread_bytes::UnreadBytes;
pub(crate) use self::reply::Reply;
use self::routes::{Needs, Route};
use self::state::State;
use crate::BoxError;

/// How long the body of a payment provider's webhook may take to arrive.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The HTTP API of the service. It has no socket, so it can be mounted wherever requests come from.
#[derive(Debug, Clone)]
pub struct Api {
    state: Arc<State>,
    surface: Surface,
}

/// The routes that an [`Api`] serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    Whole,
    /// All routes except those of the console.
    WithoutConsole,
    /// The routes of health and metrics.
    Operations,
}

impl Api {
    /// An API with the same state that serves only `/health/live`, `/health/ready` and `/metrics`, without a
    /// credential. It is meant for a listener that only operators can reach.
    #[must_use]
    pub fn operations(&self) -> Self {
        Self { state: Arc::clone(&self.state), surface: Surface::Operations }
    }

    /// An API with the same state that serves neither the console nor the routes that exist for the console. It is
    /// meant for a public listener, if the console has a listener of its own.
    #[must_use]
    pub fn without_console(&self) -> Self {
        Self { state: Arc::clone(&self.state), surface: Surface::WithoutConsole }
    }

    /// Adds an address where a server listens, so that requests may name this address in `Host`.
    pub(crate) fn listens_at(&self, ip: IpAddr) {
        self.state.hosts.listen(ip);
    }

    /// Ends the wait of all requests that wait for events, because the server stops. These requests get their responses
    /// at once.
    pub(crate) fn stop_waiting(&self) {
        self.state.long_polls.stop();
    }

    /// Returns the response to a request that came from `peer`. It never fails: an error becomes a response too. It
    /// needs a Tokio runtime with its timer.
    pub fn answer<B>(
        &self,
        request: Request<B>,
        peer: Option<IpAddr>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send + use<B>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        self.answer_within(request, peer, None)
    }

    /// The count of unread bytes for a new connection.
    pub(crate) fn unread_bytes(&self) -> Arc<UnreadBytes> {
        Arc::new(UnreadBytes::new(&self.state.unread_bytes))
    }

    /// Like [`answer`](Self::answer). `unread` counts the bytes that the client of this connection has not
    /// read yet: if there are too many, a `GET` gets an error in place of a large response.
    pub(crate) fn answer_within<B>(
        &self,
        request: Request<B>,
        peer: Option<IpAddr>,
        unread: Option<Arc<UnreadBytes>>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send + use<B>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        // The head is checked outside of the future, which makes the future smaller.
        let (head, body) = request.into_parts();
        let body = RequestBody::new(&head, body);
        let mut log = RequestLog::begin(self, &head.method, unread);
        let admission = catch_unwind(AssertUnwindSafe(|| self.admit_head(head, peer, &mut log)));
        let admission = admission.unwrap_or_else(|_| {
            Err(ApiError::unforeseen("the check of the request head panicked"))
        });
        async move {
            let mut body = pin!(body);
            let reply = match admission {
                Err(refused) => Err(refused),
                Ok(Admission::Answered(reply)) => Ok(reply),
                Ok(Admission::Call(route, call, address)) => {
                    let body = body.as_mut();
                    let facts = &mut log.facts;
                    AssertUnwindSafe(log.api.reply(route, call, body, address, facts))
                        .catch_unwind()
                        .await
                        .unwrap_or_else(|_| Err(ApiError::unforeseen("a handler panicked")))
                }
            };
            // Boxed to make the future smaller: most requests have no unread body and do not come from a web page.
            if body.is_unread() {
                Box::pin(body.as_mut().discard()).await;
                log.facts.is_last = body.is_unread();
            }
            if let Some(page) = &log.facts.page {
                let granted = AssertUnwindSafe(log.api.grants(page)).catch_unwind();
                log.facts.is_granted = Box::pin(granted).await.unwrap_or(false);
            }
            log.finish(reply)
        }
    }

    /// Checks the caller, reads the body and calls the handler.
    async fn reply<B>(
        &self,
        route: &'static Route,
        mut call: Box<Call>,
        body: Pin<&mut RequestBody<B>>,
        address: CallerAddress,
        facts: &mut ResponseFacts,
    ) -> Result<Reply, ApiError>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let timeouts = self.state.timeouts;
        // This check reads the store, which may hang. So it has the same time limit as a handler.
        timeout(timeouts.handler, self.admit_caller(route, &mut call, address, facts)).await??;
        // A GET writes no event, so it needs no actor. If another request has no caller, its events keep the default
        // actor of the service.
        if route.method != Method::GET
            && let Ok(actor) = call.actor()
        {
            call.service = call.service.by(actor);
        }
        if !route.reads_query {
            call.query.expect(&[], &[])?;
        }
        if let Some(most) = route.body_bytes_max
            && !(route.body_is_optional && body.is_empty())
        {
            // Boxed to make the future smaller: most requests have no body.
            call.body = if route.needs == Needs::Signature {
                Box::pin(self.webhook(body, most)).await?
            } else {
                Box::pin(body.read_json(timeouts.body, most, &call.headers)).await?
            };
        }
        let Some(person) = call.person.filter(|_| route.self_service.is_some()) else {
            return timeout(timeouts.handler, route.handler.handle(call)).await?;
        };
        // The change is counted before it is made: else changes that are made at the same time would all be allowed. If
        // the handler is aborted, the change may have been made.
        facts.rate = self.state.limiters.self_service(person)?;
        let reply = timeout(timeouts.handler, route.handler.handle(call)).await?;
        if !reply.as_ref().is_ok_and(|reply| !reply.is_unchanged) {
            self.state.limiters.not_changed(person);
            facts.rate = None;
        }
        reply
    }

    /// Reads the body of a payment provider's webhook. Only a limited number of large bodies is read at a time,
    /// because their senders are not verified yet.
    async fn webhook<B>(
        &self,
        body: Pin<&mut RequestBody<B>>,
        most: usize,
    ) -> Result<Bytes, ApiError>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let slots = &self.state.webhook_slots;
        let _slot = match body.may_be_large().then(|| slots.try_acquire()) {
            Some(Err(_)) => return Err(Refusal::TooManyBodies.into()),
            slot => slot,
        };
        body.read(self.state.timeouts.body.min(WEBHOOK_TIMEOUT), most).await
    }

    async fn grants(&self, page: &Page) -> bool {
        let State { service, auth, clients, origins, portal, .. } = &*self.state;
        portal.as_ref().is_some_and(|portal| page.is_portal(portal))
            || origins.grant(page, clients, auth, service.now()).await
    }
}
