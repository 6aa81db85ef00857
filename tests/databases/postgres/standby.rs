//! A primary with a stand-by: commits that no stand-by has, and locks that do not exclude anybody.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use subscription_core::store::{Idempotency, PostgresOptions, PostgresStore, StoreError};
use subscription_core::{Created, Error, NewPlan, Plan, SubscriptionService};
use test_support::cluster::Cluster;
use test_support::trials;
use test_support::trials::Trial;

use super::proxy::Proxy;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_commit_whose_wait_for_the_standby_is_cancelled_is_not_reported_as_done,
        a_slow_commit_is_confirmed_by_the_standby,
        nobody_leads_on_a_standby,
        nobody_leads_where_every_session_gets_the_lock,
    ]
}

async fn open(cluster: &Cluster) -> Arc<PostgresStore> {
    let how = PostgresOptions::url(&cluster.url()).unwrap().patience(Duration::from_secs(5));
    Arc::new(how.open().await.unwrap())
}

fn service(store: &Arc<PostgresStore>) -> SubscriptionService {
    SubscriptionService::new(Arc::clone(store))
}

async fn create(service: &SubscriptionService) -> Result<Created<Plan>, Error> {
    let body = br#"{"name": "Pro", "slug": "pro", "price": 19.90, "billing_cycle": "monthly"}"#;
    let key = Idempotency { client: "shop".to_owned(), key: "order-1".parse().unwrap() };
    service.create_plan_once(NewPlan::from_json(body).unwrap(), key).await
}

/// Cancels each commit that has waited for the standby for longer than 1.2 seconds, until the call ends.
async fn with_an_operator_who_cancels<T>(cluster: &Cluster, call: impl Future<Output = T>) -> T {
    let mut operator = PgConnection::connect(&cluster.url()).await.unwrap();
    let cancel = async {
        loop {
            let text = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE \
                wait_event = 'SyncRep' AND query_start < clock_timestamp() - interval '1200 ms'";
            sqlx::query(text).execute(&mut operator).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        done = call => done,
        () = cancel => unreachable!("it cancels for ever"),
    }
}

fn is_unavailable<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Store(StoreError::Unavailable(_))))
}

async fn a_commit_whose_wait_for_the_standby_is_cancelled_is_not_reported_as_done() {
    let primary = Cluster::start(false).unwrap();
    let store = open(&primary).await;
    let service = service(&store);
    let standby = primary.standby().await.unwrap();
    service.check_store().await.unwrap();

    standby.freeze();
    let created = with_an_operator_who_cancels(&primary, create(&service)).await;
    let replayed = with_an_operator_who_cancels(&primary, create(&service)).await;
    let is_ready = with_an_operator_who_cancels(&primary, service.check_store()).await;
    let mut operator = PgConnection::connect(&primary.url()).await.unwrap();
    let stored: i64 =
        sqlx::query_scalar("SELECT count(*) FROM plans").fetch_one(&mut operator).await.unwrap();
    standby.thaw();

    assert!(is_unavailable(&created), "{created:?}");
    assert_eq!(stored, 1, "the primary has the commit");
    assert!(is_unavailable(&replayed), "{replayed:?}");
    assert!(is_unavailable(&is_ready), "{is_ready:?}");
    assert!(create(&service).await.unwrap().replayed);
    service.check_store().await.unwrap();
}

async fn a_slow_commit_is_confirmed_by_the_standby() {
    let primary = Cluster::start(false).unwrap();
    let store = open(&primary).await;
    let service = service(&store);
    let standby = primary.standby().await.unwrap();
    service.check_store().await.unwrap();

    standby.freeze();
    let slow = create(&service);
    let thaw = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        standby.thaw();
    };
    let (created, ()) = tokio::join!(slow, thaw);

    assert!(!created.unwrap().replayed);
}

async fn nobody_leads_on_a_standby() {
    let primary = Cluster::start(false).unwrap();
    let store = open(&primary).await;
    let standby = primary.standby().await.unwrap();
    let how = PostgresOptions::url(&standby.url()).unwrap();
    let elsewhere = how.open_once_reachable().await.unwrap();

    assert!(!elsewhere.leader_lock().holds().await);
    assert!(store.leader_lock().holds().await);
}

/// Makes `false` of a row `true`, if the row is a boolean and the name of the server.
fn grant(bytes: &mut [u8]) {
    const FALSE: &[u8] = &[0, 2, 0, 0, 0, 1, 0, 0, 0, 0];
    let found = bytes.windows(15).position(|it| it.starts_with(FALSE) && it.ends_with(b"Post"));
    if let Some(byte) = found.and_then(|at| bytes.get_mut(at + 6)) {
        *byte = 1;
    }
}

async fn nobody_leads_where_every_session_gets_the_lock() {
    let cluster = Cluster::start(false).unwrap();
    let proxy = Proxy::with_edit(&cluster, grant);
    let direct = open(&cluster).await;
    let store = PostgresOptions::url(&proxy.url()).unwrap().open().await.unwrap();

    assert!(!store.leader_lock().holds().await);
    // The lock was given back.
    let right = direct.leader_lock();
    tokio::time::timeout(Duration::from_mins(1), async {
        while !right.holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
}
