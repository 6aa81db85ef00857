//! The simulation of accounts and sessions: random operations from a seed, over a store that fails at random.
//!
//! As in the parent module, `SUBSCRIPTION_TEST_SEED=n` repeats one run, and `SUBSCRIPTION_TEST_STEPS=n` sets the number
//! of steps. In many steps two operations run at the same time. They share one thread, so a seed also repeats the order
//! in which they are polled.

pub mod actors;
pub mod honest;
pub mod invariants;
pub mod model;
pub mod operation;
pub mod snapshot;
pub mod world;

use std::sync::Arc;

use subscription_core::Store;

use self::world::AccountSimulation;
use super::steps;
use crate::seed::seeds;

/// Runs the simulation of accounts, each run over a store of its own. A failure prints the seed that repeats the run.
pub async fn random_accounts<F: Future<Output = Arc<dyn Store>>>(
    open: impl Fn() -> F,
    fixed: u64,
    by_default: u32,
) {
    for seed in seeds(fixed) {
        if let Err(failure) =
            AccountSimulation::over(open().await, seed).await.run(steps(by_default)).await
        {
            panic!("{failure}");
        }
    }
}
