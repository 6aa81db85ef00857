//! Whole requests without a socket: path, query, cursors, tokens, headers, body.
//!
//! The first line is the method and the target, the lines up to an empty one are headers, the rest is
//! the body. Nothing panics, nothing is the server's fault, and what is refused is problem+json.

#![no_main]

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use libfuzzer_sys::fuzz_target;
use subscription_core::auth::{
    Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
};
use subscription_core::{ManualClock, MemoryStore, SeededRandomness, SubscriptionService};
use subscription_http::Api;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
});

fn api() -> Api {
    let clock = ManualClock::at("2025-01-31T00:00:00Z".parse().expect("a time"));
    let service = SubscriptionService::builder(MemoryStore::default())
        .clock(clock)
        .randomness(SeededRandomness::new(1))
        .build();
    let keys = KeyRing::new(SigningKey::ed25519(&vec![1; 32].into()).expect("a key"));
    let server_keys = ServerKeys::new(1, vec![2; 32].into()).expect("a key");
    let identities = Arc::new(DevelopmentIdentities);
    let auth = Authentication::builder(service.clone(), identities, keys, server_keys).build();
    Api::builder(service, auth, vec![3; 32].into()).believe_every_client().build()
}

/// The request, if hyper would hand it over.
fn request(data: &[u8]) -> Option<Request<Full<Bytes>>> {
    let (head, body) = match data.windows(2).position(|two| two == b"\n\n") {
        Some(end) => (&data[..end], &data[end + 2..]),
        None => (data, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut first = lines.next()?.splitn(2, |byte| *byte == b' ');
    let (method, target) = (first.next()?, first.next()?);
    let mut request = Request::builder().method(method).uri(target);
    request = request.header("host", "localhost").header("client-id", "web");
    for line in lines {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        request = request.header(parts.next()?, parts.next()?);
    }
    request.body(Full::new(Bytes::copy_from_slice(body))).ok()
}

fuzz_target!(|data: &[u8]| {
    let Some(request) = request(data) else { return };
    let (head, body) = RUNTIME.block_on(async {
        let (head, body) = api().answer(request, None).await.into_parts();
        (head, body.collect().await.expect("a body").to_bytes())
    });
    assert!(head.status.as_u16() < 500, "{head:?} {body:?}");
    if head.status.is_client_error() && !body.is_empty() {
        assert_eq!(head.headers["content-type"], "application/problem+json");
        let told: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(told["status"], head.status.as_u16());
        assert!(told["code"].is_string());
    }
});
