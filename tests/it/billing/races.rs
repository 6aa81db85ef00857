//! The clock against those who use the service, in memory.

use std::sync::Arc;

use subscription_core::{MemoryStore, Store};
use test_support::billing::{plan_races, races};
use test_support::simulation::broken::{Breakage, BrokenStore};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn races_with_the_clock_have_one_order_in_memory() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());

    races::all(vec![Arc::clone(&store), store], 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_plan_have_one_order_in_memory() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());

    plan_races::all(vec![Arc::clone(&store), store], 5).await;
}

/// Races that end as one of their orders over every store would not be worth much.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_ignores_versions_is_found_by_changes_of_plan_at_once() {
    let breakage = Breakage::IgnoresVersions;
    let store: Arc<dyn Store> = Arc::new(BrokenStore { inner: MemoryStore::default(), breakage });

    let raced = tokio::spawn(plan_races::all(vec![Arc::clone(&store), store], 40)).await;

    assert!(raced.is_err());
}
