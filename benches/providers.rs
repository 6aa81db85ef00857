//! How fast webhooks of a payment provider are received, and how fast they are applied.
//!
//! `cargo bench --bench providers` sends signed webhooks to a server over SQLite, each about another subscription, over
//! 64 connections, each of which waits for its response; `EVENTS=30000` is the number of webhooks. Then the events are
//! applied against a provider on loopback, over real HTTP, without our rate limits. The bench checks that every
//! subscription was created.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench that fails panics, and it prints its result"
)]
#![expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "rates, not money")]

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use sha2::Sha256;
use subscription_core::auth::{
    Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
};
use subscription_core::providers::{
    EventFilter, EventState, HttpProviderApi, ProviderAccount, ProviderKind, Providers,
};
use subscription_core::store::{CacheInvalidator, CachedStore, PageLimit, SqliteOptions};
use subscription_core::{Clock as _, NewPlan, SubscriptionService, SystemClock};
use subscription_http::{
    Api, FetchSettings, HttpFetch, JobSignal, Limits, ProviderMetrics, Server,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const SECRET: &str = "whsec_0123456789abcdef";
const CONNECTIONS: usize = 64;
const USER: &str = "01933b6e-9b01-7d2a-a1c4-5e8f60718293";

#[tokio::main]
async fn main() {
    // `cargo test --benches` only checks that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let events = std::env::var("EVENTS").map_or(30_000, |text| text.parse().unwrap());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("providers");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();
    let store = SqliteOptions::file(folder.join("events.db")).open().await.unwrap();
    let store = CachedStore::new(store, CacheInvalidator::LAG);
    let service = SubscriptionService::new(Arc::new(store));
    let plan = br#"{"name":"Pro","slug":"pro","price":19.90,"billing_cycle":"monthly","variants":["price_1"]}"#;
    service.create_plan(NewPlan::from_json(plan).unwrap()).await.unwrap();
    let providers = providers(&service).await;
    let address = serve(&service, &providers).await;

    println!("| what | events | per second | goal | p50 ms | p99 ms | goal |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let begun = Instant::now();
    let mut times = send(address, events).await;
    let rate = events as f64 / begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1_000.0;
    println!("| taken in | {events} | {rate:.0} | 3000 | {:.1} | {:.1} | 50 |", at(50), at(99));

    let begun = Instant::now();
    while providers.advance(1_000).await.unwrap().more {}
    let rate = events as f64 / begun.elapsed().as_secs_f64();
    println!("| applied | {events} | {rate:.0} | 1500 | | | |");
    let applied = providers.counters().values().next().map_or(0, |counters| {
        let counts = counters.events.iter();
        counts.filter(|(status, _)| status.state == EventState::Applied).map(|(_, n)| n).sum()
    });
    assert_eq!(applied, events as u64, "events were not applied");
    let open = EventFilter::default().with_state(EventState::Pending);
    let open = providers.events(&open, None, PageLimit::MAX).await.unwrap();
    assert!(open.items.is_empty(), "events are left");
}

/// A provider on loopback whose API is read without limits.
async fn providers(service: &SubscriptionService) -> Providers {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let answer = service_fn(async |request: http::Request<_>| {
                    Ok::<_, Infallible>(http::Response::new(Full::new(object(
                        request.uri().path(),
                    ))))
                });
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                builder.serve_connection(TokioIo::new(stream), answer).await.ok();
            });
        }
    });
    let fetch = Arc::new(HttpFetch::new(&FetchSettings::default()).unwrap());
    let api = HttpProviderApi::new(ProviderKind::Stripe, "rk_test_0123".into(), fetch);
    let api = Arc::new(api.with_base(&base));
    let name = "stripe".parse().unwrap();
    let source = ProviderAccount::new(name, ProviderKind::Stripe, vec![SECRET.into()], api)
        .with_any_user(true)
        .with_limited(false);
    Providers::new(service.clone(), vec![source])
}

/// The subscription at a path of Stripe's API.
fn object(path: &str) -> Bytes {
    let id = path.rsplit('/').next().unwrap_or_default();
    let price = json!({
        "id": "price_1", "product": "prod_1", "unit_amount": 1_990, "currency": "usd",
        "recurring": { "interval": "month", "interval_count": 1 },
    });
    let subscription = json!({
        "id": id, "livemode": false, "customer": format!("cus_{id}"), "status": "active",
        "metadata": { "user_id": USER }, "start_date": 1_767_225_600, "created": 1_767_225_600,
        "cancel_at_period_end": false, "cancel_at": null, "pause_collection": null,
        "items": { "data": [{
            "price": price, "quantity": 1,
            "current_period_start": 1_767_225_600, "current_period_end": 1_769_904_000,
        }] },
    });
    subscription.to_string().into()
}

/// Serves the routes of the providers, with a worker for each of two cores.
async fn serve(service: &SubscriptionService, providers: &Providers) -> SocketAddr {
    let keys = KeyRing::new(SigningKey::ed25519(&vec![1; 32].into()).unwrap());
    let server_keys = ServerKeys::new(1, vec![2; 32].into()).unwrap();
    let verifier = Arc::new(DevelopmentIdentities);
    let auth = Authentication::builder(service.clone(), verifier, keys, server_keys).build();
    let (signal, metrics) = (JobSignal::default(), ProviderMetrics::default());
    let api = Api::builder(service.clone(), auth, vec![3; 32].into())
        .providers(providers.clone(), &signal, &metrics)
        .build();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(api, address, Limits::default()).await.unwrap();
    let server = server.workers(NonZeroUsize::new(2).unwrap()).unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// Sends `events` webhooks, and returns how long each response took.
async fn send(address: SocketAddr, events: usize) -> Vec<Duration> {
    let mut tasks = JoinSet::new();
    for first in 0..CONNECTIONS {
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (mut times, mut read) = (Vec::new(), vec![0; 4_096]);
            for nth in (first..events).step_by(CONNECTIONS) {
                let request = webhook(nth);
                let begun = Instant::now();
                stream.write_all(&request).await.unwrap();
                // The response is short, and arrives in one piece.
                let length = stream.read(&mut read).await.unwrap();
                times.push(begun.elapsed());
                let answer = String::from_utf8_lossy(&read[..length]);
                assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                assert!(answer.ends_with("{\"received\":true}"), "{answer}");
            }
            times
        });
    }
    let mut times = Vec::with_capacity(events);
    while let Some(done) = tasks.join_next().await {
        times.extend(done.unwrap());
    }
    times
}

/// A signed webhook about a subscription of its own. The rest of the payload is as large as Stripe's.
fn webhook(nth: usize) -> Vec<u8> {
    let filling = "x".repeat(2_000);
    let body = json!({
        "id": format!("evt_{nth}"), "type": "customer.subscription.updated", "livemode": false,
        "data": { "object": { "id": format!("sub_{nth}"), "filling": filling } },
    });
    let (body, now) = (body.to_string(), SystemClock.now().micros() / 1_000_000);
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{now}.{body}").as_bytes());
    let mac = mac.finalize().into_bytes();
    let mac = mac.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    let head = format!(
        "POST /provider-webhooks/stripe HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         stripe-signature: t={now},v1={mac}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head, body].concat().into_bytes()
}
