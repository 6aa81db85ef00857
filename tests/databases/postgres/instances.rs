//! Many processes over one database, as far as the store can tell.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use subscription_core::Store as _;
use subscription_core::plans::Plan;
use subscription_core::store::{
    CachedStore, ChangeSet, Delete, Key, LeaderLock, PostgresOptions, PostgresStore, StoreExt as _,
    UniqueValue,
};
use test_support::trials;
use test_support::trials::Trial;

use super::{fresh_schema, shared};
use crate::records::{plan, put, renamed};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        many_that_start_at_once_make_the_tables_once,
        a_plan_changed_by_one_is_new_on_the_other_at_once,
        a_plan_deleted_by_one_is_gone_from_the_other_at_once,
        without_the_channel_a_plan_is_new_after_the_lag,
        one_of_several_holds_the_lock_of_the_leader_until_its_connection_ends,
        a_holder_that_falls_silent_loses_the_lock,
        an_instance_with_a_wrong_clock_neither_leads_nor_writes,
    ]
}

struct Instance {
    store: Arc<CachedStore<Arc<PostgresStore>>>,
}

async fn instance(schema: &str, lag: Duration, listens: bool) -> Instance {
    let inner = PostgresOptions::url(shared()).unwrap().schema(schema).connections(4);
    let inner = Arc::new(inner.open().await.unwrap());
    let store = Arc::new(CachedStore::new(Arc::clone(&inner), lag));
    if listens {
        inner.listen(store.cache());
    }
    Instance { store }
}

/// What a test waits for must come in this time, on a slow machine too.
const DEADLINE: Duration = Duration::from_mins(1);

/// Longer than any of these tests takes: what is seen sooner was heard of.
const HOURS: Duration = Duration::from_hours(10);

async fn many_that_start_at_once_make_the_tables_once() {
    let schema = fresh_schema(shared()).await;

    let opened: Vec<_> = (0..10)
        .map(|_| {
            let schema = schema.clone();
            tokio::spawn(async move {
                PostgresOptions::url(shared()).unwrap().schema(&schema).open().await.map(drop)
            })
        })
        .collect();

    for opened in opened {
        opened.await.unwrap().unwrap();
    }
}

/// Reads until the answer is as expected, and tells how long that took.
async fn within_a_minute<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) -> Duration {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < Duration::from_mins(1), "never seen");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    start.elapsed()
}

async fn a_plan_changed_by_one_is_new_on_the_other_at_once() {
    let schema = fresh_schema(shared()).await;
    let (one, other) = (instance(&schema, HOURS, true).await, instance(&schema, HOURS, true).await);
    let first = plan("pro");
    put(&one.store, &first).await.unwrap();
    // Until the other listens, nothing is heard; what it has then is of no age.
    within_a_minute(async || {
        let before = other.store.cache().hits();
        other.store.get_as::<Plan>(&first.id).await.unwrap();
        other.store.cache().hits() > before
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    other.store.get_as::<Plan>(&first.id).await.unwrap();

    let second = renamed(&first, "Pro, renamed");
    put(&one.store, &second).await.unwrap();
    let took = within_a_minute(async || {
        let seen = other.store.find_as::<Plan>(UniqueValue::PlanSlug(&first.slug)).await.unwrap();
        seen.as_deref() == Some(&second)
    })
    .await;

    println!("a change was seen after {took:?}");
}

async fn a_plan_deleted_by_one_is_gone_from_the_other_at_once() {
    let schema = fresh_schema(shared()).await;
    let (one, other) = (instance(&schema, HOURS, true).await, instance(&schema, HOURS, true).await);
    let first = plan("pro");
    put(&one.store, &first).await.unwrap();
    within_a_minute(async || other.store.get_as::<Plan>(&first.id).await.unwrap().is_some()).await;

    let deletes = vec![Delete { key: Key::Plan(first.id), version: first.version }];
    one.store.commit(ChangeSet { deletes, ..ChangeSet::default() }).await.unwrap();
    let second = plan("pro");
    put(&one.store, &second).await.unwrap();

    within_a_minute(async || {
        other.store.get_as::<Plan>(&first.id).await.unwrap().is_none()
            && other
                .store
                .find_as::<Plan>(UniqueValue::PlanSlug(&first.slug))
                .await
                .unwrap()
                .as_deref()
                == Some(&second)
    })
    .await;
}

async fn without_the_channel_a_plan_is_new_after_the_lag() {
    let schema = fresh_schema(shared()).await;
    let lag = Duration::from_millis(50);
    let (one, other) = (instance(&schema, lag, false).await, instance(&schema, lag, false).await);
    let first = plan("pro");
    put(&one.store, &first).await.unwrap();
    assert_eq!(other.store.get_as::<Plan>(&first.id).await.unwrap().as_deref(), Some(&first));

    let second = renamed(&first, "Pro, renamed");
    put(&one.store, &second).await.unwrap();

    within_a_minute(async || {
        other.store.get_as::<Plan>(&first.id).await.unwrap().as_deref() == Some(&second)
    })
    .await;
}

async fn opened(schema: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresOptions::url(shared()).unwrap().schema(schema).open().await.unwrap())
}

async fn one_of_several_holds_the_lock_of_the_leader_until_its_connection_ends() {
    let schema = fresh_schema(shared()).await;
    let (first, second) = (opened(&schema).await, opened(&schema).await);
    let elsewhere = opened(&fresh_schema(shared()).await).await;
    let (leader, follower) = (first.leader_lock(), second.leader_lock());

    // A machine that stands still for seconds loses a lock: such a round says nothing.
    let begun = Instant::now();
    loop {
        let round = [leader.holds().await, follower.holds().await, leader.holds().await];
        assert_ne!(round, [true; 3], "both hold the lock");
        if round == [true, false, true] {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "nobody holds the lock: {round:?}");
    }
    free_in_time(&elsewhere.leader_lock()).await;

    drop(leader);
    free_in_time(&follower).await;
}

/// Asks for the lock until it is free. If it is not in time, tells how often it was asked for, and who has one: few
/// attempts are time-outs, many with no holder of the schema are sessions that the server refused.
async fn free_in_time(follower: &LeaderLock) {
    let (begun, mut attempts) = (Instant::now(), 0);
    while !follower.holds().await {
        attempts += 1;
        if begun.elapsed() > DEADLINE {
            let mut asked = PgConnection::connect(shared()).await.unwrap();
            let text = "SELECT format('%s of %s sessions, locks: %s', count(*), current_setting('max_connections'), \
                        (SELECT string_agg(format('%s %s by %s, %s', classid, objid, pid, state), '; ') \
                         FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory')) \
                        FROM pg_stat_activity";
            let found: String = sqlx::query_scalar(text).fetch_one(&mut asked).await.unwrap();
            panic!("the lock is not free after {attempts} attempts: {found}");
        }
    }
}

async fn a_holder_that_falls_silent_loses_the_lock() {
    let schema = fresh_schema(shared()).await;
    let (first, second) = (opened(&schema).await, opened(&schema).await);
    let (silent, follower) = (first.leader_lock(), second.leader_lock());
    free_in_time(&silent).await;

    free_in_time(&follower).await;

    assert!(!silent.holds().await, "its session has ended");
}

/// The database of the second instance has a clock of its own: a function that comes before PostgreSQL's.
async fn an_instance_with_a_wrong_clock_neither_leads_nor_writes() {
    let schema = fresh_schema(shared()).await;
    let right = opened(&schema).await;
    let set_skew = async |skew: &str| {
        let mut connection = PgConnection::connect(shared()).await.unwrap();
        let text = format!(
            "CREATE OR REPLACE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql \
             AS $$ SELECT pg_catalog.clock_timestamp() + interval '{skew}' $$"
        );
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
    };
    set_skew("400 days").await;

    let wrong = opened(&format!("{schema},pg_catalog")).await;
    let refused = put(&wrong, &plan("from-the-future")).await.unwrap_err();
    assert!(format!("{refused:?}").contains("clock skew"), "{refused:?}");
    let lock = wrong.leader_lock();
    assert!(!lock.holds().await);
    assert!(lock.skew() > Duration::from_hours(24 * 399));
    put(&right, &plan("right")).await.unwrap();
    free_in_time(&right.leader_lock()).await;

    set_skew("-61 seconds").await;
    assert!(!lock.holds().await);
    put(&wrong, &plan("from-the-past")).await.unwrap_err();

    set_skew("30 seconds").await;
    free_in_time(&lock).await;
    put(&wrong, &plan("right-again")).await.unwrap();
}
