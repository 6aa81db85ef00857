//! The subscription service over HTTP, on hyper without a web framework.
//!
//! [`Api`] is the whole API without a socket: it takes a request and returns a response. Use it with any source of
//! requests. [`Server`] serves it on a socket, with limits, time-outs and a graceful stop. The binary
//! `subscription-http` runs a [`Server`] with settings from flags, the environment and a file.
//!
//! ```
//! use std::sync::Arc;
//! use http_body_util::Full;
//! use subscription_core::auth::{
//!     Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
//! };
//! use subscription_core::{MemoryStore, SubscriptionService};
//! use subscription_http::Api;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = SubscriptionService::new(MemoryStore::default());
//! let keys = KeyRing::new(SigningKey::ed25519(&vec![1; 32].into())?);
//! let server_keys = ServerKeys::new(1, vec![2; 32].into())?;
//! let identities = Arc::new(DevelopmentIdentities);
//! let auth = Authentication::builder(service.clone(), identities, keys, server_keys).build();
//! let api = Api::builder(service, auth, vec![3; 32].into()).believe_every_client().build();
//!
//! let request = http::Request::get("/subscription-plans")
//!     .header("host", "localhost")
//!     .header("client-id", "web")
//!     .body(Full::<bytes::Bytes>::default())?;
//! let answer = api.answer(request, None).await;
//! assert_eq!(answer.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! # How it is built
//!
//! One static table of routes defines the credential, the body and the rate limit of each route. Routing, logs,
//! metrics and the OpenAPI document read this table. The head of a request is checked before the request is routed.
//! Handlers contain no rule of the domain. One place maps the kind of an error to its status, and every error is
//! `problem+json`.
//!
//! # Features
//!
//! | feature | brings |
//! | --- | --- |
//! | `console` | the console, a web page for operators: its files, `ApiBuilder::console` and its routes |
//! | `program` | the binary, both SQL stores and the console; on by default, disable it to use only the library |

mod api;
#[cfg(feature = "console")]
mod console;
mod handlers;
mod http_client;
mod metrics;
mod openapi;
mod server;

pub use api::Api;
pub use api::admission::hosts::{AllowedHost, BadHost};
pub use api::admission::rate::{Quota, RateLimits};
pub use api::admission::self_service::SelfService;
pub use api::routes::ApiPart;
pub use api::state::{ApiBuilder, Timeouts};
pub use api::waiting::job_signal::JobSignal;
pub use api::waiting::long_polls::{EventListener, EventSignal};
pub use api::waiting::turned_clock::{Advanced, PaymentReports, TurnedClock};
pub use http_client::{
    DeliverSettings, FetchSettings, HttpDeliver, HttpFetch, ResolveName, SystemNames,
};
pub use metrics::{ClockMetrics, ProviderMetrics, StoreMetrics};
pub use openapi::{openapi_json, openapi_json_for};
pub use server::{Limits, Server, WorkerThreads};

/// An error of any type. It can come from reading a request body or from a call to another server, or it can report a
/// bug.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

// This module is public because the program uses it, and also benches whose servers log in the same format.
#[cfg(feature = "program")]
#[doc(hidden)]
pub mod log_format;

/// Compiles and runs the code in the guides.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../docs/billing.md")]
    struct Billing;
    #[doc = include_str!("../../docs/embed.md")]
    struct Embed;
    #[doc = include_str!("../../docs/paywall.md")]
    struct Paywall;
    #[doc = include_str!("../../docs/users.md")]
    struct Users;
    #[doc = include_str!("../../docs/write-a-store.md")]
    struct WriteAStore;
}
