//! The workspace's tests: behaviour, told through the public face.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod access;
mod auth;
mod billing;
mod checkout;
mod cycles;
mod decimals;
mod deliver;
mod entitlement;
mod events;
mod fetch;
mod fields;
mod figures;
mod http;
mod idempotency;
mod inputs;
mod logs;
mod metadata;
mod observe;
mod payments;
mod periods;
mod plans;
mod provider_guide;
mod providers;
mod races;
mod simulation;
mod stores;
mod subscriptions;
mod transitions;
mod values;
mod verbs;
mod webhooks;
mod wire;
