//! Billing: subscriptions that start, renew, become past due, recover, pause and end by the clock.
//!
//! The rules are pure functions, with the time as an argument. The service calls them through [`BillingRules`], for
//! creates, updates, verbs and reports of payments.

mod advanced;
mod changes;
mod charge;
mod collection;
mod creation;
mod due;
mod due_page;
mod outcome;
mod periods;
mod plan_changes;
mod policy;
mod proration;
mod rules;
mod runner;
mod steps;
mod verbs;

pub use advanced::Advanced;
pub use collection::retry;
pub use due::next_action_at;
pub use policy::{Activation, AfterDunning, Dunning, Policy};
pub use proration::{change_plan, quote};
pub use rules::BillingRules;
pub use runner::{Billing, Upcoming};
pub use steps::{step, steps};
