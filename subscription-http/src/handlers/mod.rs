//! The routes and handlers of each area. The rules of the domain are in the core, not in a handler.

pub(crate) mod authentication;
pub(crate) mod billing;
pub(crate) mod clock;
#[cfg(feature = "console")]
pub(crate) mod console;
pub(crate) mod documents;
pub(crate) mod entitlement;
pub(crate) mod events;
pub(crate) mod me;
pub(crate) mod operations;
pub(crate) mod payments;
pub(crate) mod plans;
pub(crate) mod providers;
pub(crate) mod stats;
pub(crate) mod subscriptions;
pub(crate) mod users;
pub(crate) mod webhooks;
