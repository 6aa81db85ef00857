//! Webhooks: the pure rules (signatures, retries, the order of events, addresses), the calls that manage endpoints, and
//! sending.

mod addresses;
mod breaker;
pub(crate) mod managed;
mod promise;
mod schedule;
mod sending;
mod signatures;
mod window;
