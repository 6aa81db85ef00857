//! Random lives of accounts and sessions, seeded, over a store that fails.
//!
//! The same as its parent for those who sign in: `SUBSCRIPTION_TEST_SEED=n` repeats one run,
//! `SUBSCRIPTION_TEST_STEPS=n` makes runs longer or shorter. Two operations of a step run at once as
//! often as one runs alone; on one thread a seed repeats their turns too.

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

/// Random accounts, in each run over a store of its own; a failure prints the seed that repeats it.
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
