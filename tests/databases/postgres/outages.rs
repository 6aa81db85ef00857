//! A database that goes away and comes back.

use std::sync::Arc;
use std::time::Duration;

use subscription_core::Store as _;
use subscription_core::store::{Postgres, PostgresStore, StoreError};

use super::cluster::Cluster;
use crate::records::{plan, put};
use crate::stories::{Story, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories![
        a_restart_of_the_database_is_survived,
        a_killed_database_keeps_what_was_answered,
        a_store_opens_before_its_database_is_up,
    ]
}

async fn open(cluster: &Cluster) -> Arc<PostgresStore> {
    Arc::new(Postgres::url(&cluster.url()).unwrap().open().await.unwrap())
}

async fn a_restart_of_the_database_is_survived() {
    let mut cluster = Cluster::start(false).unwrap();
    let store = open(&cluster).await;
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();

    cluster.stop();

    let down = store.plan(kept.id).await;
    assert!(matches!(down, Err(StoreError::Unavailable(_))), "{down:?}");
    let down = put(&store, &plan("lost")).await;
    assert!(matches!(down, Err(StoreError::Unavailable(_))), "{down:?}");

    cluster.start_again();

    assert_eq!(store.plan(kept.id).await.unwrap().as_deref(), Some(&kept));
    put(&store, &plan("after")).await.unwrap();
}

async fn a_killed_database_keeps_what_was_answered() {
    let mut cluster = Cluster::start(true).unwrap();
    let store = open(&cluster).await;
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();

    cluster.kill();
    cluster.start_again();

    assert_eq!(store.plan(kept.id).await.unwrap().as_deref(), Some(&kept));
}

async fn a_store_opens_before_its_database_is_up() {
    let mut cluster = Cluster::start(false).unwrap();
    cluster.stop();
    let store = Postgres::url(&cluster.url()).unwrap().open_once_reachable().await.unwrap();
    let store = Arc::new(store);
    let early = put(&store, &plan("early")).await;
    assert!(matches!(early, Err(StoreError::Unavailable(_))), "{early:?}");

    cluster.start_again();

    let patience = tokio::time::timeout(Duration::from_mins(1), async {
        while put(&store, &plan("in-time")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    patience.await.unwrap();
}
