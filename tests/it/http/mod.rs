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
mod discounts;
mod documented;
mod endpoints;
mod entitlement;
mod errors;
mod events;
mod failing_store;
mod forwarded;
mod hosts;
mod lists;
mod matrix;
mod me;
mod metadata;
mod mutations;
mod old_quotes;
mod openapi;
mod pages;
mod payments;
mod plan_changes;
mod plans;
mod portal;
mod provider;
mod providers;
mod rates;
mod refunds;
mod request_heads;
mod routes;
mod sample_records;
mod snapshots;
mod stats;
mod subscriptions;
mod users;
mod verbs;
mod webhooks;
pub(crate) mod world;
