//! A server on a free port, and connections that send raw bytes to it.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test that fails panics")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::auth::{
    Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
};
use subscription_core::{MemoryStore, Store, SubscriptionService};
use subscription_http::{Api, Limits, Server, Timeouts};
use test_support::spy_store::{Call, Spy, SpyStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// Far more than anything here takes, on however busy a machine.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// Short enough to wait for.
pub(crate) const SHORT: Duration = Duration::from_millis(500);

/// A server that runs.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    run: Option<JoinHandle<bool>>,
}

impl Wire {
    pub(crate) async fn new() -> Self {
        Self::with(Limits::default(), Timeouts::default()).await
    }

    pub(crate) async fn limited(limits: Limits) -> Self {
        Self::with(limits, Timeouts::default()).await
    }

    pub(crate) async fn with(limits: Limits, timeouts: Timeouts) -> Self {
        Self::over(Arc::new(MemoryStore::default()), limits, timeouts).await
    }

    pub(crate) async fn over(store: Arc<dyn Store>, limits: Limits, timeouts: Timeouts) -> Self {
        test_support::logs::listen();
        let service = SubscriptionService::new(store);
        let keys = KeyRing::new(SigningKey::ed25519(&vec![7; 32].into()).unwrap());
        let server_keys = ServerKeys::new(1, vec![8; 32].into()).unwrap();
        let verifier = Arc::new(DevelopmentIdentities);
        let auth = Authentication::builder(service.clone(), verifier, keys, server_keys).build();
        let api = Api::builder(service, auth, vec![9; 32].into());
        let api = api.believe_every_client().timeouts(timeouts).build();
        let server = Server::bind(api, ([127, 0, 0, 1], 0).into(), limits).await.unwrap();
        let server = server.workers(2.try_into().unwrap()).unwrap();
        let address = server.address().unwrap();
        let (stop, stopped) = oneshot::channel();
        let run = tokio::spawn(server.run(async {
            stopped.await.ok();
        }));
        Self { address, stop: Some(stop), run: Some(run) }
    }

    pub(crate) async fn connect(&self) -> Raw {
        Raw::to(self.address).await
    }

    /// Sends bytes on a connection of their own; all that comes back until it is closed or quiet.
    pub(crate) async fn throw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut raw = self.connect().await;
        raw.send(bytes).await;
        raw.rest().await
    }

    /// Asserts that honest requests are still answered.
    pub(crate) async fn lives(&self, after: &str) {
        let mut raw = self.connect().await;
        raw.send(get("/health/live")).await;
        let answer = raw.answer().await;
        assert_eq!(answer.status, 200, "after {after}: {answer:?}");
    }

    /// Waits until `/metrics` shows a line that ends so.
    pub(crate) async fn counts(&self, line: &str) {
        let begun = tokio::time::Instant::now();
        loop {
            let mut raw = self.connect().await;
            raw.send(get("/metrics")).await;
            let metrics = raw.answer().await.body;
            if metrics.lines().any(|shown| shown.ends_with(line)) {
                return;
            }
            assert!(begun.elapsed() < DEADLINE, "{line} is not in {metrics}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Tells it to stop.
    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// The result of `run`.
    pub(crate) async fn ended(&mut self) -> bool {
        within(self.run.as_mut().unwrap()).await.unwrap()
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    /// The stable name of an error.
    pub(crate) fn code(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Raw {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        Self::over(within(TcpStream::connect(address)).await.unwrap())
    }

    pub(crate) fn over(stream: TcpStream) -> Self {
        Self { stream, read: Vec::new() }
    }

    /// Sends bytes; that nobody wants them any more shows in what comes back.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within(self.stream.write_all(bytes.as_ref())).await.ok();
    }

    /// One more piece of what comes; false when nothing comes any more.
    async fn more(&mut self) -> bool {
        within(self.stream.read_buf(&mut self.read)).await.is_ok_and(|count| count > 0)
    }

    /// The next answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        self.answer_to("GET").await.expect("an answer")
    }

    /// The next answer, if there is a whole one.
    pub(crate) async fn answer_to(&mut self, method: &str) -> Option<Answer> {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more().await {
                return None;
            }
        };
        let head = String::from_utf8(self.read[..end].to_vec()).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |text| text.parse().unwrap());
        let length = if method == "HEAD" || matches!(status, 100 | 204 | 304) { 0 } else { length };
        while self.read.len() < end + length {
            if !self.more().await {
                return None;
            }
        }
        answer.body = String::from_utf8(self.read[end..end + length].to_vec()).unwrap();
        self.read.drain(..end + length);
        Some(answer)
    }

    /// All that comes until the other side closes, or is quiet for long enough to say that it waits.
    pub(crate) async fn rest(&mut self) -> String {
        let quiet = Duration::from_secs(1);
        while let Ok(true) = tokio::time::timeout(quiet, self.more()).await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// Waits until the other side closes; all that came.
    pub(crate) async fn closed(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }
}

/// A future's outcome, which must come in time.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.expect("in time")
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nclient-id: web\r\n\r\n")
}

/// A POST of JSON, whose headers end with `more`.
pub(crate) fn post(path: &str, more: &str) -> String {
    let host = "Host: localhost\r\nclient-id: web\r\nContent-Type: application/json";
    format!("POST {path} HTTP/1.1\r\n{host}\r\n{more}\r\n")
}

/// A plan as JSON.
pub(crate) fn plan(slug: &str) -> String {
    format!(r#"{{"name":"Pro","slug":"{slug}","price":"19.99","billing_cycle":"monthly"}}"#)
}

/// A POST of a whole plan.
pub(crate) fn post_plan(slug: &str) -> String {
    let body = plan(slug);
    post("/subscription-plans", &format!("Content-Length: {}\r\n", body.len())) + &body
}

/// How many answers there are in what came back.
pub(crate) fn answers(text: &str) -> usize {
    text.matches("HTTP/1.1 ").count()
}

/// Panics at every read.
#[derive(Debug)]
pub(crate) struct Panics;

#[async_trait]
impl Spy for Panics {
    async fn before(&self, call: Call) {
        assert!(call == Call::Commit, "a store that panics on purpose");
    }
}

/// Lets no read through until it is told to.
#[derive(Debug, Default)]
pub(crate) struct Hangs {
    /// A read came.
    pub(crate) came: Notify,
    /// It may go on.
    pub(crate) go: Notify,
}

#[async_trait]
impl Spy for Hangs {
    async fn before(&self, call: Call) {
        if call != Call::Commit {
            self.came.notify_one();
            self.go.notified().await;
        }
    }
}

/// A server over a store that a spy observes.
pub(crate) async fn over<T: Spy + 'static>(spy: T, limits: Limits) -> (Wire, Arc<SpyStore<T>>) {
    let store = SpyStore::new(spy);
    let shared: Arc<dyn Store> = Arc::<SpyStore<T>>::clone(&store);
    (Wire::over(shared, limits, Timeouts::default()).await, store)
}
