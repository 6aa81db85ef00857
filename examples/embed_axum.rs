//! The service inside an axum application, nested under a path.
//!
//!     cargo run --example embed_axum
//!
//! The application has a route of its own and nests the service under `/billing`. Here it calls both once,
//! prints the responses, and ends.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::get;
use http_body_util::BodyExt as _;
use subscription_core::auth::{
    Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
};
use subscription_core::{MemoryStore, SubscriptionService};
use subscription_http::Api;
use tower::{ServiceExt as _, service_fn};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Keys of a real host come from its vault, and its identities from a provider.
    let service = SubscriptionService::new(MemoryStore::default());
    let keys = KeyRing::new(SigningKey::ed25519(&vec![1; 32].into())?);
    let server_keys = ServerKeys::new(1, vec![2; 32].into())?;
    let identities = Arc::new(DevelopmentIdentities);
    let auth = Authentication::builder(service.clone(), identities, keys, server_keys).build();
    let api = Api::builder(service, auth, vec![3; 32].into()).believe_every_client().build();

    let billing = service_fn(move |request: Request| {
        let api = api.clone();
        async move { Ok::<_, Infallible>(api.answer(request, None).await) }
    });
    let app: Router = Router::new()
        .route("/hello", get(|| async { "hello from the host" }))
        .nest_service("/billing", billing);

    // A real application would now `axum::serve(listener, app)`.
    for path in ["/hello", "/billing/subscription-plans", "/billing/health/ready"] {
        let request = Request::get(path)
            .header("host", "localhost")
            .header("client-id", "web")
            .body(Body::empty())?;
        let answer = app.clone().oneshot(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        println!("{path}\n  {status}\n  {}", String::from_utf8_lossy(&body));
    }
    Ok(())
}
