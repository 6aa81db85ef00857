//! A database that goes away and comes back.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use subscription_core::plans::Plan;
use subscription_core::store::{
    ChangeSet, PostgresOptions, PostgresStore, Store as _, StoreError, StoreExt as _,
};
use test_support::cluster::Cluster;
use test_support::trials;
use test_support::trials::Trial;

use crate::records::{plan, put, subscription};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_restart_of_the_database_is_survived,
        a_killed_database_keeps_what_was_answered,
        a_store_opens_before_its_database_is_up,
        a_standby_takes_over_with_all_that_was_answered,
        a_database_that_falls_silent_fails_calls_in_time_and_no_later_ones,
    ]
}

async fn open(cluster: &Cluster) -> Arc<PostgresStore> {
    Arc::new(PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap())
}

async fn a_restart_of_the_database_is_survived() {
    let mut cluster = Cluster::start(false).unwrap();
    let store = open(&cluster).await;
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();

    cluster.stop();

    let down = store.get_as::<Plan>(&kept.id).await;
    assert!(matches!(down, Err(StoreError::Unavailable(_))), "{down:?}");
    let down = put(&store, &plan("lost")).await;
    assert!(matches!(down, Err(StoreError::Unavailable(_))), "{down:?}");

    cluster.start_again();

    assert_eq!(store.get_as::<Plan>(&kept.id).await.unwrap().as_deref(), Some(&kept));
    put(&store, &plan("after")).await.unwrap();
}

async fn a_killed_database_keeps_what_was_answered() {
    let mut cluster = Cluster::start(true).unwrap();
    let store = open(&cluster).await;
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();

    cluster.kill();
    cluster.start_again();

    assert_eq!(store.get_as::<Plan>(&kept.id).await.unwrap().as_deref(), Some(&kept));
}

/// The address of a database that another can take over, as a proxy or a floating address does.
struct Address(std::path::PathBuf);

impl Address {
    fn of(cluster: &Cluster) -> Self {
        let address = Self(cluster.folder().with_extension("address"));
        address.leads_to(cluster);
        address
    }

    fn leads_to(&self, cluster: &Cluster) {
        let next = self.0.with_extension("next");
        std::os::unix::fs::symlink(cluster.folder(), &next).unwrap();
        std::fs::rename(next, &self.0).unwrap();
    }

    fn url(&self) -> String {
        format!("postgres://postgres@localhost/postgres?host={}", self.0.display())
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

async fn a_standby_takes_over_with_all_that_was_answered() {
    let mut first = Cluster::start(false).unwrap();
    let address = Address::of(&first);
    let store = Arc::new(PostgresOptions::url(&address.url()).unwrap().open().await.unwrap());
    let standby = first.standby().await.unwrap();
    let answered = Arc::new(Mutex::new(Vec::new()));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for writer in 0..8 {
        let (store, answered) = (Arc::clone(&store), Arc::clone(&answered));
        let is_over = Arc::clone(&is_over);
        writers.push(tokio::spawn(async move {
            let mut refused = 0;
            for nth in 0.. {
                let plan = plan(&format!("plan-{writer}-{nth}"));
                match put(&store, &plan).await {
                    Ok(()) => answered.lock().unwrap().push(plan),
                    Err(StoreError::Unavailable(_)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                tokio::task::yield_now().await;
            }
            refused
        }));
    }
    let so_many = async |many: usize| {
        while answered.lock().unwrap().len() < many {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    so_many(200).await;

    first.kill();
    standby.promote().await;
    address.leads_to(&standby);

    let before = answered.lock().unwrap().len();
    so_many(before + 200).await;
    is_over.store(true, Ordering::SeqCst);
    let mut refused = 0;
    for writer in writers {
        refused += writer.await.unwrap();
    }
    let answered = answered.lock().unwrap().clone();
    println!("{} plans, {before} of them before; {refused} were refused", answered.len());
    assert!(refused > 0, "nobody noticed");
    for plan in answered {
        assert_eq!(store.get_as::<Plan>(&plan.id).await.unwrap().as_deref(), Some(&plan));
    }
}

async fn a_store_opens_before_its_database_is_up() {
    let mut cluster = Cluster::start(false).unwrap();
    cluster.stop();
    let store = PostgresOptions::url(&cluster.url()).unwrap().open_once_reachable().await.unwrap();
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

async fn a_database_that_falls_silent_fails_calls_in_time_and_no_later_ones() {
    let cluster = Cluster::start(false).unwrap();
    let how = PostgresOptions::url(&cluster.url()).unwrap();
    let how = how.statement_timeout(Duration::from_secs(2)).patience(Duration::from_secs(3));
    let store = Arc::new(how.open().await.unwrap());
    let plan = plan("pro");
    put(&store, &plan).await.unwrap();
    let mut outsider = PgConnection::connect(&cluster.url()).await.unwrap();
    let text = "SELECT pid FROM pg_stat_activity WHERE application_name = 'subscription'";
    let sessions: Vec<i32> = sqlx::query_scalar(text).fetch_all(&mut outsider).await.unwrap();
    let signal = |name: &str| {
        for session in &sessions {
            Command::new("kill").args([name, &session.to_string()]).status().unwrap();
        }
    };

    let create = || {
        let writes = vec![subscription(&plan).into()];
        store.commit(ChangeSet { writes, ..ChangeSet::default() })
    };

    signal("-STOP");
    let silent = tokio::time::timeout(Duration::from_mins(1), create()).await;
    let later = tokio::time::timeout(Duration::from_mins(1), create()).await;
    signal("-CONT");

    assert!(matches!(silent, Ok(Err(StoreError::Unavailable(_)))), "{silent:?}");
    later.unwrap().unwrap();
}
