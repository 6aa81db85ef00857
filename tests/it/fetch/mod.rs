//! Requests to identity providers over real sockets.

mod bad;
mod oidc;
mod provider;
mod tls;
