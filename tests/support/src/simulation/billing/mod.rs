//! Random lives of subscriptions that the clock manages, seeded, over a store that fails.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an invariant is about some changes, whatever else there is"
)]

pub mod broken;
pub mod invariants;
pub mod life;
pub mod recorder;
pub mod twins;
pub mod world;
