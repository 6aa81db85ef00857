//! The subscription service over HTTP, on bare hyper.
//!
//! [`Api`] is the whole server without a socket: a request in, an answer out. Mount it wherever
//! requests come from. [`Server`] puts it on a socket, with limits, time-outs and a graceful stop; the
//! binary `subscription-http` is that with a few flags.
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
//! let service = SubscriptionService::new(Arc::new(MemoryStore::default()));
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
//! One static table of routes: what is found, what a path allows, what a log line and a metric call a
//! request all come from it, and no route can be written without saying what it needs. What hyper lets
//! through and the contract does not is refused before anything else looks at it. Handlers hold no rule
//! of the domain; one place maps an error's kind to its status, and every error is `problem+json`.
//!
//! # Features
//!
//! | feature | brings |
//! | --- | --- |
//! | `program` | the binary, with both databases; on by default, and nothing that a library needs |

mod api;
mod handlers;
mod http_client;
mod metrics;
mod openapi;
mod server;

pub use api::Api;
pub use api::hosts::{AllowedHost, BadHost};
pub use api::rate::{Quota, RateLimits};
pub use api::routes::Needs;
pub use api::state::{ApiBuilder, Timeouts};
pub use http_client::{FetchSettings, HttpFetch};
pub use metrics::StoreMetrics;
pub use openapi::openapi_json;
pub use server::{Limits, Server};

// For the program, and for benches that compare it with others.
#[cfg(feature = "program")]
#[doc(hidden)]
pub mod log_format;

/// The code in the guides is compiled and run as well.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../docs/embed.md")]
    struct Embed;
    #[doc = include_str!("../../docs/users.md")]
    struct Users;
    #[doc = include_str!("../../docs/write-a-store.md")]
    struct WriteAStore;
}
