//! One connection: hyper serves it, and a timer ends it when it is idle or too slow.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::Limits;
use super::activity::{Activity, Phase, PhaseTimer};
use super::peers::PeerSlot;
use super::sniffed_stream::SniffedStream;
use crate::api::Api;
use crate::api::admission::request_head;
use crate::api::input::bounds::BODY_BYTES_MAX;

/// How long an idle connection may still deliver a request during shutdown. A proxy sends requests over a connection
/// until it sees that the connection is closed, and not every proxy repeats a request that got no response.
const LAST_REQUEST: Duration = Duration::from_millis(50);

/// The smallest buffer that hyper accepts for a request head, in bytes.
const HEAD_BYTES_MIN: usize = 8_192;

/// HTTP/2: the maximum number of concurrent requests of one connection. Each takes some kilobytes, also if its response
/// is not read; a page in a browser needs fewer.
const STREAMS_MAX: u32 = 32;

/// HTTP/2: the maximum number of bytes of a response that h2 stores until they can be sent.
const SEND_BYTES: usize = 65_536;

/// HTTP/2: the largest frame that is accepted, in bytes. The protocol allows no smaller maximum.
const FRAME_BYTES: u32 = 16_384;

/// HTTP/2: the number of streams that the client may reset before the connection is closed.
const RESETS_MAX: usize = 20;

/// HTTP/2: the number of streams that the server may reset or refuse before the connection is closed. A client that has
/// not read [`STREAMS_MAX`] yet assumes that it may send 100 requests at once, and sends the refused ones again.
const REFUSALS_MAX: usize = 100;

/// hyper's settings for every connection of a server; it detects HTTP/1 and HTTP/2 by itself.
pub(super) fn protocols(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let head_bytes = limits.head_bytes.max(HEAD_BYTES_MIN);
    let body_bytes = u32::try_from(BODY_BYTES_MAX).unwrap_or(u32::MAX);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        // Responses are small: copying one is faster than a vectored write.
        .writev(false)
        .max_buf_size(head_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS_MAX)
        // hyper's defaults suit large files: receive windows of a megabyte and a send buffer of 400 KiB. Requests and
        // responses of this API are small.
        .initial_stream_window_size(body_bytes)
        .initial_connection_window_size(body_bytes.saturating_mul(4))
        .max_send_buf_size(SEND_BYTES)
        .max_frame_size(FRAME_BYTES)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(REFUSALS_MAX)
        .keep_alive_interval(limits.head_timeout)
        .keep_alive_timeout(limits.head_timeout);
    builder
}

/// A connection before it is served.
pub(super) struct Connection {
    pub(super) api: Api,
    pub(super) peer: IpAddr,
    pub(super) limits: Limits,
    /// True once the server stops.
    pub(super) stopped: watch::Receiver<bool>,
    /// Counts this connection among the connections of its address.
    pub(super) slot: PeerSlot,
}

impl Connection {
    /// Serves the connection until the client closes it, a time-out ends it, or the server stops.
    pub(super) fn serve(
        self,
        stream: TcpStream,
        protocols: &auto::Builder<TokioExecutor>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let activity = Activity::new(self.stopped.clone(), self.api.unread_bytes());
        let activity = Arc::new(activity);
        let stream = TokioIo::new(SniffedStream::new(stream, &activity));
        let connection = protocols.serve_connection(stream, self.service(&activity)).into_owned();
        // Boxed to make the future smaller.
        let mut connection = Box::pin(connection);
        let Self { mut limits, mut stopped, slot, .. } = self;
        async move {
            // The connection is counted until it ends.
            let _slot = &slot;
            let mut stop = pin!(stopped.wait_for(|stopped| *stopped));
            let mut timer = PhaseTimer::start();
            let mut stopping = false;
            let mut closing = false;
            let mut look = pin!(sleep(limits.look_every()));
            loop {
                tokio::select! {
                    // hyper is polled last, because it may use up the time slice of the task, and then the timer would
                    // not be checked.
                    biased;
                    () = look.as_mut() => {
                        let (phase, lasts) = timer.look(&activity);
                        let over = match phase {
                            Phase::Busy => None,
                            Phase::Sending => (lasts >= limits.send_timeout).then_some("send timeout"),
                            Phase::Receiving => (lasts >= limits.head_timeout).then_some("head timeout"),
                            Phase::Idle => (lasts >= limits.idle_timeout).then_some("idle timeout"),
                        };
                        let unread = activity.unread_for() >= limits.send_timeout;
                        let over = if unread { Some("send timeout") } else { over };
                        let asks_politely = phase == Phase::Idle && !unread && !closing;
                        if let Some(reason) = over && !asks_politely {
                            return tracing::debug!(reason, "connection closed");
                        }
                        // While a response is being sent, `graceful_shutdown` is not called: hyper would drop the
                        // unsent part.
                        let is_sent = phase != Phase::Sending;
                        if !closing && is_sent && (stopping || over.is_some()) {
                            closing = true;
                            timer.restart();
                            connection.as_mut().graceful_shutdown();
                        }
                        let wait = if stopping && !closing { LAST_REQUEST } else { limits.look_every() };
                        look.as_mut().reset(Instant::now() + wait);
                    }
                    _ = stop.as_mut(), if !stopping => {
                        stopping = true;
                        // The time-outs become shorter than `drain_timeout`, the time that the server waits for
                        // requests in flight. Otherwise an incomplete request head could keep the connection open for
                        // all of that time.
                        limits = limits.at_most(limits.drain_timeout / 2);
                        look.as_mut().reset(Instant::now() + LAST_REQUEST);
                    }
                    ended = connection.as_mut() => {
                        if let Err(error) = ended {
                            tracing::debug!(%error, "connection failed");
                        }
                        return;
                    }
                }
            }
        }
    }

    /// The service that hyper calls for each request.
    fn service(
        &self,
        activity: &Arc<Activity>,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<Full<Bytes>>,
        Error = Infallible,
        Future: Send + 'static,
    > + Send
    + use<> {
        let api = self.api.clone();
        let peer = self.peer;
        let activity = Arc::clone(activity);
        service_fn(move |mut request: Request<Incoming>| {
            let is_http2 = request.version() == Version::HTTP_2;
            let in_flight = activity.begin(is_http2);
            let is_last = is_last(&mut request, activity.is_ambiguous());
            // This is not an `async` block, which would store the inner future twice and double its size.
            let unread = is_http2.then(|| activity.unread_bytes());
            api.answer_within(request, Some(peer), unread).map(move |mut response| {
                if is_last || !is_http2 && in_flight.is_stopped() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                if is_http2 {
                    in_flight.track(&mut response);
                }
                Ok::<_, Infallible>(response)
            })
        })
    }
}

/// True if the connection must end after this request, because a proxy may have read the request differently.
fn is_last(request: &mut Request<Incoming>, is_ambiguous: bool) -> bool {
    let is_coded = request.headers().contains_key(header::TRANSFER_ENCODING);
    if is_coded && is_ambiguous {
        // hyper removed the header `Content-Length`. It is set again, so that the check of the request head refuses the
        // request.
        request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(0));
    }
    is_coded && request.version() <= Version::HTTP_11 && !request_head::framed(request.headers())
}
