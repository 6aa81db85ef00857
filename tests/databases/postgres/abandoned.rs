//! Callers that leave in the middle, sets that are refused, and what they leave behind: nothing.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use subscription_core::accounts::User;
use subscription_core::store::{
    ChangeSet, Delete, EventQuery, Guard, Key, PostgresOptions, PostgresStore, Record, StoreError,
    StoreExt as _, SubscriptionFilter, SubscriptionQuery,
};
use subscription_core::subscriptions::Subscription;
use subscription_core::{
    BillingCycle, NewPlan, Plan, Store as _, SubscriptionService, SubscriptionStatus,
    SystemRandomness, Timestamp, UserId,
};
use test_support::cluster::Cluster;
use test_support::trials;
use test_support::trials::Trial;

use super::fresh_schema;
use super::shared;
use crate::records::{at, plan, put, renamed, subscription};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_refused_set_lets_its_locks_go_at_once,
        a_commit_whose_caller_left_lets_its_locks_go,
        a_commit_whose_caller_left_is_taken_whole_or_not_at_all,
        a_slow_read_whose_caller_left_holds_nobody_up,
        a_commit_that_waits_too_long_is_given_up_and_the_store_goes_on,
        a_process_that_freezes_in_a_transaction_loses_its_locks,
        a_call_that_is_abandoned_anywhere_leaves_no_transaction_open,
    ]
}

pub(crate) fn trials_with_a_server_of_their_own() -> Vec<Trial> {
    trials![a_database_that_only_reads_still_answers_questions]
}

/// Short, so that what is held up for good fails soon.
const PATIENCE: Duration = Duration::from_secs(2);

async fn instance(schema: &str) -> Arc<PostgresStore> {
    let how = PostgresOptions::url(shared()).unwrap().schema(schema).connections(4);
    Arc::new(how.patience(PATIENCE).statement_timeout(PATIENCE).open().await.unwrap())
}

/// Somebody else in the database.
async fn outsider(schema: &str) -> PgConnection {
    let mut connection = PgConnection::connect(shared()).await.unwrap();
    say(&mut connection, &format!("SET search_path TO {schema}")).await;
    connection
}

async fn say(connection: &mut PgConnection, text: &str) {
    sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(connection).await.unwrap();
}

fn writing(writes: impl IntoIterator<Item = Plan>) -> ChangeSet {
    let writes = writes.into_iter().map(Record::from).collect();
    ChangeSet { writes, ..ChangeSet::default() }
}

async fn a_refused_set_lets_its_locks_go_at_once() {
    let schema = fresh_schema(shared()).await;
    let (one, other) = (instance(&schema).await, instance(&schema).await);
    let kept = plan("kept");
    put(&one, &kept).await.unwrap();

    let guards = vec![Guard::PlanUnused(kept.id)];
    let stale = Delete { key: Key::Plan(kept.id), version: kept.version.next() };
    let refused = one.commit(ChangeSet { guards, deletes: vec![stale], ..ChangeSet::default() });
    let refused = refused.await.unwrap_err();

    assert!(matches!(refused, StoreError::Conflict(_)), "{refused:?}");
    put(&other, &renamed(&kept, "Renamed by the other")).await.unwrap();
}

async fn a_commit_whose_caller_left_lets_its_locks_go() {
    let schema = fresh_schema(shared()).await;
    let (one, other) = (instance(&schema).await, instance(&schema).await);
    let mut outsider = outsider(&schema).await;
    let (first, second) = (plan("first"), plan("second"));
    one.commit(writing([first.clone(), second.clone()])).await.unwrap();
    say(&mut outsider, "BEGIN").await;
    say(&mut outsider, "SELECT 1 FROM plans WHERE slug = 'second' FOR UPDATE").await;

    // It has the first when it waits for the second.
    let both = writing([renamed(&first, "Not done"), renamed(&second, "Not done")]);
    let left = tokio::time::timeout(Duration::from_millis(200), one.commit(both)).await;
    left.unwrap_err();
    say(&mut outsider, "ROLLBACK").await;

    put(&other, &renamed(&first, "Renamed by the other")).await.unwrap();
    put(&other, &renamed(&second, "Renamed by the other")).await.unwrap();
}

async fn a_commit_whose_caller_left_is_taken_whole_or_not_at_all() {
    let schema = fresh_schema(shared()).await;
    let (one, other) = (instance(&schema).await, instance(&schema).await);
    let mut taken = 0;
    for round in 0..60 {
        let both = [plan(&format!("a-{round}")), plan(&format!("b-{round}"))];

        let patience = Duration::from_micros(round * 50);
        tokio::time::timeout(patience, one.commit(writing(both.clone()))).await.ok();

        // Whatever is still on its way is done once the records can be locked.
        let settled = [renamed(&both[0], "Seen"), renamed(&both[1], "Seen")];
        let seen = other.commit(writing(settled)).await;
        let are_there = async || {
            let first = other.get_as::<Plan>(&both[0].id).await.unwrap();
            let second = other.get_as::<Plan>(&both[1].id).await.unwrap();
            (first.is_some(), second.is_some())
        };
        let mut there = are_there().await;
        // A commit that nothing had to wait for may land between the two reads. Half of one stays half.
        if there == (false, true) {
            there = are_there().await;
        }
        assert_eq!(there.0, there.1, "{round}: {seen:?}");
        taken += u32::from(there.0);
        one.get_as::<Plan>(&both[0].id).await.unwrap();
    }
    println!("{taken} of 60 commits whose callers left were taken");
}

async fn a_slow_read_whose_caller_left_holds_nobody_up() {
    let schema = fresh_schema(shared()).await;
    let store = instance(&schema).await;
    let mut outsider = outsider(&schema).await;
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();
    say(&mut outsider, "BEGIN; LOCK TABLE plans IN ACCESS EXCLUSIVE MODE").await;
    let left =
        tokio::time::timeout(Duration::from_millis(100), store.get_as::<Plan>(&kept.id)).await;
    left.unwrap_err();

    let nobody = UserId::new(kept.created_at, &SystemRandomness).unwrap();
    let read = tokio::time::timeout(Duration::from_mins(1), store.get_as::<User>(&nobody)).await;

    assert_eq!(read.unwrap().unwrap(), None);
    say(&mut outsider, "ROLLBACK").await;
    assert_eq!(store.get_as::<Plan>(&kept.id).await.unwrap().as_deref(), Some(&kept));
}

async fn a_commit_that_waits_too_long_is_given_up_and_the_store_goes_on() {
    let schema = fresh_schema(shared()).await;
    let how = PostgresOptions::url(shared()).unwrap().schema(&schema).connections(2);
    let store = how.statement_timeout(Duration::from_millis(200)).open().await.unwrap();
    let store = Arc::new(store);
    let mut outsider = outsider(&schema).await;
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();
    say(&mut outsider, "BEGIN; SELECT 1 FROM plans FOR UPDATE").await;

    // More of them than there are connections.
    for _ in 0..4 {
        let late = put(&store, &renamed(&kept, "Late")).await.unwrap_err();
        assert!(matches!(late, StoreError::Unavailable(_)), "{late:?}");
    }
    say(&mut outsider, "ROLLBACK").await;

    put(&store, &renamed(&kept, "In time")).await.unwrap();
}

/// As one that is paused does, or whose machine is: its connections stay open, and it sends nothing.
async fn a_process_that_freezes_in_a_transaction_loses_its_locks() {
    let schema = fresh_schema(shared()).await;
    let (other, mut outsider) = (instance(&schema).await, outsider(&schema).await);
    let (first, second) = (plan("first"), plan("second"));
    other.commit(writing([first.clone(), second.clone()])).await.unwrap();
    say(&mut outsider, "BEGIN; SELECT 1 FROM plans WHERE slug = 'second' FOR UPDATE").await;
    let guards = vec![Guard::PlanUnused(first.id)];
    let both = ChangeSet { guards, ..writing([renamed(&second, "Not done")]) };
    let (freeze, must_freeze) = tokio::sync::oneshot::channel::<()>();
    let (tell, is_frozen) = tokio::sync::oneshot::channel::<()>();
    let (end, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let process = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        process.block_on(async move {
            let store = instance(&schema).await;
            tokio::spawn(async move { store.commit(both).await });
            must_freeze.await.ok();
        });
        // Nothing runs any more, and nothing is dropped.
        tell.send(()).ok();
        ended.recv().ok();
    });
    let begun = Instant::now();
    // It has the first when it waits for the second.
    let waits = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))";
    while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut outsider).await.unwrap() {
        assert!(begun.elapsed() < Duration::from_mins(1), "it never waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    freeze.send(()).unwrap();
    is_frozen.await.unwrap();
    say(&mut outsider, "ROLLBACK").await;

    let begun = Instant::now();
    while let Err(error) = put(&other, &renamed(&first, "Renamed by the other")).await {
        assert!(begun.elapsed() < Duration::from_mins(1), "{error:?}");
    }
    drop(end);
}

/// Polls a call so often, or until it ends, and drops it.
async fn polled<T>(call: impl Future<Output = T>, mut times: u32) {
    let mut call = pin!(call);
    poll_fn(|context| {
        times -= 1;
        let is_over = call.as_mut().poll(context).is_ready() || times == 0;
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The next commit goes over the connection that the call had, and others must see it.
async fn a_call_that_is_abandoned_anywhere_leaves_no_transaction_open() {
    let schema = fresh_schema(shared()).await;
    let how = PostgresOptions::url(shared()).unwrap().schema(&schema).connections(1);
    let store = Arc::new(how.open().await.unwrap());
    let service = SubscriptionService::new(Arc::clone(&store));
    let mut outsider = outsider(&schema).await;
    let create = async |slug: String| {
        let (name, price) = ("Pro".parse().unwrap(), "1".parse().unwrap());
        let new = NewPlan::new(name, slug.parse().unwrap(), price, BillingCycle::MONTHLY);
        service.create_plan(new).await.unwrap();
    };
    for kind in ["feed", "transaction", "empty"] {
        // How often a call is polled until it ends depends on how fast the database is.
        for times in 1..=12 {
            // An event that the feed must number, in a transaction.
            create(format!("{kind}-event-{times}")).await;
            let with_guard = plan(&format!("{kind}-guarded-{times}"));
            let guards = vec![Guard::PlanUnused(with_guard.id)];
            let with_guard = ChangeSet { guards, ..writing([with_guard]) };
            match kind {
                "feed" => polled(store.events(&EventQuery::default()), times).await,
                "transaction" => polled(store.commit(with_guard), times).await,
                _ => polled(store.commit(ChangeSet::default()), times).await,
            }

            let slug = format!("{kind}-after-{times}");
            create(slug.clone()).await;

            let seen = sqlx::query("SELECT 1 FROM plans WHERE slug = $1").bind(&slug);
            let seen = seen.fetch_optional(&mut outsider).await.unwrap();
            assert!(seen.is_some(), "{slug} was answered, and nobody else sees it");
        }
    }
}

/// As a stand-by does, and a primary that was told to.
async fn a_database_that_only_reads_still_answers_questions() {
    let cluster = Cluster::start(false).unwrap();
    let store = Arc::new(PostgresOptions::url(&cluster.url()).unwrap().open().await.unwrap());
    let mut outsider = PgConnection::connect(&cluster.url()).await.unwrap();
    let kept = plan("kept");
    put(&store, &kept).await.unwrap();
    let mut over = subscription(&kept);
    over.status = SubscriptionStatus::Cancelled;
    over.ends_at = Some(over.starts_at);
    let writes = vec![Record::from(over.clone())];
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    let only_reads = async |outsider: &mut PgConnection, yes: &str| {
        let text = format!("ALTER DATABASE postgres SET default_transaction_read_only = {yes}");
        say(outsider, "SET default_transaction_read_only = off").await;
        say(outsider, &text).await;
        // Those that are connected keep what they began with.
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                      WHERE application_name = 'subscription'";
        say(outsider, others).await;
    };

    only_reads(&mut outsider, "on").await;

    assert_eq!(store.get_as::<Plan>(&kept.id).await.unwrap().as_deref(), Some(&kept));
    let listed = async |now: Timestamp| {
        let filter = SubscriptionFilter::default().with_is_active(false);
        let query = SubscriptionQuery::default().with_filter(filter).with_now(now);
        store.list_as::<Subscription>(query.clone()).await.unwrap().items
    };
    assert_eq!(listed(at("2030-01-01T00:00:00Z")).await.len(), 1);
    let refused = put(&store, &plan("refused")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    let asked = store.commit(ChangeSet::default()).await;
    assert!(matches!(asked, Err(StoreError::Unavailable(_))), "{asked:?}");

    only_reads(&mut outsider, "off").await;

    // The one that was cut off hears of it, as with any restart.
    put(&store, &plan("first")).await.ok();
    store.commit(ChangeSet::default()).await.unwrap();
    put(&store, &plan("second")).await.unwrap();
    assert_eq!(listed(at("2030-01-01T00:00:00Z")).await.len(), 1);
}
