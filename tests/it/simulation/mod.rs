//! Random lives over the service, seeded, with a store that fails.
//!
//! `SUBSCRIPTION_TEST_SEED=n` repeats one run, `SUBSCRIPTION_TEST_STEPS=n` makes runs longer or shorter.
//! A run of any length is sound, and one of twice as many steps takes twice as long:
//!
//!     SUBSCRIPTION_TEST_SEED=7 SUBSCRIPTION_TEST_STEPS=20000 cargo test --test it simulation

mod accounts;
mod billing;
mod providers;
mod regressions;
mod webhooks;

use std::collections::BTreeSet;
use std::sync::Arc;

use subscription_core::{MemoryStore, Store};
use test_support::seed::steps;
use test_support::simulation::broken::{Breakage, BrokenStore};
use test_support::simulation::world::ServiceSimulation;
use test_support::simulation::{actors_at_once, concurrent, random_lives};

/// How many runs look for a breakage. Whether they meet it, and which invariant it breaks first, is a
/// matter of chance.
const BREAKAGES_SEEN: u64 = 5;

async fn in_memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

#[tokio::test]
async fn random_lives_keep_every_invariant() {
    random_lives(in_memory, 3, 1_000).await;
}

/// A simulation that never gets into trouble would keep every invariant as well.
#[tokio::test]
async fn random_lives_meet_every_refusal() {
    let mut met = BTreeSet::new();
    for seed in 1..=3 {
        met.extend(ServiceSimulation::seeded(seed).run(1_000).await.expect("a sound run").met);
    }

    let expected = [
        "external_id_taken",
        "idempotency_in_progress",
        "idempotency_key_reused",
        "invalid_transition",
        "not_found",
        "overloaded",
        "payment_settled",
        "plan_in_use",
        "plan_inactive",
        "precondition_failed",
        "replay",
        "rival",
        "slug_taken",
        "store_unavailable",
        "validation_failed",
    ];
    assert_eq!(met, expected.into());
}

/// On one thread a seed repeats the order of everything, the turns of the tasks too.
#[tokio::test]
async fn actors_at_once_keep_every_invariant() {
    actors_at_once(in_memory, 6, 120).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actors_on_several_threads_keep_every_invariant() {
    actors_at_once(in_memory, 6, 120).await;
}

/// So that a run of any length can be waited for.
#[tokio::test]
async fn a_step_of_a_long_run_reads_no_more_than_one_of_a_short_run() {
    let steps = u32::try_from(steps(1_000)).unwrap();
    let short = ServiceSimulation::seeded(1).run(steps).await.expect("a sound run").read;
    let long = ServiceSimulation::seeded(1).run(2 * steps).await.expect("a sound run").read;

    assert!(long <= short * 2 * 3 / 2, "{short} records in {steps} steps, {long} in twice as many");
}

#[tokio::test]
async fn actors_at_once_find_out_a_store_that_forgets_the_answers_to_keys() {
    let breakage = Breakage::DropsAnswers;
    let store = BrokenStore { inner: MemoryStore::default(), breakage };

    let failure = concurrent::run(Arc::new(store), 1, 400).await.expect_err("a failure");

    assert_eq!(failure.broken.invariant, "a_key_has_one_record_at_a_time", "{failure}");
}

#[tokio::test]
async fn a_broken_store_is_found_out_by_the_invariant_that_it_breaks() {
    let cases = [
        (Breakage::DropsEvents, "every_change_has_one_event"),
        (Breakage::RepeatsEvents, "versions_rise_by_one"),
        (Breakage::IgnoresVersions, "answers_agree_with_the_model"),
        (Breakage::DeletesUsedPlans, "references_resolve"),
        (Breakage::DropsAnswers, "every_key_has_its_answer"),
        (Breakage::CutsPages, "lists_agree_with_reads"),
        (Breakage::DropsBlocks, "access_follows_status_time_and_block"),
        (Breakage::DropsAnchors, "renewals_lie_on_the_grid"),
        (Breakage::DropsSettled, "settled_payments_are_history"),
        (Breakage::KeepsDeletedPayments, "every_change_has_one_event"),
    ];
    for (breakage, invariant) in cases {
        let mut named = BTreeSet::new();
        for seed in 1..=BREAKAGES_SEEN {
            let store = BrokenStore { inner: MemoryStore::default(), breakage };
            let run = ServiceSimulation::over(Arc::new(store), seed).run(1_000).await;
            named.extend(run.err().map(|failure| failure.broken.invariant));
            if named.contains(invariant) {
                break;
            }
        }

        assert!(named.contains(invariant), "{breakage:?}: not {invariant} but {named:?}");
    }
}
