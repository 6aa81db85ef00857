//! Webhooks: the pure rules (signatures, retries, the order of events, addresses), and the calls that manage endpoints.

mod addresses;
mod breaker;
pub(crate) mod managed;
mod schedule;
mod signatures;
mod window;
