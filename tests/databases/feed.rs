//! The feed on disk: its bounds after a restart, and readers beside many writers.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{
    ChangeSet, EventQuery, PageLimit, PostgresOptions, Record, SqliteOptions,
};
use subscription_core::webhooks::{NewEndpoint, Webhooks};
use subscription_core::{EventId, Plan, ServerKeys, Store, SubscriptionService, SystemRandomness};
use test_support::cluster::fresh_schema;
use test_support::trials;
use test_support::trials::Trial;

use crate::damaged::Receiver;
use crate::folder::folder;
use crate::postgres::shared;
use crate::records::{plan, renamed};
use crate::{postgres, sqlite};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_file_whose_events_are_all_deleted_goes_on_after_them,
        a_slow_reader_of_a_file_misses_no_event,
    ]
}

pub(crate) fn trials_with_a_server() -> Vec<Trial> {
    trials![
        a_database_whose_events_are_all_deleted_goes_on_after_them,
        a_slow_reader_of_a_database_misses_no_event,
        a_numbering_that_is_rolled_back_deletes_no_event,
        an_endpoint_from_now_gets_nothing_that_was_committed_before,
    ]
}

/// A change set with a plan and its event.
fn writing(plan: &Plan, change: Change) -> ChangeSet {
    let event = Event {
        id: EventId::new(plan.created_at, &SystemRandomness).unwrap(),
        at: plan.created_at,
        subject: Subject::Plan(plan.id),
        version: plan.version,
        change,
        actor: Actor::Library,
    };
    let writes = vec![Record::from(plan.clone())];
    ChangeSet { writes, events: vec![event], ..ChangeSet::default() }
}

/// Writes events, deletes all of them, and returns the last sequence.
async fn write_and_delete(store: &impl Store) -> u64 {
    for n in 0..3 {
        store.commit(writing(&plan(&format!("plan-{n}")), Change::Created)).await.unwrap();
    }
    let last = store.events(&EventQuery::after(0, PageLimit::MAX)).await.unwrap().last;
    let deletion = ChangeSet { forget_events: Some(last), ..ChangeSet::default() };
    store.commit(deletion).await.unwrap();
    last
}

async fn goes_on_after(store: &impl Store, last: u64) {
    let page = store.events(&EventQuery::after(0, PageLimit::MAX)).await.unwrap();
    assert_eq!((page.items.len(), page.first_kept, page.last), (0, last + 1, last));

    store.commit(writing(&plan("another"), Change::Created)).await.unwrap();

    let page = store.events(&EventQuery::after(last, PageLimit::MAX)).await.unwrap();
    assert_eq!((page.items.len(), page.first_kept, page.last), (1, last + 1, last + 1));
}

async fn a_file_whose_events_are_all_deleted_goes_on_after_them() {
    let options = SqliteOptions::file(folder().join("store.db")).relaxed();
    let store = options.clone().open().await.unwrap();
    let last = write_and_delete(&store).await;
    store.close().await;

    let store = options.open().await.unwrap();

    goes_on_after(&store, last).await;
}

async fn a_database_whose_events_are_all_deleted_goes_on_after_them() {
    let options = PostgresOptions::url(shared()).unwrap().schema(&fresh_schema(shared()).await);
    let store = options.clone().open().await.unwrap();
    let last = write_and_delete(&store).await;
    store.close().await;

    let store = options.open().await.unwrap();

    goes_on_after(&store, last).await;
}

/// A numbering that is rolled back, because its reader or its session is gone, does not give its numbers back.
async fn a_numbering_that_is_rolled_back_deletes_no_event() {
    let schema = fresh_schema(shared()).await;
    let store = PostgresOptions::url(shared()).unwrap().schema(&schema).open().await.unwrap();
    let mut outsider = PgConnection::connect(shared()).await.unwrap();
    let numbering = format!("BEGIN; SELECT nextval('{schema}.feed'); ROLLBACK");
    let page = async |after| store.events(&EventQuery::after(after, PageLimit::MAX)).await.unwrap();
    for n in 0..2 {
        store.commit(writing(&plan(&format!("plan-{n}")), Change::Created)).await.unwrap();
    }
    sqlx::raw_sql(AssertSqlSafe(numbering.clone())).execute(&mut outsider).await.unwrap();

    let first = page(0).await;

    let sequences: Vec<_> = first.items.iter().map(|event| event.sequence).collect();
    assert_eq!((sequences, first.first_kept, first.last), (vec![2, 3], 1, 3));

    let deletion = ChangeSet { forget_events: Some(3), ..ChangeSet::default() };
    store.commit(deletion).await.unwrap();
    assert_eq!((page(3).await.first_kept, page(3).await.last), (4, 3));
    sqlx::raw_sql(AssertSqlSafe(numbering)).execute(&mut outsider).await.unwrap();
    store.commit(writing(&plan("another"), Change::Created)).await.unwrap();

    let next = page(3).await;

    assert_eq!((next.items.first().unwrap().sequence, next.first_kept, next.last), (5, 4, 5));
}

async fn an_endpoint_from_now_gets_nothing_that_was_committed_before() {
    let store = Arc::new(postgres::fresh().await);
    let service = SubscriptionService::new(Arc::clone(&store));
    let keys = ServerKeys::new(1, vec![9; 32].into()).unwrap();
    let webhooks = Webhooks::new(service, keys, Receiver::default());
    let told = |count| {
        let events = (0..count).map(|_| writing(&plan("pro"), Change::Created).events.remove(0));
        ChangeSet { events: events.collect(), ..ChangeSet::default() }
    };
    for _ in 0..3 {
        store.commit(told(1_000)).await.unwrap();
    }
    store.commit(told(700)).await.unwrap();

    let new = NewEndpoint::new("https://a.example/".parse().unwrap());
    let endpoint = webhooks.create(new).await.unwrap().endpoint;

    assert_eq!((endpoint.cursor, endpoint.behind), (3_700, 0));
    store.commit(told(2_500)).await.unwrap();
    assert_eq!(webhooks.get(endpoint.id).await.unwrap().behind, 2_500);
}

/// Eight writers create plans and change them. A reader of the changes alone reads three at a time and goes on
/// from where each page ended.
async fn misses_no_event(store: Arc<dyn Store>) {
    const WRITERS: usize = 8;
    const ROUNDS: usize = 40;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let made = plan(&format!("plan-{writer}-{round}"));
                    store.commit(writing(&made, Change::Created)).await.unwrap();
                    let fields = Plan::changed_fields(&made, &made);
                    let changed = writing(&renamed(&made, "Other"), Change::Updated { fields });
                    store.commit(changed).await.unwrap();
                }
            })
        })
        .collect();

    let limit = PageLimit::new(3).unwrap();
    let mut query = EventQuery::after(0, limit).with_types(["plan.updated".parse().unwrap()]);
    let mut seen = Vec::new();
    loop {
        let all_written = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let page = store.events(&query).await.unwrap();
        assert!(page.reached >= query.after && page.reached <= page.last, "{page:?}");
        seen.extend(page.items.into_iter().map(|recorded| recorded.event.subject));
        query.after = page.reached;
        if all_written && page.reached == page.last {
            break;
        }
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }

    assert_eq!(seen.len(), WRITERS * ROUNDS);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), WRITERS * ROUNDS, "an event was read twice");
}

async fn a_slow_reader_of_a_file_misses_no_event() {
    misses_no_event(Arc::new(sqlite::fresh().await)).await;
}

async fn a_slow_reader_of_a_database_misses_no_event() {
    misses_no_event(Arc::new(postgres::fresh().await)).await;
}
