//! The API as an HTTP server on a free local port, with faults that a test can switch on.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use subscription_core::providers::ProviderKind;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::model::{Shared, shared};

/// The API key. Its prefix says that it is a key for test data.
pub const KEY: &str = "rk_test_of_the_fake_provider";

const GIBIBYTE: u64 = 1 << 30;

/// A fault of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The response has this status, and says after how many seconds to retry.
    Status(u16, Option<u64>),
    /// There is no response.
    Hangs,
    /// The response redirects to `/elsewhere` on this server.
    Redirects,
    /// The response contains another object than the requested one.
    WrongId,
    /// The response contains an object of the other mode: live instead of test, or test instead of live.
    OtherMode,
    /// The response is not JSON.
    NotJson,
    /// The response is a JSON text of 1 GiB.
    Gibibyte,
}

#[derive(Debug, Default)]
struct State {
    /// The fault, and the number of further requests that meet it.
    fault: Option<(Fault, u64)>,
    requests: Vec<String>,
    writes: usize,
}

/// A provider that runs until it is dropped. It has a thread of its own, so that tests of any kind can use it.
#[derive(Debug)]
pub struct FakeProvider {
    pub address: SocketAddr,
    pub account: Shared,
    state: Arc<Mutex<State>>,
    sent: Arc<AtomicU64>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()).ok());
        self.thread.take().map(|thread| thread.join().ok());
    }
}

impl FakeProvider {
    pub fn start(account: Shared) -> Self {
        let (state, sent) = (Arc::<Mutex<State>>::default(), Arc::<AtomicU64>::default());
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let parts = Parts {
            account: Arc::clone(&account),
            state: Arc::clone(&state),
            sent: Arc::clone(&sent),
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = accept(listener, parts) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told.recv().unwrap();
        Self { address, account, state, sent, stop: Some(stop), thread: Some(thread) }
    }

    /// The URL for the setting `api_base`.
    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets the next requests meet a fault. `requests` is their number.
    pub fn fails(&self, fault: Fault, requests: u64) {
        lock(&self.state).fault = Some((fault, requests));
    }

    /// Ends the fault: the next requests succeed.
    pub fn recovers(&self) {
        lock(&self.state).fault = None;
    }

    /// The paths and queries of all requests, also of those that met a fault.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.state).requests.clone()
    }

    /// The number of requests for this path.
    pub fn gets(&self, path: &str) -> usize {
        let of = |request: &String| request.split('?').next() == Some(path);
        lock(&self.state).requests.iter().filter(|request| of(request)).count()
    }

    /// The number of requests with another method than GET.
    pub fn writes(&self) -> usize {
        lock(&self.state).writes
    }

    /// The number of bytes that were sent in bodies of 1 GiB.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Clone)]
struct Parts {
    account: Shared,
    state: Arc<Mutex<State>>,
    sent: Arc<AtomicU64>,
}

async fn accept(listener: TcpListener, parts: Parts) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        stream.set_nodelay(true).ok();
        let parts = parts.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(parts.clone(), request));
            let http = hyper::server::conn::http1::Builder::new();
            http.serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn answer(parts: Parts, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let fault = {
        let mut state = lock(&parts.state);
        state.requests.push(path.clone());
        state.writes += usize::from(request.method() != Method::GET);
        let left = state.fault.as_mut().filter(|(_, left)| *left > 0);
        left.map(|(fault, left)| {
            *left -= 1;
            fault.clone()
        })
    };
    if request.method() != Method::GET {
        return Ok(of(405, "{}".into()));
    }
    let kind = shared(&parts.account).kind;
    if !is_authorized(kind, &request) {
        return Ok(of(401, "{\"error\":{\"message\":\"Invalid API Key provided\"}}".into()));
    }
    let (status, mut body) = shared(&parts.account).answer(&path);
    match fault {
        None => {}
        Some(Fault::Status(status, wait)) => {
            let mut answer = of(status, "{\"error\":{}}".into());
            if let Some(wait) = wait {
                answer.headers_mut().insert("retry-after", wait.into());
            }
            return Ok(answer);
        }
        Some(Fault::Hangs) => std::future::pending().await,
        Some(Fault::Redirects) => {
            let mut answer = of(302, "{}".into());
            answer.headers_mut().insert("location", "/elsewhere".parse().unwrap());
            return Ok(answer);
        }
        Some(Fault::WrongId) => {
            let object = if kind == ProviderKind::Stripe { &mut body } else { &mut body["data"] };
            object["id"] = if kind == ProviderKind::Stripe { "sub_1" } else { "1" }.into();
        }
        Some(Fault::OtherMode) => {
            let live = shared(&parts.account).live;
            match kind {
                ProviderKind::Stripe => body["livemode"] = (!live).into(),
                ProviderKind::LemonSqueezy => body["data"]["attributes"]["test_mode"] = live.into(),
            }
        }
        Some(Fault::NotJson) => return Ok(of(200, "<html>down for maintenance</html>".into())),
        Some(Fault::Gibibyte) => {
            let body = Endless { left: GIBIBYTE, sent: Arc::clone(&parts.sent) };
            return Ok(Response::new(body.boxed()));
        }
    }
    Ok(of(status, body.to_string()))
}

fn of(status: u16, body: String) -> Answer {
    let body = Full::new(Bytes::from(body)).boxed();
    let answer = Response::builder().status(status).header("content-type", "application/json");
    answer.body(body).unwrap()
}

/// True if the request has the right key. Stripe expects the key as the user name of Basic authentication, Lemon
/// Squeezy as a Bearer token.
fn is_authorized(kind: ProviderKind, request: &Request<Incoming>) -> bool {
    let header = request.headers().get("authorization").and_then(|it| it.to_str().ok());
    let expected = match kind {
        // This is `rk_test_of_the_fake_provider:` in Base64.
        ProviderKind::Stripe => "Basic cmtfdGVzdF9vZl90aGVfZmFrZV9wcm92aWRlcjo=".to_owned(),
        ProviderKind::LemonSqueezy => format!("Bearer {KEY}"),
    };
    header == Some(expected.as_str())
}

/// A long response body. It counts the bytes that were sent, and the bytes that are left.
struct Endless {
    left: u64,
    sent: Arc<AtomicU64>,
}

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        const FRAME: &[u8] = &[b'['; 16_384];
        let count = self.left.min(16_384);
        if count == 0 {
            return Poll::Ready(None);
        }
        self.left -= count;
        self.sent.fetch_add(count, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(FRAME)))))
    }
}
