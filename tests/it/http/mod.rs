//! The API without a socket: requests in, answers out, against the contract.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

mod authentication;
mod billing;
mod billing_fields;
mod checkout;
mod clock;
mod conditions;
mod console;
mod console_actions;
mod cors;
mod deletions;
mod documented;
mod endpoints;
mod entitlement;
mod errors;
mod events;
mod forwarded;
mod hosts;
mod household;
mod lists;
mod matrix;
mod me;
mod metadata;
mod moods;
mod mutations;
mod old_quotes;
mod openapi;
mod pages;
mod payments;
mod plan_changes;
mod plans;
mod provider;
mod providers;
mod rates;
mod refunds;
mod request_heads;
mod routes;
mod stats;
mod subscriptions;
mod users;
mod verbs;
mod webhooks;
pub(crate) mod world;
mod written;
