//! The clock against those who use the service, in memory.

use std::sync::Arc;

use subscription_core::{MemoryStore, Store};
use test_support::billing::{plan_races, races};

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
