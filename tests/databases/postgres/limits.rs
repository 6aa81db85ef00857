//! A database that takes fewer connections than the store would open.

use std::sync::Arc;
use std::time::Duration;
use subscription_core::plans::Plan;
use subscription_core::store::StoreExt as _;

use sqlx::{Connection as _, PgConnection};
use subscription_core::store::{PostgresOptions, PostgresStore, StoreError};
use test_support::cluster::Cluster;
use test_support::trials;
use test_support::trials::Trial;

use crate::records::{plan, put};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        callers_share_the_connections_that_the_database_allows,
        a_caller_waits_until_the_database_takes_one_more,
        a_caller_who_waits_in_vain_is_told_after_the_patience,
    ]
}

/// A server that takes two connections from the role `app`, and the address of that role.
async fn limited() -> (Cluster, String) {
    let cluster = Cluster::start(false).unwrap();
    let mut owner = PgConnection::connect(&cluster.url()).await.unwrap();
    let role = "CREATE ROLE app LOGIN CONNECTION LIMIT 2; GRANT ALL ON SCHEMA public TO app";
    sqlx::raw_sql(role).execute(&mut owner).await.unwrap();
    owner.close().await.unwrap();
    let url = cluster.url().replace("postgres@", "app@");
    (cluster, url)
}

async fn open(url: &str, patience: Duration) -> Arc<PostgresStore> {
    let options = PostgresOptions::url(url).unwrap().connections(16).patience(patience);
    Arc::new(options.open().await.unwrap())
}

/// Takes one of the role's connections. One that was closed counts until the server has seen its end, so a
/// refusal is tried again.
async fn occupy(url: &str) -> PgConnection {
    let connected = tokio::time::timeout(Duration::from_mins(1), async {
        loop {
            match PgConnection::connect(url).await {
                Ok(connection) => return connection,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    });
    connected.await.unwrap()
}

async fn callers_share_the_connections_that_the_database_allows() {
    let (_cluster, url) = limited().await;
    let store = open(&url, Duration::from_mins(1)).await;

    let writers: Vec<_> = (0..40)
        .map(|nth| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { put(&store, &plan(&format!("plan-{nth}"))).await })
        })
        .collect();

    for writer in writers {
        writer.await.unwrap().unwrap();
    }
}

async fn a_caller_waits_until_the_database_takes_one_more() {
    let (cluster, url) = limited().await;
    let store = open(&url, Duration::from_mins(1)).await;
    let first = occupy(&url).await;
    let _second = occupy(&url).await;
    let (late, begun) = (plan("late"), cluster.log_len());

    let writer = tokio::spawn({
        let (store, late) = (Arc::clone(&store), late.clone());
        async move { put(&store, &late).await }
    });
    let refused = tokio::time::timeout(Duration::from_mins(1), async {
        while !cluster.log(begun).contains("too many connections for role") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    refused.await.unwrap();
    assert!(!writer.is_finished());
    first.close().await.unwrap();

    writer.await.unwrap().unwrap();
    assert_eq!(store.get_as::<Plan>(&late.id).await.unwrap().as_deref(), Some(&late));
}

async fn a_caller_who_waits_in_vain_is_told_after_the_patience() {
    let (cluster, url) = limited().await;
    let store = open(&url, Duration::from_secs(2)).await;
    let first = occupy(&url).await;
    let _second = occupy(&url).await;

    let begun = cluster.log_len();

    let refused = put(&store, &plan("in-vain")).await;

    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let tries = cluster.log(begun).matches("too many connections for role").count();
    assert!((2..=40).contains(&tries), "{tries}");

    first.close().await.unwrap();

    put(&store, &plan("later")).await.unwrap();
}
