//! Random lives of subscriptions that the clock manages, seeded, over a store that fails.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an invariant is about some changes, whatever else there is"
)]

pub mod invariants;
pub mod life;
pub mod recorder;
pub mod world;

#[cfg(test)]
#[tokio::test]
async fn quick() {
    use std::sync::Arc;
    let mut seen = std::collections::BTreeSet::new();
    for seed in crate::seed::seeds(50) {
        let store = Arc::new(subscription_core::MemoryStore::default());
        let steps = u32::try_from(crate::seed::steps(400)).unwrap_or(u32::MAX);
        if let Err(failure) = world::BillingSimulation::over(store, seed).await.run(steps).await {
            if seen.insert(failure.broken.invariant) {
                println!("{failure}");
            }
        }
    }
    assert!(seen.is_empty(), "{seen:?}");
}
