//! The accept loop: connections, their limits, and a graceful stop.

mod activity;
mod peers;
mod watched;
mod workers;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::activity::{Activity, Over};
use self::peers::Peers;
use self::watched::{Ambiguous, Watched};
use self::workers::Workers;
use crate::api::Api;
use crate::gate;

/// Connections that wait to be accepted; the system may allow fewer. By default it is 128, and whoever
/// comes in a burst that is larger tries again after a whole second.
const BACKLOG: u32 = 4_096;

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

/// How much a server takes on.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once: 10,000. More wait to be accepted.
    pub connections: usize,
    /// Connections of one address at once: 1,000. More are closed.
    pub connections_per_peer: usize,
    /// Bytes of a request's head: 16 KiB, and never under 8 KiB.
    pub head_bytes: usize,
    /// How long a head may take to arrive, how long a connection may idle between requests, and twice
    /// how long an answer may take to be fetched: 30 s.
    pub head_timeout: Duration,
    /// How long a stop waits for what is under way: 10 s.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_peer: 1_000,
            head_bytes: 16_384,
            head_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// An [`Api`] on a socket.
#[derive(Debug)]
pub struct Server {
    api: Api,
    listener: TcpListener,
    limits: Limits,
    workers: Workers,
}

impl Server {
    /// Listens at an address.
    pub async fn bind(api: Api, address: SocketAddr, limits: Limits) -> std::io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        Ok(Self { api, listener, limits, workers: Workers::none() })
    }

    /// Serves connections on so many threads of its own, each with a runtime of its own; without this on
    /// the runtime that it runs on. It fails where no threads are to be had.
    pub fn workers(mut self, count: NonZeroUsize) -> std::io::Result<Self> {
        self.workers = Workers::start(count)?;
        Ok(self)
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` comes, then finishes what is under way. False if that took too long; what
    /// is left is cut off then.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> bool {
        let Self { api, listener, limits, mut workers } = self;
        let (stopping, stopped) = watch::channel(false);
        let peers = Peers::default();
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let (stream, address) = tokio::select! {
                () = &mut stop => break,
                Some(ended) = connections.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a connection failed");
                    }
                    continue;
                }
                accepted = accept(&listener), if connections.len() < limits.connections => accepted,
            };
            let Some(place) = peers.enter(address.ip(), limits.connections_per_peer) else {
                tracing::warn!(peer = %address.ip(), "too many connections of one address");
                continue;
            };
            let (api, stopped) = (api.clone(), stopped.clone());
            let served = async move {
                if let Err(error) = serve(stream, address.ip(), api, limits, stopped).await {
                    tracing::debug!(%error, "a connection was gone before it was served");
                }
                drop(place);
            };
            connections.spawn_on(served, &workers.next());
        }
        stopping.send_replace(true);
        drop(listener);
        let drained = async { while connections.join_next().await.is_some() {} };
        let drained = tokio::time::timeout(limits.drain_timeout, drained).await.is_ok();
        // What is left is cut off before the threads that it runs on end.
        connections.shutdown().await;
        drained
    }
}

/// The next connection, of no runtime yet.
async fn accept(listener: &TcpListener) -> (std::net::TcpStream, SocketAddr) {
    loop {
        let accepted = listener.accept().await;
        match accepted.and_then(|(stream, address)| Ok((stream.into_std()?, address))) {
            Ok(accepted) => return accepted,
            Err(error) => pause_after(&error).await,
        }
    }
}

/// What the requests of a connection share.
struct Connection {
    api: Api,
    peer: IpAddr,
    ambiguous: Ambiguous,
    activity: Activity,
    stopped: watch::Receiver<bool>,
}

/// Serves one connection until it ends, idles too long, or everything stops.
async fn serve(
    stream: std::net::TcpStream,
    peer: IpAddr,
    api: Api,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let (stream, ambiguous) = Watched::new(stream);
    let activity = Activity::new();
    let shared =
        Connection { api, peer, ambiguous, activity: activity.clone(), stopped: stopped.clone() };
    let service = service_fn(move |request: Request<Incoming>| {
        let under_way = shared.activity.begin();
        let answer = shared.answer(request);
        // Not in an `async` block, which would keep two places for what it waits for.
        answer.map(|answer| Ok::<_, Infallible>(answer.map(|body| under_way.answered(body))))
    });
    let builder = builder(limits);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let (mut patience, mut closing, mut stopping) = (limits.head_timeout, false, false);
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return Ok(());
            }
            _ = stopped.wait_for(|stopped| *stopped), if !stopping => {
                stopping = true;
                // A head that never ends must not use up all the time that requests have.
                patience = patience.min(limits.drain_timeout / 2);
            }
            // hyper's own timer sees neither a connection that never says anything, nor HTTP/2, nor an
            // answer that nobody fetches.
            over = activity.over(patience) => {
                if closing || over == Over::Unfetched {
                    tracing::debug!(?over, "a connection is of no use any more");
                    return Ok(());
                }
            }
        }
        closing = true;
        activity.touch();
        connection.as_mut().graceful_shutdown();
    }
}

fn builder(limits: Limits) -> auto::Builder<TokioExecutor> {
    let head_bytes = limits.head_bytes.max(HEAD_BYTES_MIN);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(head_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
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
        .keep_alive_interval(limits.head_timeout)
        .keep_alive_timeout(limits.head_timeout);
    builder
}

impl Connection {
    /// Answers a request, and nothing after one that a proxy before us may have read otherwise.
    fn answer(
        &self,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send + use<> {
        let is_coded = request.headers().contains_key(header::TRANSFER_ENCODING);
        if is_coded && self.ambiguous.is_seen() {
            // As it was sent, for the gate to refuse.
            request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(0));
        }
        let has_lines = request.version() <= Version::HTTP_11;
        let unframed = is_coded && !gate::framed(request.headers());
        let stopped = self.stopped.clone();
        self.api.answer(request, Some(self.peer)).map(move |mut answer| {
            if has_lines && (unframed || *stopped.borrow()) {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            answer
        })
    }
}

/// Waits a little where accepting fails for want of something that others give back.
async fn pause_after(error: &std::io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset) {
        tracing::warn!(%error, "no connection can be accepted");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
