//! Requests to identity providers over real sockets.

mod bad;
mod oidc;
pub(crate) mod provider;
mod tls;
