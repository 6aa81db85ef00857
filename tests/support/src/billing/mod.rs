//! Tests of billing: a subscription that is changed only by the rules of billing, without a service, the invariants of
//! its life, and races over a store.

pub mod amounts;
pub mod invariants;
pub mod life;
pub mod plan_races;
pub mod plan_use;
pub mod product_changes;
pub mod races;

pub use life::{By, Life, Write, days, hours};
