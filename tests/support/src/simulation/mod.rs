//! Simulations: random operations from a seed, on a service over a store that fails at random.
//!
//! `SUBSCRIPTION_TEST_SEED=n` repeats one run. `SUBSCRIPTION_TEST_STEPS=n` sets the number of steps. A run may have any
//! length, and its time grows in proportion to the number of steps:
//!
//! ```sh
//! SUBSCRIPTION_TEST_SEED=7 SUBSCRIPTION_TEST_STEPS=20000 cargo test --test it simulation
//! ```

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a simulation that fails panics")]

pub mod accounts;
pub mod actors;
pub mod billing;
pub mod broken;
pub mod concurrent;
pub mod faults;
pub mod feed;
pub mod invariants;
pub mod model;
pub mod operation;
pub mod providers;
pub mod snapshot;
pub mod verdict;
pub mod webhooks;
mod worker_store;
pub mod world;

use std::sync::Arc;

use subscription_core::Store;

use self::world::ServiceSimulation;
use crate::seed::seeds;

fn steps(by_default: u32) -> u32 {
    u32::try_from(crate::seed::steps(by_default.into())).unwrap_or(u32::MAX)
}

/// Runs random operations, each run over a store of its own. A failure prints the seed that repeats the run.
pub async fn random_lives<F: Future<Output = Arc<dyn Store>>>(
    open: impl Fn() -> F,
    fixed: u64,
    by_default: u32,
) {
    for seed in seeds(fixed) {
        if let Err(failure) =
            ServiceSimulation::over(open().await, seed).run(steps(by_default)).await
        {
            panic!("{failure}");
        }
    }
}

/// Runs actors at the same time, each run over a store of its own.
pub async fn actors_at_once<F: Future<Output = Arc<dyn Store>>>(
    open: impl Fn() -> F,
    fixed: u64,
    by_default: u32,
) {
    for seed in seeds(fixed) {
        if let Err(failure) = concurrent::run(open().await, seed, steps(by_default)).await {
            panic!("{failure}");
        }
    }
}
