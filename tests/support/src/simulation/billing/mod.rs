//! The simulation of billing: random lives of subscriptions that the clock manages, from a seed, over a store that
//! fails at random.

pub mod broken;
mod discounts;
pub mod executions;
pub mod invariants;
pub mod life;
mod people;
pub mod plan_changes;
pub mod recorder;
pub mod twins;
pub mod world;
