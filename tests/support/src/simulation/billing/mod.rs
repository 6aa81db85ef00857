//! Random lives of subscriptions that the clock manages, seeded, over a store that fails.

pub mod broken;
pub mod executions;
pub mod invariants;
pub mod life;
pub mod plan_changes;
pub mod recorder;
pub mod twins;
pub mod world;
