//! Payment providers: their webhooks, the mapping of their objects, and reading them over real sockets.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

mod allowance;
mod engine;
mod http_api;
mod lemon_squeezy;
mod lemon_squeezy_money;
mod lemon_squeezy_webhooks;
mod signatures;
mod stripe;
