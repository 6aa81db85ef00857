//! The service inside an axum application, nested under a path.
//!
//!     cargo run --example embed_axum
//!
//! The application has routes of its own and nests the service under `/billing`. `/reports` is behind a paywall. This
//! example calls each route once, prints the responses, and ends.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use http_body_util::BodyExt as _;
use subscription_core::auth::{
    Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
};
use subscription_core::{MemoryStore, SubscriptionService, UserId};
use subscription_http::Api;
use tower::{ServiceExt as _, service_fn};

/// The service, and the feature that a route needs besides access.
#[derive(Clone)]
struct Paywall {
    service: SubscriptionService,
    feature: Option<&'static str>,
}

/// Middleware that lets a request pass only if the user has access, and the feature.
async fn paywall(State(wall): State<Paywall>, mut request: Request, next: Next) -> Response {
    // Your sign-in, which runs before, has stored the user in the request.
    let Some(user) = request.extensions().get::<UserId>().copied() else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let Ok(entitlement) = wall.service.entitlement(user).await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    if !entitlement.has_access() {
        return StatusCode::PAYMENT_REQUIRED.into_response();
    }
    if wall.feature.is_some_and(|feature| !entitlement.has_feature(feature)) {
        return StatusCode::FORBIDDEN.into_response();
    }
    // A handler reads it as `Extension<Entitlement>`.
    request.extensions_mut().insert(entitlement);
    next.run(request).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Keys of a real host come from its vault, and its identities from a provider.
    let service = SubscriptionService::new(MemoryStore::default());
    let keys = KeyRing::new(SigningKey::ed25519(&vec![1; 32].into())?);
    let server_keys = ServerKeys::new(1, vec![2; 32].into())?;
    let identities = Arc::new(DevelopmentIdentities);
    let auth = Authentication::builder(service.clone(), identities, keys, server_keys).build();
    let api =
        Api::builder(service.clone(), auth, vec![3; 32].into()).believe_every_client().build();

    let billing = service_fn(move |request: Request| {
        let api = api.clone();
        async move { Ok::<_, Infallible>(api.answer(request, None).await) }
    });
    let wall = Paywall { service, feature: Some("reports") };
    let app: Router = Router::new()
        .route("/reports", get(|| async { "the reports" }))
        .route_layer(from_fn_with_state(wall, paywall))
        .route("/hello", get(|| async { "hello from the host" }))
        .nest_service("/billing", billing);

    // A real application would now `axum::serve(listener, app)`.
    let ada: UserId = "8f14e45f-ceea-467f-ab3c-2d9c5b1a4e77".parse()?;
    for path in ["/hello", "/reports", "/billing/subscription-plans", "/billing/health/ready"] {
        let request = Request::get(path)
            .header("host", "localhost")
            .header("client-id", "web")
            .extension(ada)
            .body(Body::empty())?;
        let answer = app.clone().oneshot(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        println!("{path}\n  {status}\n  {}", String::from_utf8_lossy(&body));
    }
    Ok(())
}
