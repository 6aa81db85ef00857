//! The cost of a response without a socket, by endpoint: with all checks, limits and metrics of production, over a
//! store in memory.
//!
//! `cargo bench --bench answers` measures the times. `benches/instructions` counts the instructions of the processor,
//! which are the same on every run, however busy the machine is.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench that fails panics")]

mod world;

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use criterion::Criterion;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::world::ApiWorld;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A request that can be sent again and again.
struct Endpoint {
    name: &'static str,
    method: Method,
    path: String,
    body: String,
    status: StatusCode,
}

impl Endpoint {
    fn new(name: &'static str, method: Method, path: impl Into<String>) -> Self {
        Self { name, method, path: path.into(), body: String::new(), status: StatusCode::OK }
    }

    fn sends(mut self, body: impl Into<String>, status: StatusCode) -> Self {
        self.body = body.into();
        self.status = status;
        self
    }

    fn request(&self, world: &ApiWorld) -> Request<Full<Bytes>> {
        Request::builder()
            .method(&self.method)
            .uri(&self.path)
            .header("host", "localhost")
            .header("client-id", world.client.expose_secret())
            .header("authorization", format!("Bearer {}", world.token.expose_secret()))
            .header("content-type", "application/json")
            .body(Full::from(self.body.clone()))
            .unwrap()
    }

    async fn ask(&self, world: &ApiWorld) -> Response<Full<Bytes>> {
        let answer = world.api.answer(self.request(world), Some(PEER)).await;
        assert_eq!(answer.status(), self.status, "{}", self.name);
        answer
    }
}

async fn made(world: &ApiWorld, path: &str, body: String) -> Value {
    let endpoint = Endpoint::new("", Method::POST, path).sends(body, StatusCode::CREATED);
    let body = endpoint.ask(world).await.into_body().collect().await.unwrap();
    serde_json::from_slice(&body.to_bytes()).unwrap()
}

/// The endpoints that accept the same request again and again. A second delete would be refused, so deletes are left
/// out.
async fn endpoints(world: &ApiWorld) -> Vec<Endpoint> {
    let subscription = made(world, "/subscriptions", world.new_subscription()).await;
    let subscription = subscription["id"].as_str().unwrap();
    let payment = json!({ "subscription_id": subscription, "amount": 19.90, "currency": "EUR" });
    let payment = payment.to_string();
    let paid = made(world, "/subscription-payments", payment.clone()).await;
    let paid = paid["id"].as_str().unwrap();
    let billed = json!({ "name": "Billed", "slug": "billed", "price": 19.90, "currency": "EUR",
        "billing_cycle": "monthly" });
    let billed = made(world, "/subscription-plans", billed.to_string()).await;
    let billed = json!({ "user_id": world.user, "subscription_plan_id": billed["id"],
        "status": "active" });
    let billed = made(world, "/subscriptions", billed.to_string()).await;
    let billed = billed["id"].as_str().unwrap();
    let created = StatusCode::CREATED;
    let sign_in = r#"{"access_token":"any","email":"ada@example.com"}"#;
    vec![
        Endpoint::new("a plan", Method::GET, "/subscription-plans/pro"),
        Endpoint::new("a subscription", Method::GET, format!("/subscriptions/{subscription}")),
        Endpoint::new("a page of 50", Method::GET, "/subscriptions?limit=50"),
        Endpoint::new("user-logged-in", Method::POST, "/authentication/user-logged-in"),
        Endpoint::new("a new subscription", Method::POST, "/subscriptions")
            .sends(world.new_subscription(), created),
        Endpoint::new("a new payment", Method::POST, "/subscription-payments")
            .sends(payment, created),
        Endpoint::new("a payment", Method::GET, format!("/subscription-payments/{paid}")),
        Endpoint::new("plans", Method::GET, "/subscription-plans"),
        Endpoint::new("a plan changed", Method::PUT, "/subscription-plans/pro")
            .sends(r#"{"price":19.90}"#, StatusCode::OK),
        Endpoint::new(
            "a subscription changed",
            Method::PUT,
            format!("/subscriptions/{subscription}"),
        )
        .sends(r#"{"status":"active"}"#, StatusCode::OK),
        Endpoint::new(
            "a preview of a plan change",
            Method::POST,
            format!("/subscriptions/{billed}/change-plan/preview"),
        )
        .sends(r#"{"quantity":2}"#, StatusCode::OK),
        Endpoint::new("sign-in", Method::POST, "/authentication/sign-in")
            .sends(sign_in, StatusCode::OK),
        Endpoint::new("tokens", Method::GET, "/authentication/tokens"),
        Endpoint::new("liveness", Method::GET, "/health/live"),
    ]
}

fn times(runtime: &Runtime, world: &ApiWorld, endpoints: &[Endpoint]) {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("answer");
    for endpoint in endpoints {
        group.bench_function(endpoint.name, |b| {
            b.iter(|| black_box(runtime.block_on(endpoint.ask(world))));
        });
    }
    group.finish();
    criterion.final_summary();
}

/// Sends the request of one endpoint `times` times and does nothing else, so that a tool outside can count
/// instructions.
fn count(runtime: &Runtime, world: &ApiWorld, endpoints: &[Endpoint], name: &str, times: usize) {
    let endpoint = endpoints.iter().find(|endpoint| endpoint.name == name);
    runtime.block_on(async {
        for _ in 0..times {
            match endpoint {
                Some(endpoint) => drop(black_box(endpoint.ask(world).await)),
                // For another name the request is only made, not sent: this is the cost to subtract.
                None => drop(black_box(endpoints.first().map(|first| first.request(world)))),
            }
        }
    });
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(ApiWorld::with(1_000, false));
    let endpoints = runtime.block_on(endpoints(&world));
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "--count", name, often, ..] => {
            count(&runtime, &world, &endpoints, name, often.parse().unwrap());
        }
        _ => times(&runtime, &world, &endpoints),
    }
}
