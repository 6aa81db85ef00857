//! The servers that are compared, each in a process of its own.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use subscription_http::Limits;
use subscription_http::log_format::JsonLines;
use tokio::net::TcpListener;

use crate::world;

/// A server that is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server {
    /// Our server. Its log has a line of JSON for each request, and is discarded.
    Ours,
    /// Our server with the cache that is used in front of a database.
    Cached,
    /// Our server without a log.
    Silent,
    Hyper,
    Axum,
}

/// The credentials and the body that callers of a server need.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) client: String,
    pub(crate) token: String,
    /// The body of a request that creates a subscription.
    pub(crate) subscription: String,
}

/// A running server. It is killed when this value is dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
    told: Value,
}

impl Running {
    pub(crate) fn start(server: Server, body: Option<&[u8]>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = match server {
            Server::Ours => "ours",
            Server::Cached => "cached",
            Server::Silent => "silent",
            Server::Hyper => "hyper",
            Server::Axum => "axum",
        };
        command.args(["--serve", name]).stdout(Stdio::piped());
        if matches!(server, Server::Ours | Server::Cached) {
            command.stderr(Stdio::null());
        }
        if let Some(body) = body {
            command.arg(String::from_utf8(body.to_vec()).unwrap());
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let address = told["address"].as_str().unwrap().parse().unwrap();
        Self { child, address, told }
    }

    pub(crate) fn caller(&self) -> Caller {
        let text = |name: &str| self.told[name].as_str().unwrap().to_owned();
        Caller { client: text("client"), token: text("token"), subscription: text("subscription") }
    }

    /// The memory of the server in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs as one of the servers, until the process is killed.
pub(crate) fn serve(name: &str, body: Option<&String>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match name {
            "ours" => {
                start_log();
                ours(false).await;
            }
            "cached" => {
                start_log();
                ours(true).await;
            }
            "silent" => ours(false).await,
            "axum" => axum_crud().await,
            _ => hyper_static(Bytes::from(body.cloned().unwrap_or_default())).await,
        }
    });
}

pub(crate) fn start_log() {
    let log = tracing_subscriber::fmt().event_format(JsonLines);
    log.with_writer(std::io::stderr).init();
}

async fn ours(is_cached: bool) {
    let world = world::ApiWorld::with(1_000, is_cached).await;
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = subscription_http::Server::bind(world.api.clone(), address, Limits::default());
    let server = server.await.unwrap().workers(NonZeroUsize::new(2).unwrap()).unwrap();
    tell(&json!({
        "address": server.address().unwrap(),
        "client": world.client.expose_secret(),
        "token": world.token.expose_secret(),
        "subscription": world.new_subscription(),
    }));
    server.run(std::future::pending()).await;
}

/// Returns the same bytes for every request, with hyper's time-out for heads.
async fn hyper_static(body: Bytes) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    tell(&json!({ "address": listener.local_addr().unwrap() }));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let body = body.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |_| {
                let body = Full::new(body.clone());
                async move { Ok::<_, Infallible>(http::Response::new(body)) }
            });
            let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new());
            builder.serve_connection(TokioIo::new(stream), answer).await.ok();
        });
    }
}

/// Plans and subscriptions in maps of JSON, as one would write them in an afternoon.
async fn axum_crud() {
    use axum::extract::{Path, State};
    use axum::routing::{get, post};

    #[derive(Clone, Default)]
    struct Maps {
        plans: Arc<Mutex<HashMap<String, Value>>>,
        subscriptions: Arc<Mutex<HashMap<String, Value>>>,
    }

    async fn plan(State(maps): State<Maps>, Path(slug): Path<String>) -> axum::response::Response {
        use axum::response::IntoResponse as _;
        let found = maps.plans.lock().unwrap().get(&slug).cloned();
        match found {
            Some(plan) => json_answer(200, &plan),
            None => http::StatusCode::NOT_FOUND.into_response(),
        }
    }

    async fn create(State(maps): State<Maps>, body: Bytes) -> axum::response::Response {
        let mut record: Value = serde_json::from_slice(&body).unwrap();
        let id = uuid::Uuid::from_u128(u128::from(rand_u64())).to_string();
        record["id"] = json!(id);
        record["status"] = json!("active");
        let answer = json_answer(201, &record);
        maps.subscriptions.lock().unwrap().insert(id, record);
        answer
    }

    fn rand_u64() -> u64 {
        use subscription_core::Randomness as _;
        let mut bytes = [0; 8];
        subscription_core::SystemRandomness.fill(&mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn json_answer(status: u16, value: &Value) -> axum::response::Response {
        http::Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .body(axum::body::Body::from(serde_json::to_vec(value).unwrap()))
            .unwrap()
    }

    let maps = Maps::default();
    let plan_record = json!({
        "id": uuid::Uuid::nil(), "name": "Pro", "product_id": null, "variants": [], "slug": "pro",
        "price": 19.90, "href": null, "billing_cycle": "monthly", "description": "",
        "node_quota": 0, "features": "", "most_popular": false, "tier": 0, "is_active": true,
        "created_at": "2025-01-31T00:00:00Z", "updated_at": "2025-01-31T00:00:00Z", "version": 1,
    });
    maps.plans.lock().unwrap().insert("pro".to_owned(), plan_record);
    let app: axum::Router = axum::Router::new()
        .route("/subscription-plans/{slug}", get(plan))
        .route("/subscriptions", post(create))
        .with_state(maps);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    tell(&json!({ "address": listener.local_addr().unwrap() }));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let service = hyper_util::service::TowerToHyperService::new(app.clone());
        tokio::spawn(async move {
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            builder.serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}

fn tell(what: &Value) {
    println!("{what}");
}
