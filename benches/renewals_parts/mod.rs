//! Ordinary requests beside a catch-up: how much longer they take while the clock works off what is due.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde_json::Value;
use subscription_core::Store;
use subscription_core::billing::Billing;
use subscription_http::{Limits, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::world::ApiWorld;

/// Slices without and with a catch-up, in turn.
const SLICES: usize = 8;
const SLICE: Duration = Duration::from_secs(2);
/// Connections that read, and connections that create; each sends a request at these intervals.
const READERS: (u32, Duration) = (8, Duration::from_millis(20));
const CREATORS: (u32, Duration) = (4, Duration::from_millis(40));

/// A server over the store of a billing, and the requests of its callers.
pub(crate) struct Served {
    address: SocketAddr,
    read: Arc<[u8]>,
    create: Arc<[u8]>,
}

/// The times that requests took.
#[derive(Default)]
struct Taken {
    reads: Vec<Duration>,
    creates: Vec<Duration>,
}

impl Served {
    pub(crate) async fn start(store: impl Store + 'static) -> Self {
        let world = ApiWorld::over(store, 1, true).await;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(world.api.clone(), address, Limits::default()).await.unwrap();
        let server = server.workers(NonZeroUsize::new(2).unwrap()).unwrap();
        let address = server.address().unwrap();
        tokio::spawn(server.run(std::future::pending()));
        let request = |method: &str, path: &str, body: &str| -> Arc<[u8]> {
            let (client, token) = (world.client.expose_secret(), world.token.expose_secret());
            let length = body.len();
            let text = format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nclient-id: {client}\r\n\
                 Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            );
            text.into_bytes().into()
        };
        let create = request("POST", "/subscriptions", &world.new_subscription());
        let mut stream = TcpStream::connect(address).await.unwrap();
        let made: Value = serde_json::from_slice(&answer(&mut stream, &create).await).unwrap();
        let path = format!("/subscriptions/{}", made["id"].as_str().unwrap());
        Self { address, read: request("GET", &path, ""), create }
    }

    /// Prints how long requests take without a catch-up and beside one, and the renewals a second of the catch-up.
    pub(crate) async fn beside(&self, store: &str, billing: &Billing) {
        let (mut quiet, mut beside) = (Taken::default(), Taken::default());
        let (mut steps, mut more) = (0, true);
        // The first load only warms up caches and connections, which are warm in a running service.
        self.load().await;
        for _ in 0..SLICES {
            quiet.add(self.load().await);
            let is_over = Arc::new(AtomicBool::new(false));
            let catch_up = tokio::spawn(catch_up(billing.clone(), Arc::clone(&is_over)));
            beside.add(self.load().await);
            is_over.store(true, Ordering::Relaxed);
            let (taken, has_more) = catch_up.await.unwrap();
            steps += taken;
            more &= has_more;
        }
        assert!(more, "the catch-up ended before the measurement: raise RENEWALS");
        let rate = steps as f64 / (SLICE * u32::try_from(SLICES).unwrap()).as_secs_f64();
        let rows =
            [("reads", quiet.reads, beside.reads), ("creates", quiet.creates, beside.creates)];
        for (what, quiet, beside) in rows {
            let (quiet, beside) = (p99(quiet), p99(beside));
            let ratio = beside / quiet;
            println!(
                "| {store}, {what} | {quiet:.1} ms | {beside:.1} ms | {ratio:.1} | {rate:.0} |"
            );
        }
    }

    async fn load(&self) -> Taken {
        let mut callers = JoinSet::new();
        let begun = Instant::now();
        for (is_read, (count, every)) in [(true, READERS), (false, CREATORS)] {
            for nth in 0..count {
                let request = Arc::clone(if is_read { &self.read } else { &self.create });
                let (address, first) = (self.address, begun + every * nth / count);
                callers
                    .spawn(async move { (is_read, call(address, &request, first, every).await) });
            }
        }
        let mut taken = Taken::default();
        while let Some(done) = callers.join_next().await {
            let (is_read, times) = done.unwrap();
            if is_read { &mut taken.reads } else { &mut taken.creates }.extend(times);
        }
        taken
    }
}

impl Taken {
    fn add(&mut self, other: Self) {
        self.reads.extend(other.reads);
        self.creates.extend(other.creates);
    }
}

/// Works as the billing job of a server does while clients send requests, until `is_over` is set: rounds of 20 steps,
/// and after each a pause as long as the round. Returns the steps, and whether more are due.
async fn catch_up(billing: Billing, is_over: Arc<AtomicBool>) -> (usize, bool) {
    let (mut steps, mut more) = (0, true);
    while more && !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let advanced = billing.advance(20).await.unwrap();
        steps += advanced.steps;
        more = advanced.more;
        sleep(begun.elapsed()).await;
    }
    (steps, more)
}

/// Sends a request at each interval. Each time is counted from the moment at which the request was to be sent, so a
/// wait for the previous response counts too.
async fn call(
    address: SocketAddr,
    request: &[u8],
    first: Instant,
    every: Duration,
) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut at, mut times) = (first, Vec::new());
    while at < first + SLICE {
        sleep_until(at).await;
        answer(&mut stream, request).await;
        times.push(at.elapsed());
        at += every;
    }
    times
}

/// The body of the response to a request.
async fn answer(stream: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    stream.write_all(request).await.unwrap();
    let mut read = Vec::with_capacity(4_096);
    loop {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "the server hung up");
        let Some(head) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&read[..head]).unwrap().to_ascii_lowercase();
        assert!(text.starts_with("http/1.1 20"), "{}", String::from_utf8_lossy(&read));
        let length = text.split("content-length: ").nth(1).unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        if read.len() == head + 4 + length {
            return read.split_off(head + 4);
        }
    }
}

/// The 99th percentile, in milliseconds.
fn p99(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() * 99 / 100].as_secs_f64() * 1_000.0
}
