//! Plans that subscriptions have or will have, in memory.

use std::sync::Arc;

use subscription_core::{MemoryStore, Store};
use test_support::billing::{plan_use, product_changes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_to_a_plan_and_its_deletion_have_one_order_in_memory() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());

    plan_use::all(&[Arc::clone(&store), store], 20).await;
}

#[tokio::test]
async fn changes_of_plan_move_the_key_of_a_product_in_memory() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());

    product_changes::all(&store).await;
}
