//! The accept loop: connections, their limits, and a graceful stop.

mod activity;
mod connection;
mod heads;
mod peers;
mod watched;
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
use self::workers::Workers;
use crate::api::Api;

/// Connections that wait to be accepted; the system may allow fewer. By default it is 128, and whoever
/// comes in a burst that is larger tries again after a whole second.
const BACKLOG: u32 = 4_096;

/// The longest time-out: hyper adds it to the present moment, and no longer one need be possible.
const HEAD_TIMEOUT_MAX: Duration = Duration::from_hours(24 * 365);

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
    /// how long an answer may take to be fetched: 30 s. More than a year is a year.
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
        Ok(Self::on(api, Self::listener(address)?, limits))
    }

    /// A listener for [`Server::on`], which takes connections in already. It must be called on a runtime.
    pub fn listener(address: SocketAddr) -> std::io::Result<TcpListener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    }

    /// Serves on a listener that is open already.
    pub fn on(api: Api, listener: TcpListener, limits: Limits) -> Self {
        let head_timeout = limits.head_timeout.min(HEAD_TIMEOUT_MAX);
        let limits = Limits { head_timeout, ..limits };
        if let Ok(address) = listener.local_addr() {
            api.listens_at(address.ip());
        }
        Self { api, listener, limits, workers: Workers::none() }
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
            let worker = workers.next();
            match at(&worker, stream) {
                Ok(stream) => {
                    let (api, stopped) = (api.clone(), stopped.clone());
                    let connection = Connection::new(api, address.ip(), limits, stopped, place);
                    connections.spawn_on(connection.serve(stream), &worker);
                }
                Err(error) => tracing::debug!(%error, "a connection was gone at once"),
            }
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

/// Puts a stream under the care of a thread's runtime.
///
/// Here rather than on that thread, so that what lasts as long as a connection does not lie in memory
/// between what comes and goes with its requests, and keep that from being given back.
fn at(worker: &Handle, stream: std::net::TcpStream) -> std::io::Result<TcpStream> {
    let _entered = worker.enter();
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Waits a little where accepting fails for want of something that others give back.
async fn pause_after(error: &std::io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset) {
        tracing::warn!(%error, "no connection can be accepted");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
