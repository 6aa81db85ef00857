//! The accept loop: connections, their limits, and a graceful stop.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::Api;
use crate::gate;

/// The smallest buffer that hyper takes.
const HEAD_BYTES_MIN: usize = 8_192;

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
}

impl Server {
    /// Listens at an address.
    pub async fn bind(api: Api, address: SocketAddr, limits: Limits) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { api, listener, limits })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` comes, then finishes what is under way. False if that took too long; what
    /// is left is cut off then.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> bool {
        let Self { api, listener, limits } = self;
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
            connections.spawn(async move {
                serve(stream, address.ip(), api, limits, stopped).await;
                drop(place);
            });
        }
        drop(listener);
        stopping.send_replace(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        tokio::time::timeout(limits.drain_timeout, drained).await.is_ok()
    }
}

/// The next connection.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => pause_after(&error).await,
        }
    }
}

/// Serves one connection until it ends, idles too long, or everything stops.
async fn serve(
    stream: TcpStream,
    peer: IpAddr,
    api: Api,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone before it was served");
        return;
    }
    let activity = Activity::new();
    let counted = activity.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (api, under_way) = (api.clone(), counted.begin());
        async move {
            let answer = answer(&api, request, peer).await;
            drop(under_way);
            Ok::<_, Infallible>(answer)
        }
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
                return;
            }
            _ = stopped.wait_for(|stopped| *stopped), if !stopping => {
                stopping = true;
                // A head that never ends must not use up all the time that requests have.
                patience = patience.min(limits.drain_timeout / 2);
            }
            // hyper's own timer sees neither a connection that never says anything, nor HTTP/2, nor an
            // answer that nobody fetches.
            () = activity.idle(patience) => {
                if closing {
                    tracing::debug!("a connection idled too long");
                    return;
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
        .max_concurrent_streams(100)
        .keep_alive_interval(limits.head_timeout)
        .keep_alive_timeout(limits.head_timeout);
    builder
}

/// Answers a request, and nothing after one that a proxy before us may have read otherwise.
async fn answer(api: &Api, request: Request<Incoming>, peer: IpAddr) -> Response<Full<Bytes>> {
    let ambiguous = request.version() <= Version::HTTP_11 && !gate::framed(request.headers());
    let mut answer = api.answer(request, Some(peer)).await;
    if ambiguous {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Whether requests of a connection are under way, and if none, since when.
#[derive(Debug, Clone)]
struct Activity(Arc<Mutex<(usize, Instant)>>);

/// A request under way, until it is dropped.
#[derive(Debug)]
struct UnderWay(Activity);

impl Activity {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((0, Instant::now()))))
    }

    fn state(&self) -> MutexGuard<'_, (usize, Instant)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> UnderWay {
        self.state().0 += 1;
        UnderWay(self.clone())
    }

    fn touch(&self) {
        self.state().1 = Instant::now();
    }

    /// Ends when no request was under way for so long.
    async fn idle(&self, patience: Duration) {
        loop {
            let (under_way, since) = *self.state();
            let now = Instant::now();
            let until = if under_way > 0 { now + patience } else { since + patience };
            if until <= now {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.0 -= 1;
        state.1 = Instant::now();
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

/// How many connections each address has.
#[derive(Debug, Clone, Default)]
struct Peers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection of an address, until it is dropped.
#[derive(Debug)]
struct Place {
    peers: Peers,
    ip: IpAddr,
}

impl Peers {
    fn enter(&self, ip: IpAddr, most: usize) -> Option<Place> {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.entry(ip).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { peers: self.clone(), ip })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut peers = self.peers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = peers.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&self.ip);
            }
        }
    }
}
