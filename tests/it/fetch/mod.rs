//! Identity providers on real sockets, good and bad.

mod bad;
mod oidc;
mod provider;
mod tls;
