//! The pure rules of webhooks: signatures, retries, the order of events, addresses.

pub(crate) mod managed;
