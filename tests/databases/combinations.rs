//! Every combination of the filters and orders of a list, one after another over one connection.

use std::sync::Arc;

use subscription_core::store::{
    ChangeSet, Direction, PageLimit, PostgresOptions, Record, SqliteOptions, Store, StoreExt as _,
    SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use subscription_core::{Plan, Subscription, SubscriptionStatus};
use test_support::cluster::fresh_schema;
use test_support::seed::sample;
use test_support::trials;
use test_support::trials::Trial;

use crate::folder::folder;
use crate::postgres::shared;
use crate::records::{at, plan, put, subscription};

pub(crate) fn trials() -> Vec<Trial> {
    trials![every_list_of_subscriptions_is_answered_over_one_connection_sqlite]
}

pub(crate) fn trials_with_a_server() -> Vec<Trial> {
    trials![every_list_of_subscriptions_is_answered_over_one_connection_postgres]
}

async fn every_list_of_subscriptions_is_answered_over_one_connection_sqlite() {
    let store = SqliteOptions::file(folder().join("lists.db")).open().await.unwrap();
    walk(&Arc::new(store)).await;
}

async fn every_list_of_subscriptions_is_answered_over_one_connection_postgres() {
    let schema = fresh_schema(shared()).await;
    let how = PostgresOptions::url(shared()).unwrap().schema(&schema).connections(1);
    walk(&Arc::new(how.open().await.unwrap())).await;
}

async fn walk(store: &Arc<impl Store>) {
    let kept = plan("kept");
    put(store, &kept).await.unwrap();
    let all = records(&kept);
    let writes = all.iter().cloned().map(Record::from).collect();
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();

    let mut walked = 0;
    let one = all.first().unwrap();
    for filter in sample(filters(&kept, one), 3) {
        for order in [SubscriptionOrder::CreatedAt, SubscriptionOrder::RenewsAt] {
            for direction in [Direction::Ascending, Direction::Descending] {
                // The same text may follow with another number of values, and the reverse.
                for is_active in [None, Some(true), Some(false), None, Some(false), Some(true)] {
                    let mut filter = filter.clone();
                    filter.is_active = is_active;
                    let query = SubscriptionQuery::default()
                        .with_filter(filter)
                        .with_order(order)
                        .with_direction(direction)
                        .with_now(at("2025-06-01T00:00:00Z"));
                    pages(store, query, &all).await;
                    walked += 1;
                }
            }
        }
    }
    println!("{walked} combinations");
}

/// A subscription in each status, and a second one that renews later.
fn records(plan: &Plan) -> Vec<Subscription> {
    let mut all = Vec::new();
    for (nth, status) in SubscriptionStatus::all().enumerate() {
        for renews_at in [at("2025-05-01T00:00:00Z"), at("2025-07-01T00:00:00Z")] {
            let mut one = subscription(plan);
            one.status = status;
            one.renews_at = Some(renews_at);
            one.external_subscription_id = Some(format!("{nth}-{renews_at}").parse().unwrap());
            all.push(one);
        }
    }
    all
}

fn filters(plan: &Plan, one: &Subscription) -> Vec<SubscriptionFilter> {
    let mut all = Vec::new();
    let mut statuses: Vec<_> = SubscriptionStatus::all().map(|status| vec![status]).collect();
    statuses.push(Vec::new());
    statuses.push(vec![SubscriptionStatus::Active, SubscriptionStatus::Expired]);
    statuses.push(vec![SubscriptionStatus::Unpaid, SubscriptionStatus::Expired]);
    for statuses in statuses {
        for plan_id in [None, Some(plan.id)] {
            for (user_id, external) in [
                (None, None),
                (Some(one.user_id), None),
                (None, one.external_subscription_id.clone()),
            ] {
                for (before, after) in [(false, false), (true, false), (false, true), (true, true)]
                {
                    let mut filter = SubscriptionFilter::default();
                    filter.statuses.clone_from(&statuses);
                    filter.subscription_plan_id = plan_id;
                    filter.user_id = user_id;
                    filter.external_subscription_id.clone_from(&external);
                    filter.renews_before = before.then(|| at("2025-08-01T00:00:00Z"));
                    filter.renews_after = after.then(|| at("2025-04-01T00:00:00Z"));
                    all.push(filter);
                }
            }
        }
    }
    all
}

/// Reads two pages, and finds on them just the records that the filter admits.
async fn pages(store: &Arc<impl Store>, query: SubscriptionQuery, all: &[Subscription]) {
    let first = query.clone().with_limit(PageLimit::new(3).unwrap());
    let page = store.list_as::<Subscription>(first).await;
    let page = page.unwrap_or_else(|error| panic!("{error:?}: {query:?}"));
    let mut found: Vec<_> = page.items.iter().map(|found| found.id).collect();
    if let Some(next) = page.next {
        let mut rest = query.clone().with_limit(PageLimit::MAX);
        rest.after = Some(next);
        let page = store.list_as::<Subscription>(rest).await;
        let page = page.unwrap_or_else(|error| panic!("{error:?}: {query:?}"));
        found.extend(page.items.iter().map(|found| found.id));
    }
    found.sort();
    let filter = &query.filter;
    let admitted = all.iter().filter(|it| filter.admits(it, query.now));
    let mut expected: Vec<_> = admitted.map(|it| it.id).collect();
    expected.sort();
    assert_eq!(found, expected, "{query:?}");
}
