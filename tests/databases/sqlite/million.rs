//! How SQLite finds its lists among a million subscriptions.
//!
//! It tells for every statement whether it would use an index; the time tells the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _, SqliteConnection};
use subscription_core::store::{
    Key, SqliteOptions, SqliteStore, Store as _, StoreExt as _, SubscriptionFilter,
    SubscriptionQuery,
};
use subscription_core::subscriptions::Subscription;
use test_support::million::{COLUMNS, brief, further_pages, is_against_the_grain, lists, row};
use test_support::seed::sample;
use test_support::trials;
use test_support::trials::Trial;
use tokio::task::JoinSet;

use super::explained::{Overheard, plan};
use crate::folder::folder;

pub(crate) fn trials() -> Vec<Trial> {
    trials![lists_of_a_million_subscriptions_are_found_by_an_index]
}

/// Many times what a page takes that is found by an index, and far less than looking at all takes.
const PAGE_MAX: Duration = Duration::from_millis(100);
/// Where no index fits. The suite of PostgreSQL counts the rows that are looked at.
const AGAINST_THE_GRAIN_MAX: Duration = Duration::from_mins(1);

async fn fill(to: &mut SqliteConnection) {
    let indexes = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' \
                   AND tbl_name = 'subscriptions' AND sql IS NOT NULL";
    let indexes = sqlx::query(indexes).fetch_all(&mut *to).await.unwrap();
    let mut steps = vec![
        "PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA temp_store = memory; \
         PRAGMA cache_size = -262144"
            .to_owned(),
    ];
    for index in &indexes {
        steps.push(format!("DROP INDEX {}", index.get::<String, _>(0)));
    }
    let id = |first: &str, last: &str| {
        format!("unhex(printf('%012x', {first}) || '70008000' || printf('%012x', {last}))")
    };
    let row = row(
        &id("1735689600000 + n * 30000", "n"),
        &id("1", "n / 2"),
        &id("1", "CASE WHEN n % 2 = 0 THEN 1 ELSE 2 + n / 2 % 49 END"),
        |seconds| format!("({seconds}) * 1000000"),
    );
    steps.push(format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 1000000) \
         INSERT INTO subscriptions ({COLUMNS}) SELECT {row} FROM numbers"
    ));
    for index in &indexes {
        steps.push(index.get::<String, _>(1));
    }
    steps.push("ANALYZE".to_owned());
    for step in steps {
        sqlx::raw_sql(AssertSqlSafe(step)).execute(&mut *to).await.unwrap();
    }
}

/// Where a statement looks at all that there is. Whether it puts much in order is told by the time: how
/// SQLite goes about it depends on what is bound.
async fn detours(of: &mut SqliteConnection, statement: &str) -> Vec<String> {
    let details = plan(of, statement).await.into_iter();
    // The table itself is in the order of creation: without a filter it is the index.
    let scans = |detail: &String| {
        detail.starts_with("SCAN subscriptions")
            && !detail.contains("USING")
            && statement.contains("access_class =")
    };
    details.filter(scans).collect()
}

async fn time(store: &SqliteStore, page: &SubscriptionQuery, max: Duration) -> Duration {
    let mut best = Duration::MAX;
    // Whatever else the machine does, once in so many times it leaves us alone; a page that is slow by
    // itself is slow each time.
    for _ in 0..40 {
        let start = Instant::now();
        store.list_as::<Subscription>(page.clone()).await.unwrap();
        best = best.min(start.elapsed());
        if best < max {
            break;
        }
    }
    best
}

async fn lists_of_a_million_subscriptions_are_found_by_an_index() {
    let file = folder().join("store.db");
    SqliteOptions::file(&file).relaxed().open().await.unwrap().close().await;
    let mut outsider: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let start = Instant::now();
    fill(&mut outsider).await;
    println!("a million subscriptions were made in {:?}", start.elapsed());
    let store = SqliteOptions::file(&file).relaxed().open().await.unwrap();
    let (overheard, _listening) = Overheard::begin();

    let start = Instant::now();
    let (mut wrong, mut asked) = (Vec::new(), 0);
    let (mut longest, mut longest_against) = (Duration::ZERO, Duration::ZERO);
    // Of those for which no index fits a few will do: they take long.
    let (mut against, with): (Vec<_>, Vec<_>) = lists().into_iter().partition(is_against_the_grain);
    let with = sample(with, 3);
    against.retain(|list| {
        let SubscriptionFilter { subscription_plan_id, statuses, is_active, .. } = &list.filter;
        subscription_plan_id.is_none() && is_active.is_none() && statuses.len() == 1
    });
    for first in with.into_iter().chain(against) {
        let mut pages: Vec<(&str, SubscriptionQuery)> = vec![("first", first.clone())];
        pages.extend(further_pages(&store, &first).await);
        for (name, page) in pages {
            let against = is_against_the_grain(&page);
            let (max, longest) = if against {
                (AGAINST_THE_GRAIN_MAX, &mut longest_against)
            } else {
                (PAGE_MAX, &mut longest)
            };
            let took = time(&store, &page, max).await;
            let statement = overheard.last();
            let detours = detours(&mut outsider, &statement).await;
            asked += 1;
            *longest = (*longest).max(took);
            if took > max || (!against && !detours.is_empty()) {
                wrong.push(format!("{name} page of {}: {took:?}, {detours:?}", brief(&page)));
            }
        }
    }
    println!("{asked} pages were read in {:?}, none in more than {longest:?}", start.elapsed());
    println!("but spans of renewals in the order of creation in up to {longest_against:?}");
    assert!(wrong.is_empty(), "{} pages:\n{}", wrong.len(), wrong.join("\n"));
    let slow = lists().into_iter().find(is_against_the_grain).unwrap();
    short_reads_do_not_wait_for_lists_whose_callers_left(&store, &slow).await;
    short_reads_do_not_wait_for_slow_lists(Arc::new(store), slow).await;
}

/// SQLite continues with the statement of a caller who leaves, and the connection is busy until its end.
async fn short_reads_do_not_wait_for_lists_whose_callers_left(
    store: &SqliteStore,
    slow: &SubscriptionQuery,
) {
    let list = || store.list_as::<Subscription>(slow.clone());
    let start = Instant::now();
    list().await.unwrap();
    let alone = start.elapsed();
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        for _ in 0..8 {
            tokio::time::timeout(Duration::from_millis(1), list()).await.ok();
        }
        let start = Instant::now();
        store.get(&Key::Plan(uuid::Uuid::max().into())).await.unwrap();
        shortest = shortest.min(start.elapsed());
        list().await.unwrap();
    }

    println!("a read by id takes {shortest:?} beside lists whose callers left; a list {alone:?}");
    assert!(shortest < alone / 2, "{shortest:?} of {alone:?}");
}

/// As many callers of a slow list as there are connections leave some to others.
async fn short_reads_do_not_wait_for_slow_lists(store: Arc<SqliteStore>, slow: SubscriptionQuery) {
    let ended = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        let store = Arc::clone(&store);
        let slow = slow.clone();
        let ended = Arc::clone(&ended);
        callers.spawn(async move {
            // Reads fail when the test ends.
            while store.list_as::<Subscription>(slow.clone()).await.is_ok() {
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let read = || ended.load(Ordering::Relaxed);
    while read() < 8 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    let mut beside = 0;
    for _ in 0..20 {
        let before = read();
        store.get(&Key::Plan(uuid::Uuid::max().into())).await.unwrap();
        beside += usize::from(read() == before);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    println!("{beside} of 20 reads by id ended while no slow list did");
    // The others waited for the end of a list, or a list ended beside them.
    assert!(beside >= 10, "{beside} of 20");
}
