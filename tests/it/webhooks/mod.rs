//! The pure rules of webhooks: signatures, retries, the order of events, addresses.

mod addresses;
mod breaker;
mod schedule;
mod signatures;
mod window;
