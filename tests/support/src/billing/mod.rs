//! One subscription that the clock bills, driven by the pure rules alone, and the invariants of its life.

pub mod invariants;
pub mod life;
pub mod plan_races;
pub mod plan_use;
pub mod product_changes;
pub mod races;

pub use life::{By, Life, Write, days, hours};
