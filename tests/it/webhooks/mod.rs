//! Webhooks: the calls that manage endpoints, and sending.

pub(crate) mod managed;
mod sending;
