//! The server: it accepts connections, limits their number, and stops gracefully.

mod activity;
mod connection;
mod peers;
mod sniffed_stream;
mod workers;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::connection::Connection;
use self::peers::Peers;
pub use self::workers::WorkerThreads;
use self::workers::Workers;
use crate::api::Api;
use crate::api::input::bounds::HEAD_BYTES_MAX;

/// The number of connections that the kernel queues until they are accepted. The system may allow fewer. The usual
/// number, 128, is too low for a burst of connections: if the queue is full, a client retries only after a whole
/// second.
const BACKLOG: u32 = 4_096;

/// The longest time-out. Time-outs are added to the present time, which must not overflow.
const TIMEOUT_MAX: Duration = Duration::from_hours(24 * 365);

/// The limits of a server. If a time-out of connections is longer than a year, a year is used.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum number of connections. Further connections wait to be accepted. Default: 10,000.
    pub connections: usize,
    /// The maximum number of connections of one address, or of one /64 network of IPv6. Further connections are closed.
    /// Default: 1,000.
    pub connections_per_peer: usize,
    /// The maximum size of a request's head, in bytes; 8 KiB if a smaller one is set. Default: 16 KiB.
    pub head_bytes: usize,
    /// How long the head of a request may take to arrive. Default: 30 s.
    pub head_timeout: Duration,
    /// How long a connection may be idle between requests. Default: 30 s.
    pub idle_timeout: Duration,
    /// How long a client may take to read a response. Default: 1 min.
    pub send_timeout: Duration,
    /// How long a stop waits for requests in flight. Default: 10 s.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_peer: 1_000,
            head_bytes: HEAD_BYTES_MAX,
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_mins(1),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

subscription_core::with_fields! {
    Limits {
        with_connections(usize) => connections,
        with_connections_per_peer(usize) => connections_per_peer,
        with_head_bytes(usize) => head_bytes,
        with_head_timeout(Duration) => head_timeout,
        with_idle_timeout(Duration) => idle_timeout,
        with_send_timeout(Duration) => send_timeout,
        with_drain_timeout(Duration) => drain_timeout,
    }
}

impl Limits {
    /// The same limits, but with time-outs of a connection of at most `longest`.
    fn at_most(self, longest: Duration) -> Self {
        Self {
            head_timeout: self.head_timeout.min(longest),
            idle_timeout: self.idle_timeout.min(longest),
            send_timeout: self.send_timeout.min(longest),
            ..self
        }
    }

    /// The time between two checks of a connection for a time-out.
    fn look_every(&self) -> Duration {
        let shortest = self.head_timeout.min(self.idle_timeout).min(self.send_timeout);
        (shortest / 4).max(Duration::from_millis(1))
    }
}

/// A server that serves an [`Api`] on a socket.
#[derive(Debug)]
pub struct Server {
    api: Api,
    listener: TcpListener,
    limits: Limits,
    workers: Workers,
}

impl Server {
    /// Creates a server that listens at an address.
    pub async fn bind(api: Api, address: SocketAddr, limits: Limits) -> std::io::Result<Self> {
        Ok(Self::on(api, Self::listener(address)?, limits))
    }

    /// Creates a listener for [`Server::on`]. From this call on, the system queues connections to the address. Call
    /// this on a Tokio runtime.
    pub fn listener(address: SocketAddr) -> std::io::Result<TcpListener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    }

    /// Creates a server on an open listener.
    pub fn on(api: Api, listener: TcpListener, limits: Limits) -> Self {
        let limits = limits.at_most(TIMEOUT_MAX);
        if let Ok(address) = listener.local_addr() {
            api.listens_at(address.ip());
        }
        Self { api, listener, limits, workers: Workers::none() }
    }

    /// Serves connections on `count` threads, each with its own runtime. Without this call, the runtime that calls
    /// [`run`](Self::run) serves them. Fails if the system cannot start a thread.
    pub fn workers(mut self, count: NonZeroUsize) -> std::io::Result<Self> {
        self.workers = Workers::start(count)?;
        Ok(self)
    }

    /// The threads of [`workers`](Self::workers). A connection that a request has opened, such as one to a database,
    /// belongs to the thread that served the request, and nobody can use it once the thread has ended. Who uses the
    /// store after the server has stopped keeps the threads until then.
    pub fn worker_threads(&self) -> WorkerThreads {
        self.workers.threads.clone()
    }

    /// The address that the server listens at.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` resolves, then waits until the requests in flight have ended. Returns false if that took
    /// longer than [`Limits::drain_timeout`]; the remaining requests were then aborted.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> bool {
        let Self { api, listener, limits, mut workers } = self;
        let (stopping, stopped) = watch::channel(false);
        let peers = Peers::default();
        let protocols = connection::protocols(&limits);
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let (stream, address) = tokio::select! {
                () = &mut stop => break,
                Some(ended) = connections.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "connection task failed");
                    }
                    continue;
                }
                accepted = accept(&listener), if connections.len() < limits.connections => accepted,
            };
            let Some(slot) = peers.enter(address.ip(), limits.connections_per_peer) else {
                tracing::warn!(peer = %address.ip(), "connection refused: too many from this address");
                continue;
            };
            let worker = workers.next();
            match register(&worker, stream) {
                Ok(stream) => {
                    let api = api.clone();
                    let peer = address.ip();
                    let stopped = stopped.clone();
                    let connection = Connection { api, peer, limits, stopped, slot };
                    connections.spawn_on(connection.serve(stream, &protocols), &worker);
                }
                Err(error) => tracing::debug!(%error, "connection closed before it was served"),
            }
        }
        stopping.send_replace(true);
        api.stop_waiting();
        drop(listener);
        let drained = async { while connections.join_next().await.is_some() {} };
        let drained = tokio::time::timeout(limits.drain_timeout, drained).await.is_ok();
        // Aborts the remaining connections before the threads that serve them end.
        connections.shutdown().await;
        drained
    }
}

/// Accepts the next connection. Its stream is not registered with any runtime yet.
async fn accept(listener: &TcpListener) -> (std::net::TcpStream, SocketAddr) {
    loop {
        let accepted = listener.accept().await;
        match accepted.and_then(|(stream, address)| Ok((stream.into_std()?, address))) {
            Ok(accepted) => return accepted,
            Err(error) => pause_after(&error).await,
        }
    }
}

/// Registers a stream with a worker's runtime. This happens on the accept thread, so that memory that lives as long as
/// the connection does not fragment the worker's heap.
fn register(worker: &Handle, stream: std::net::TcpStream) -> std::io::Result<TcpStream> {
    let _entered = worker.enter();
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Waits 100 ms if accepting failed because a resource was missing, such as file descriptors.
async fn pause_after(error: &std::io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset) {
        tracing::warn!(%error, "accepting a connection failed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
