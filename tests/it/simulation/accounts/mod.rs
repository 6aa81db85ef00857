//! Random lives of accounts and sessions, seeded, over a store that fails.
//!
//! The same as its parent for those who sign in: `SIMULATION_SEED=n` repeats one run,
//! `SIMULATION_STEPS=n` makes runs longer or shorter. Two operations of a step run at once as often as
//! one runs alone; on one thread a seed repeats their turns too.

mod actors;
mod honest;
mod invariants;
mod model;
mod operation;
mod snapshot;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use subscription_core::{MemoryStore, Store};

use self::world::World;
use super::broken::{Breakage, BrokenStore};
use super::{in_memory, seeds, steps};

/// Random accounts, in each run over a store of its own; a failure prints the seed that repeats it.
pub(crate) async fn random_accounts<F: Future<Output = Arc<dyn Store>>>(
    open: impl Fn() -> F,
    fixed: u64,
    by_default: u32,
) {
    for seed in seeds(fixed) {
        if let Err(failure) = World::over(open().await, seed).await.run(steps(by_default)).await {
            panic!("{failure}");
        }
    }
}

#[tokio::test]
async fn random_accounts_keep_every_invariant() {
    random_accounts(in_memory, 8, 400).await;
}

/// A simulation that never gets into trouble would keep every invariant as well.
#[tokio::test]
async fn random_accounts_meet_every_refusal() {
    let mut met = BTreeSet::new();
    for seed in 1..=4 {
        met.extend(World::seeded(seed).await.run(400).await.expect("a sound run"));
    }

    let expected = [
        "account_exists",
        "account_not_found",
        "client_exists",
        "client_revoked",
        "email_in_use",
        "email_mismatch",
        "email_not_verified",
        "not_found",
        "overloaded",
        "recovery",
        "refresh_token_invalid",
        "refresh_token_reused",
        "session_expired",
        "session_revoked",
        "store_unavailable",
        "token_expired",
        "token_invalid",
        "validation_failed",
    ];
    assert_eq!(met, expected.into());
}

#[tokio::test]
async fn a_store_that_breaks_accounts_is_found_out_by_the_invariant_that_it_breaks() {
    let cases = [
        (Breakage::DropsRevocations, "every_revocation_has_one_event"),
        (Breakage::LosesLogouts, "ended_sessions_stay_ended"),
        (Breakage::IgnoresVersions, "live_sessions_keep_to_the_cap"),
        (Breakage::IgnoresGuards, "deleted_users_leave_nothing"),
        (Breakage::DropsEvents, "every_revocation_has_one_event"),
    ];
    for (breakage, invariant) in cases {
        let store = BrokenStore { inner: MemoryStore::default(), breakage };

        let world = World::over(Arc::new(store), 1).await;
        let failure = world.run(2_000).await.expect_err("a failure");

        assert_eq!(failure.broken.invariant, invariant, "{breakage:?}: {failure}");
    }
}
