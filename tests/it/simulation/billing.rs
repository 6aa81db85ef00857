//! Random lives of subscriptions that the clock manages, seeded, over a store that fails.

use std::collections::BTreeSet;

use test_support::seed::{seeds, steps};
use test_support::simulation::billing::world::BillingSimulation;

use super::in_memory;

/// 50 seeds that are the same in each run, and one that nobody has tried yet.
#[tokio::test]
async fn random_lives_by_the_clock_keep_every_invariant() {
    for seed in seeds(50) {
        let steps = u32::try_from(steps(400)).unwrap_or(u32::MAX);
        if let Err(failure) =
            BillingSimulation::over(in_memory().await, seed).await.run(steps).await
        {
            panic!("{failure}");
        }
    }
}

/// A simulation that never gets into trouble would keep every invariant as well.
#[tokio::test]
async fn random_lives_by_the_clock_meet_every_refusal() {
    let mut met = BTreeSet::new();
    for seed in 1..=24 {
        let run = BillingSimulation::over(in_memory().await, seed).await.run(800).await;
        met.extend(run.expect("a sound run"));
    }

    let expected = [
        "invalid_transition",
        "managed_by_caller",
        "managed_by_clock",
        "not_found",
        "payment_of_period",
        "payment_open",
        "store_unavailable",
        "validation_failed",
    ];
    assert_eq!(met, expected.into());
}
