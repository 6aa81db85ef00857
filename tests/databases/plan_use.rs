//! Plans that subscriptions have or will have, in both databases.

use std::sync::Arc;

use subscription_core::Store;
use subscription_core::store::PostgresOptions;
use test_support::billing::{plan_use, product_changes};
use test_support::cluster::fresh_schema;
use test_support::trials;
use test_support::trials::Trial;

use crate::contention::rounds;
use crate::{postgres, sqlite};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        changes_to_a_plan_and_its_deletion_have_one_order_in_a_file,
        changes_of_plan_move_the_key_of_a_product_in_a_file,
    ]
}

pub(crate) fn trials_with_a_server() -> Vec<Trial> {
    trials![
        changes_to_a_plan_and_its_deletion_have_one_order_in_a_server,
        changes_of_plan_move_the_key_of_a_product_in_a_server,
    ]
}

async fn changes_to_a_plan_and_its_deletion_have_one_order_in_a_file() {
    let store: Arc<dyn Store> = Arc::new(sqlite::fresh().await);

    plan_use::all(&[Arc::clone(&store), store], rounds(1)).await;
}

async fn changes_to_a_plan_and_its_deletion_have_one_order_in_a_server() {
    let schema = fresh_schema(postgres::shared()).await;
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..2 {
        let options = PostgresOptions::url(postgres::shared()).unwrap().schema(&schema);
        stores.push(Arc::new(options.connections(8).open().await.unwrap()));
    }

    plan_use::all(&stores, rounds(2)).await;
}

async fn changes_of_plan_move_the_key_of_a_product_in_a_file() {
    product_changes::all(&(Arc::new(sqlite::fresh().await) as Arc<dyn Store>)).await;
}

async fn changes_of_plan_move_the_key_of_a_product_in_a_server() {
    product_changes::all(&(Arc::new(postgres::fresh().await) as Arc<dyn Store>)).await;
}
