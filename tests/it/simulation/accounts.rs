//! Random lives of accounts and sessions, seeded, over a store that fails.

use std::collections::BTreeSet;
use std::sync::Arc;

use subscription_core::MemoryStore;
use test_support::seed::{meet_all_states, seeds, steps};
use test_support::simulation::accounts::random_accounts;
use test_support::simulation::accounts::world::AccountSimulation;
use test_support::simulation::broken::{Breakage, BrokenStore};

use super::{BREAKAGES_SEEN, in_memory};

#[tokio::test]
async fn random_accounts_keep_every_invariant() {
    random_accounts(in_memory, 4, 400).await;
}

/// The seed that met everything last, to save the search. If it no longer does, the first twelve seeds must. A run that
/// tries many seeds goes through all of them, and nothing else may be met.
const SEED_OF_ALL: u64 = 11;

/// A simulation that never gets into trouble would keep every invariant as well.
#[tokio::test]
async fn random_accounts_meet_every_refusal() {
    let expected = BTreeSet::from([
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
    ]);

    let is_long = meet_all_states(&seeds(0));
    let mut met = BTreeSet::new();
    for seed in [SEED_OF_ALL].into_iter().chain(1..=12) {
        met.extend(AccountSimulation::seeded(seed).await.run(400).await.expect("a sound run").met);
        if !is_long && met == expected {
            break;
        }
    }

    assert_eq!(met, expected);
}

/// So that a run of any length can be waited for.
#[tokio::test]
async fn a_step_of_a_long_life_of_accounts_reads_no_more_than_one_of_a_short_life() {
    let steps = u32::try_from(steps(500)).unwrap();
    let short = AccountSimulation::seeded(1).await.run(steps).await.expect("a sound run").read;
    let long = AccountSimulation::seeded(1).await.run(2 * steps).await.expect("a sound run").read;

    assert!(long <= short * 2 * 3 / 2, "{short} records in {steps} steps, {long} in twice as many");
}

#[tokio::test]
async fn a_store_that_breaks_accounts_is_found_out_by_the_invariant_that_it_breaks() {
    let cases = [
        (Breakage::DropsRevocations, "every_revocation_has_one_event"),
        (Breakage::LosesLogouts, "ended_sessions_stay_ended"),
        (Breakage::IgnoresVersions, "versions_rise_by_one"),
        (Breakage::IgnoresGuards, "deleted_users_leave_nothing"),
        (Breakage::DropsEvents, "every_change_has_one_event"),
    ];
    for (breakage, invariant) in cases {
        let mut named = BTreeSet::new();
        for seed in 1..=BREAKAGES_SEEN {
            let store = BrokenStore { inner: MemoryStore::default(), breakage };
            let run = AccountSimulation::over(Arc::new(store), seed).await.run(2_000).await;
            named.extend(run.err().map(|failure| failure.broken.invariant));
            if named.contains(invariant) {
                break;
            }
        }

        assert!(named.contains(invariant), "{breakage:?}: not {invariant} but {named:?}");
    }
}
