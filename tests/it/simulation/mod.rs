//! Random lives over the service, seeded, with a store that fails.
//!
//! `SIMULATION_SEED=n` repeats one run, `SIMULATION_STEPS=n` makes runs longer or shorter:
//!
//!     SIMULATION_SEED=7 SIMULATION_STEPS=20000 cargo test --test it simulation

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a simulation that fails panics")]
#![expect(clippy::print_stdout, reason = "a failing test shows its fresh seed")]

pub(crate) mod accounts;
mod actors;
mod broken;
mod concurrent;
mod faults;
mod invariants;
mod model;
mod operation;
mod regressions;
mod rng;
mod snapshot;
mod world;

use std::collections::BTreeSet;
use std::env;
use std::sync::Arc;

use subscription_core::{IdSource, MemoryStore, RandomIds, Store};

use self::broken::{Breakage, BrokenStore};
use self::world::World;

/// Always the same few, and one that nobody has tried yet.
fn seeds(fixed: u64) -> Vec<u64> {
    if let Some(seed) = number("SIMULATION_SEED") {
        return vec![seed];
    }
    let mut fresh = [0; 8];
    RandomIds.fill(&mut fresh).expect("the machine has randomness");
    let fresh = u64::from_le_bytes(fresh) >> 16;
    println!("the fresh seed is {fresh}");
    (1..=fixed).chain([fresh]).collect()
}

fn steps(by_default: u32) -> u32 {
    let steps = number("SIMULATION_STEPS").and_then(|steps| u32::try_from(steps).ok());
    steps.unwrap_or(by_default)
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text}")))
}

/// Random lives, each over a store of its own; a failure prints the seed that repeats it.
pub(crate) async fn random_lives<F: Future<Output = Arc<dyn Store>>>(
    open: impl Fn() -> F,
    fixed: u64,
    by_default: u32,
) {
    for seed in seeds(fixed) {
        if let Err(failure) = World::over(open().await, seed).run(steps(by_default)).await {
            panic!("{failure}");
        }
    }
}

/// Actors that run at once, in each run over a store of its own.
pub(crate) async fn actors_at_once<F: Future<Output = Arc<dyn Store>>>(
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

async fn in_memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

#[tokio::test]
async fn random_lives_keep_every_invariant() {
    random_lives(in_memory, 12, 1_000).await;
}

/// A simulation that never gets into trouble would keep every invariant as well.
#[tokio::test]
async fn random_lives_meet_every_refusal() {
    let mut met = BTreeSet::new();
    for seed in 1..=3 {
        met.extend(World::seeded(seed).run(1_000).await.expect("a sound run"));
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
    actors_at_once(in_memory, 12, 120).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actors_on_several_threads_keep_every_invariant() {
    actors_at_once(in_memory, 12, 120).await;
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
        let store = BrokenStore { inner: MemoryStore::default(), breakage };

        let failure = World::over(Arc::new(store), 1).run(1_000).await.expect_err("a failure");

        assert_eq!(failure.broken.invariant, invariant, "{breakage:?}: {failure}");
    }
}
