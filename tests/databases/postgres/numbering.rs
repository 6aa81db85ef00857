//! The lock of the numbering of the feed, while another process does not let it go.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use subscription_core::SubscriptionService;
use subscription_core::store::{PageLimit, PostgresOptions};
use test_support::cluster::fresh_schema;
use test_support::service_world::new_plan;
use test_support::trials;
use test_support::trials::Trial;

use super::shared;

pub(crate) fn trials() -> Vec<Trial> {
    trials![readers_who_wait_for_the_numbering_leave_the_connections_to_others]
}

/// The readers, of whom there are more than connections.
const READERS: usize = 24;

/// The number of sessions that wait for this one.
async fn waiting(holder: &mut PgConnection) -> i64 {
    let text = "SELECT count(*) FROM pg_locks \
                WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
    sqlx::query_scalar(text).fetch_one(holder).await.unwrap()
}

/// As when a process freezes while it numbers events.
async fn readers_who_wait_for_the_numbering_leave_the_connections_to_others() {
    let schema = fresh_schema(shared()).await;
    let how = PostgresOptions::url(shared()).unwrap().schema(&schema).connections(4);
    let store = how.statement_timeout(Duration::from_secs(100)).open().await.unwrap();
    let service = SubscriptionService::new(Arc::new(store));
    service.create_plan(new_plan("first")).await.unwrap();
    let mut holder = PgConnection::connect(shared()).await.unwrap();
    let lock = format!(
        "SET search_path TO {schema}; BEGIN; \
         SELECT pg_advisory_xact_lock(hashtext('subscription feed ' || current_schema()))"
    );
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut holder).await.unwrap();

    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let service = service.clone();
            tokio::spawn(async move { service.events(0, PageLimit::MAX).await })
        })
        .collect();
    let is_waiting = async {
        while waiting(&mut holder).await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), is_waiting).await.unwrap();

    for nth in 0..20 {
        service.create_plan(new_plan(&format!("plan-{nth}"))).await.unwrap();
    }
    assert_eq!(waiting(&mut holder).await, 1);

    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    for reader in readers {
        assert!(!reader.await.unwrap().unwrap().is_empty());
    }
}
