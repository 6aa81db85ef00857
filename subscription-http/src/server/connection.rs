//! One connection: the HTTP that it speaks, its requests, and its rest between them.
//!
//! hyper keeps its buffers, and room for an answer, for as long as it has a connection. So one that
//! idles is taken from it, and rests as a bare stream until more comes; then hyper begins anew. Those
//! who ask often stay with hyper between their requests, and the others rest once they are answered:
//! if many come at once, memory is not taken for all of them, which may never be given back.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::Limits;
use super::activity::{Activity, Idle};
use super::heads::Heads;
use super::peers::Place;
use super::watched::Watched;
use crate::api::Api;
use crate::gate;

/// How long a connection of one who asks often idles before it rests. Often is within this time.
const RESTS_AFTER: Duration = Duration::from_secs(1);

/// The part of the time that a connection may idle after which it rests, if that is shorter.
const RESTS_AFTER_PART: u32 = 16;

/// How long one that rests may still ask after a stop: proxies send requests over it until they see it
/// closed, and not all of them send one again.
const LAST_WORD: Duration = Duration::from_millis(50);

/// The smallest buffer that hyper takes.
const HEAD_BYTES_MIN: usize = 8_192;

/// HTTP/2: requests of one connection at once.
const STREAMS_MAX: u32 = 100;

/// HTTP/2: bytes of a body on their way, which is as much as a body may have.
const STREAM_BYTES: u32 = 65_536;

/// HTTP/2: bytes of an answer that are taken over before they can be sent.
const SEND_BYTES: usize = 65_536;

/// HTTP/2: the largest frame that is taken, the least that the protocol allows.
const FRAME_BYTES: u32 = 16_384;

/// HTTP/2: streams that may be reset before the connection ends.
const RESETS_MAX: usize = 20;

/// A connection that is served.
#[derive(Debug)]
pub(super) struct Connection {
    api: Api,
    peer: IpAddr,
    limits: Limits,
    stopped: watch::Receiver<bool>,
    activity: Arc<Activity>,
    idle: Idle,
    /// Its last rest was short.
    asks_often: bool,
    /// Its place among those of its address.
    _place: Place,
}

/// How hyper's part in a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Rests,
    Ends,
}

impl Connection {
    pub(super) fn new(
        api: Api,
        peer: IpAddr,
        limits: Limits,
        stopped: watch::Receiver<bool>,
        place: Place,
    ) -> Self {
        let (activity, idle) = (Arc::new(Activity::new(stopped.clone())), Idle::new());
        Self { api, peer, limits, stopped, activity, idle, asks_often: false, _place: place }
    }

    fn rests_after(&self) -> Duration {
        RESTS_AFTER.min(self.limits.head_timeout / RESTS_AFTER_PART)
    }

    /// Serves it until it ends, idles too long, or everything stops.
    ///
    /// What it keeps while it rests is small, and what it keeps for hyper is gone then. This is no
    /// `async fn` because that would keep two places for the connection.
    pub(super) fn serve(mut self, stream: TcpStream) -> impl Future<Output = ()> + Send {
        let mut stream = Watched::new(stream, &self.activity);
        async move {
            let version = loop {
                if !self.rest(stream.socket()).await {
                    return;
                }
                match stream.greeting() {
                    Ok(None) => {}
                    Ok(Some(version)) => break version,
                    Err(error) => return tracing::debug!(%error, "a connection ended early"),
                }
            };
            if version == Version::HTTP_2 {
                return Box::pin(self.http2(stream)).await;
            }
            while let Some(rested) = Box::pin(self.http1(stream)).await {
                stream = rested;
                let begun = Instant::now();
                if !self.rest(stream.socket()).await {
                    return;
                }
                self.asks_often = begun.elapsed() < self.rests_after();
            }
        }
    }

    /// Waits for more to come; false if it is not worth while any more.
    async fn rest(&mut self, stream: &TcpStream) -> bool {
        let idles = self.idle.look(&self.activity);
        let left = self.limits.head_timeout.saturating_sub(idles);
        tokio::select! {
            biased;
            readable = stream.readable() => return readable.is_ok(),
            _ = self.stopped.wait_for(|stopped| *stopped) => {}
            () = sleep(left) => return false,
        }
        // What was sent before the stop, or on the way then, may not have been noticed yet.
        timeout(LAST_WORD, stream.readable()).await.is_ok_and(|readable| readable.is_ok())
    }

    /// Has hyper serve HTTP/1 for as long as there are requests; then the stream, if it is to rest.
    async fn http1(&mut self, stream: Watched) -> Option<Watched> {
        let mut builder = http1::Builder::new();
        builder
            .timer(Heads::new(&self.activity))
            // It never rings.
            .header_read_timeout(Duration::ZERO)
            // Answers are small: to copy one is quicker than to have the kernel gather it.
            .writev(false)
            .max_buf_size(self.limits.head_bytes.max(HEAD_BYTES_MIN));
        let mut connection = builder.serve_connection(TokioIo::new(stream), self.service());
        let shut = http1::Connection::graceful_shutdown;
        match self.attend(Pin::new(&mut connection), shut).await {
            Then::Ends => None,
            Then::Rests => {
                let parts = connection.into_parts();
                Some(parts.io.into_inner().again(&parts.read_buf))
            }
        }
    }

    /// Has hyper serve HTTP/2 to the end.
    async fn http2(&mut self, stream: Watched) {
        let Limits { head_bytes, head_timeout, .. } = self.limits;
        let head_bytes = u32::try_from(head_bytes.max(HEAD_BYTES_MIN)).unwrap_or(u32::MAX);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(head_bytes)
            .max_concurrent_streams(STREAMS_MAX)
            // What hyper holds of bodies that nobody reads yet, and of answers that nobody fetches: its
            // megabyte and 400 KiB are for files.
            .initial_stream_window_size(STREAM_BYTES)
            .initial_connection_window_size(STREAM_BYTES * 4)
            .max_send_buf_size(SEND_BYTES)
            .max_frame_size(FRAME_BYTES)
            // Requests that are given up at once, and those that are refused: beyond so many the
            // connection ends.
            .max_pending_accept_reset_streams(RESETS_MAX)
            .max_local_error_reset_streams(RESETS_MAX)
            .keep_alive_interval(head_timeout)
            .keep_alive_timeout(head_timeout);
        let connection = builder.serve_connection(TokioIo::new(stream), self.service());
        self.attend(pin!(connection), http2::Connection::graceful_shutdown).await;
    }

    /// Sees to it that a connection ends when it is of no use any more, and rests when it idles.
    async fn attend<C: Future<Output = hyper::Result<()>> + Send>(
        &mut self,
        mut connection: Pin<&mut C>,
        shut: fn(Pin<&mut C>),
    ) -> Then {
        let rests_after = self.rests_after();
        let Self { limits, stopped, activity, idle, asks_often, .. } = self;
        let before = activity.ended();
        let (mut patience, mut closing, mut stopping) = (limits.head_timeout, false, false);
        // What has come is read before anything else: what is shut before it has read anything ends.
        let first = poll_fn(|context| Poll::Ready(connection.as_mut().poll(context))).await;
        if let Poll::Ready(ended) = first {
            return over(ended);
        }
        let mut stop = pin!(stopped.wait_for(|stopped| *stopped));
        let mut look = pin!(sleep(rests_after.min(patience.saturating_sub(idle.lasts()))));
        loop {
            tokio::select! {
                // hyper last: it may use up all the time of the task.
                biased;
                () = look.as_mut() => {
                    let (idles, at_rest) = (idle.look(activity), activity.is_at_rest());
                    let is_over = idles >= patience && (closing || at_rest);
                    if is_over || activity.unfetched_for() >= patience.saturating_mul(2) {
                        tracing::debug!("a connection is of no use any more");
                        return Then::Ends;
                    }
                    if idles >= rests_after && at_rest && !closing {
                        return Then::Rests;
                    }
                    let left = patience.saturating_sub(idles);
                    if !left.is_zero() {
                        look.as_mut().reset(Instant::now() + rests_after.min(left));
                        continue;
                    }
                }
                _ = stop.as_mut(), if !stopping => {
                    if activity.is_at_rest() && !closing {
                        return Then::Rests;
                    }
                    stopping = true;
                    // A head that never ends must not use up all the time that requests have.
                    patience = patience.min(limits.drain_timeout / 2);
                }
                ended = connection.as_mut() => return over(ended),
                () = answered(activity, before), if !*asks_often && !closing => return Then::Rests,
            }
            closing = true;
            idle.restart();
            shut(connection.as_mut());
            look.as_mut().reset(Instant::now() + rests_after.min(patience));
        }
    }

    /// What hyper calls for each request.
    fn service(
        &self,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<Full<Bytes>>,
        Error = Infallible,
        Future: Send + 'static,
    > + use<> {
        let (api, peer, activity) = (self.api.clone(), self.peer, Arc::clone(&self.activity));
        service_fn(move |mut request: Request<Incoming>| {
            let under_way = activity.begin();
            let is_http2 = request.version() == Version::HTTP_2;
            let is_last = is_last(&mut request, activity.ambiguous.is_set());
            // Not in an `async` block, which would keep two places for what it waits for.
            api.answer(request, Some(peer)).map(move |mut answer| {
                // A stop that came while the answer was made is told by nobody else.
                if is_last || !is_http2 && under_way.is_stopped() {
                    let close = HeaderValue::from_static("close");
                    answer.headers_mut().insert(header::CONNECTION, close);
                }
                // HTTP/1 has one answer at a time, and idles until that is fetched.
                if is_http2 {
                    under_way.watch(answer.body_mut());
                }
                Ok::<_, Infallible>(answer)
            })
        })
    }
}

fn over(ended: hyper::Result<()>) -> Then {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
    Then::Ends
}

/// Ends when a request was answered since so many had been, and nothing is left to do; it is for hyper
/// to wake the task.
async fn answered(activity: &Activity, before: usize) {
    let is_answered = || activity.ended() != before && activity.is_at_rest();
    poll_fn(|_| if is_answered() { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// True if nothing is answered after a request, because a proxy before us may have read it otherwise.
fn is_last(request: &mut Request<Incoming>, is_ambiguous: bool) -> bool {
    let is_coded = request.headers().contains_key(header::TRANSFER_ENCODING);
    if is_coded && is_ambiguous {
        // As it was sent, for the gate to refuse.
        request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(0));
    }
    is_coded && request.version() <= Version::HTTP_11 && !gate::framed(request.headers())
}

#[cfg(test)]
mod tests {
    use subscription_core::auth::{
        Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
    };
    use subscription_core::{MemoryStore, SubscriptionService};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket};

    use super::super::peers::Peers;
    use super::*;

    fn api() -> Api {
        let service = SubscriptionService::new(Arc::new(MemoryStore::default()));
        let keys = KeyRing::new(SigningKey::ed25519(&vec![7; 32].into()).unwrap());
        let server_keys = ServerKeys::new(1, vec![8; 32].into()).unwrap();
        let verifier = Arc::new(DevelopmentIdentities);
        let auth = Authentication::builder(service.clone(), verifier, keys, server_keys).build();
        Api::builder(service, auth, vec![9; 32].into()).believe_every_client().build()
    }

    /// Nobody would notice if hyper's timer told us nothing any more, but for the memory.
    #[tokio::test]
    async fn what_idles_is_taken_from_hyper_with_what_it_has_read_of_the_next_head() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, address) = listener.accept().await.unwrap();
        let place = Peers::default().enter(address.ip(), 1).unwrap();
        let (_stopping, stopped) = watch::channel(false);
        let limits = Limits { head_timeout: Duration::from_secs(2), ..Limits::default() };
        let mut connection = Connection::new(api(), address.ip(), limits, stopped, place);
        let request =
            b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nnullGET /he";
        caller.write_all(request).await.unwrap();

        let stream = Watched::new(stream, &connection.activity);
        let mut rested = connection.http1(stream).await.expect("a rest");

        let mut ahead = Vec::new();
        rested.read_buf(&mut ahead).await.unwrap();
        assert_eq!(ahead, b"GET /he");
    }

    /// hyper may wait for the next head while a part of an answer is still in its buffer.
    #[tokio::test]
    async fn what_is_not_all_sent_does_not_rest() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(4_096).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(1).unwrap();
        let caller = TcpSocket::new_v4().unwrap();
        caller.set_recv_buffer_size(4_096).unwrap();
        let mut caller = caller.connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, address) = listener.accept().await.unwrap();
        let place = Peers::default().enter(address.ip(), 1).unwrap();
        let (_stopping, stopped) = watch::channel(false);
        let limits = Limits { head_timeout: Duration::from_secs(10), ..Limits::default() };
        let connection = Connection::new(api(), address.ip(), limits, stopped, place);
        tokio::spawn(connection.serve(stream));
        // It is answered, as far as there is room for that, before hyper passes by the body.
        let request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
            Content-Length: 4\r\n\r\nnull";
        caller.write_all(request).await.unwrap();

        let (mut back, mut whole) = (Vec::new(), usize::MAX);
        while back.len() < whole {
            let read = timeout(Duration::from_secs(5), caller.read_buf(&mut back));
            assert!(matches!(read.await, Ok(Ok(1..))), "{} bytes of {whole}", back.len());
            let head = String::from_utf8_lossy(&back[..back.len().min(1_024)]).into_owned();
            if let Some((head, _)) = head.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                whole = head.len() + 4 + length.unwrap().parse::<usize>().unwrap();
            }
        }
    }
}
