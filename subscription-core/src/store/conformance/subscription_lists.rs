//! Lists of subscriptions by every filter and in every order, compared with a sorted list of all.

use std::sync::Arc;
use std::time::Duration;

use super::records::{at, parsed, plan, subscription, user};
use super::steps::{limit, put};
use super::walk::{DIRECTIONS, assert_list, directed, walk};
use crate::store::{
    Query, Record, Store, SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::values::{Timestamp, Version};

/// Subscriptions of which many have the same value in some field, but no two in all fields.
fn varied_subscriptions() -> Vec<Subscription> {
    let statuses: Vec<_> = SubscriptionStatus::all().collect();
    let subscriptions = (0..80_u64).map(|n| {
        let status = statuses.iter().cycle().nth(usize::try_from(n * 3 / 2).unwrap()).unwrap();
        let ends = matches!(status, SubscriptionStatus::Cancelled | SubscriptionStatus::Expired)
            || n % 7 == 0;
        let record = subscription(n);
        Subscription {
            user_id: user(n * 5 / 3 % 4),
            subscription_plan_id: plan(n % 3).id,
            external_subscription_id: record.external_subscription_id.filter(|_| n % 3 > 0),
            status: *status,
            is_active: status.grants_access() && n % 5 > 0,
            // The renewals are in steps of a hundred seconds, so that many subscriptions renew at the same time.
            renews_at: (n % 4 > 0).then(|| at(1_000 + n * 7 % 6 * 100)),
            starts_at: if n % 6 == 1 { at(450 + n * 13 % 3 * 150) } else { record.starts_at },
            ends_at: ends.then(|| at(500 + n * 11 % 4 * 100)),
            blocked: n % 5 == 0,
            ..record
        }
    });
    subscriptions.collect()
}

async fn with_varied_subscriptions(store: &Arc<dyn Store>) -> Vec<Subscription> {
    let subscriptions = varied_subscriptions();
    put(store, subscriptions.iter().rev().cloned()).await;
    subscriptions
}

/// The queries with this filter, in every order and both directions.
fn queries(filter: &SubscriptionFilter, now: Timestamp) -> Vec<SubscriptionQuery> {
    let query = |order, direction| SubscriptionQuery {
        filter: filter.clone(),
        order,
        direction,
        after: None,
        limit: limit(7),
        now,
    };
    let orders = SubscriptionOrder::ALL.into_iter();
    orders.flat_map(|order| DIRECTIONS.map(|direction| query(order, direction))).collect()
}

/// Compares a list with those of the given subscriptions that its filter admits.
async fn assert_admitted(
    store: &Arc<dyn Store>,
    subscriptions: &[Subscription],
    query: SubscriptionQuery,
) {
    let admits = |found: &&Subscription| query.filter.admits(found, query.now);
    let admitted = subscriptions.iter().filter(admits).cloned();
    assert_list(store, Query::Subscription(query.clone()), admitted).await;
}

/// Compares every order and direction of each filter.
async fn assert_lists(
    store: &Arc<dyn Store>,
    subscriptions: &[Subscription],
    filters: &[SubscriptionFilter],
    now: Timestamp,
) {
    for query in filters.iter().flat_map(|filter| queries(filter, now)) {
        assert_admitted(store, subscriptions, query).await;
    }
}

/// Every filter alone, with values that many subscriptions have, that few have and that none has.
fn single_filters() -> Vec<SubscriptionFilter> {
    use SubscriptionStatus::{Active, Cancelled, Expired, Paused};
    let any = SubscriptionFilter::default;
    let mut filters = Vec::new();
    for n in [0, 3, 9] {
        filters.push(SubscriptionFilter { user_id: Some(user(n)), ..any() });
        filters.push(SubscriptionFilter { subscription_plan_id: Some(plan(n).id), ..any() });
    }
    for is_active in [Some(true), Some(false)] {
        filters.push(SubscriptionFilter { is_active, ..any() });
    }
    for statuses in [vec![Active], vec![Cancelled, Paused], vec![Expired, Active, Expired]] {
        filters.push(SubscriptionFilter { statuses, ..any() });
    }
    filters.push(SubscriptionFilter { statuses: SubscriptionStatus::all().collect(), ..any() });
    for external in ["subscription 4", "subscription 3", "nothing"] {
        let external_subscription_id = Some(parsed(external));
        filters.push(SubscriptionFilter { external_subscription_id, ..any() });
    }
    for border in [at(1_000), at(1_300), at(1_600)] {
        filters.push(SubscriptionFilter { renews_after: Some(border), ..any() });
        filters.push(SubscriptionFilter { renews_before: Some(border), ..any() });
    }
    filters
}

/// One filter with the conditions of both. If both filters name the same field, the first filter decides.
fn both(a: &SubscriptionFilter, b: &SubscriptionFilter) -> SubscriptionFilter {
    SubscriptionFilter {
        user_id: a.user_id.or(b.user_id),
        subscription_plan_id: a.subscription_plan_id.or(b.subscription_plan_id),
        statuses: if a.statuses.is_empty() { b.statuses.clone() } else { a.statuses.clone() },
        is_active: a.is_active.or(b.is_active),
        external_subscription_id: a
            .external_subscription_id
            .clone()
            .or_else(|| b.external_subscription_id.clone()),
        renews_before: a.renews_before.or(b.renews_before),
        renews_after: a.renews_after.or(b.renews_after),
    }
}

/// The lists without a filter and with each single filter, in every order and both directions.
pub async fn subscriptions_are_listed_by_every_filter_in_every_order(store: Arc<dyn Store>) {
    let made = with_varied_subscriptions(&store).await;

    assert_lists(&store, &made, &[SubscriptionFilter::default()], at(0)).await;
    assert_lists(&store, &made, &single_filters(), at(650)).await;
}

/// All filters of a query must hold: two or three filters at a time.
pub async fn subscriptions_are_listed_by_several_filters_at_once(store: Arc<dyn Store>) {
    let made = with_varied_subscriptions(&store).await;
    let singles = single_filters();
    let pairs_over = |gap: usize| {
        let pairs = singles.iter().zip(singles.iter().skip(gap));
        pairs.map(|(a, b)| both(a, b)).collect::<Vec<_>>()
    };
    let pairs = [1, 6, 10].into_iter().flat_map(pairs_over);
    let with_third =
        |(pair, third): (SubscriptionFilter, &SubscriptionFilter)| [both(&pair, third), pair];
    let filters: Vec<_> = pairs.zip(singles.iter().rev().cycle()).flat_map(with_third).collect();

    assert_lists(&store, &made, &filters, at(650)).await;
}

/// Access begins at the start and is over at the end, whatever the status, so the same list has other subscriptions at
/// another time.
pub async fn access_is_judged_by_the_time_of_the_question(store: Arc<dyn Store>) {
    use SubscriptionStatus::{Active, Cancelled, OnTrial, PastDue, Paused};
    let held = |n, status, starts, ends: Option<u64>| Subscription {
        status,
        starts_at: at(starts),
        ends_at: ends.map(at),
        ..subscription(n)
    };
    let made = [
        held(0, Cancelled, 0, Some(100)),
        held(1, Cancelled, 1, Some(200)),
        held(2, Cancelled, 2, None),
        Subscription { blocked: true, ..held(3, Cancelled, 3, Some(200)) },
        subscription(4),
        held(5, Active, 5, Some(100)),
        held(6, OnTrial, 100, None),
        held(7, PastDue, 100, Some(200)),
        held(8, Cancelled, 150, Some(150)),
        held(9, Paused, 100, Some(200)),
        Subscription { blocked: true, ..held(10, Active, 100, None) },
        held(11, Active, 11, Some(11)),
    ];
    let Subscription { user_id, subscription_plan_id, .. } = subscription(0);
    let made = made.map(|made| Subscription { user_id, subscription_plan_id, ..made });
    put(&store, made.clone()).await;
    let any = SubscriptionFilter::default;
    let filters = [true, false].map(Some).map(|is_active| {
        let by_plan = Some(subscription_plan_id);
        [
            SubscriptionFilter { is_active, ..any() },
            SubscriptionFilter { is_active, subscription_plan_id: by_plan, ..any() },
            SubscriptionFilter { is_active, user_id: Some(user_id), ..any() },
        ]
    });

    // Clocks are set back too, and two instances need not agree on the time.
    let forth = [Timestamp::MIN, at(99), at(100), at(150), at(200), at(201), Timestamp::MAX];
    let back = forth.into_iter().rev();
    for now in forth.into_iter().chain(back).chain([at(150), at(99), at(150)]) {
        for query in filters.iter().flatten().flat_map(|filter| queries(filter, now)) {
            let query = SubscriptionQuery { limit: limit(1), ..query };
            assert_admitted(&store, &made, query).await;
        }
    }
}

/// If a subscription is cancelled, ended, moved or blocked after a list was read, the next list shows its new access.
pub async fn access_is_judged_by_what_the_record_is_now(store: Arc<dyn Store>) {
    let ends = |ends_at| Subscription {
        status: SubscriptionStatus::Cancelled,
        ends_at: Some(at(ends_at)),
        ..subscription(0)
    };
    let lives = [
        ends(100),
        ends(300),
        ends(50),
        Subscription { blocked: true, ..ends(300) },
        ends(150),
        Subscription { status: SubscriptionStatus::Active, ..subscription(0) },
        Subscription { starts_at: at(150), ..subscription(0) },
        Subscription { starts_at: at(250), ..subscription(0) },
        Subscription { updated_at: at(250), starts_at: at(250), ..subscription(0) },
        Subscription { updated_at: at(250), ..ends(220) },
        Subscription { updated_at: at(250), status: SubscriptionStatus::Paused, ..ends(300) },
        ends(200),
    ];
    for (life, version) in lives.into_iter().zip(1..) {
        let life = Subscription { version: Version::from(version), ..life };
        put(&store, [life.clone()]).await;

        for (now, is_active) in [200, 120].map(|now| [(at(now), true), (at(now), false)]).concat() {
            let rest = SubscriptionFilter::default();
            let filter = SubscriptionFilter { is_active: Some(is_active), ..rest };
            let query = SubscriptionQuery { filter, now, ..SubscriptionQuery::default() };
            assert_admitted(&store, std::slice::from_ref(&life), query).await;
        }
    }
}

/// Stores a subscription for each renewal.
async fn renewing(
    store: &Arc<dyn Store>,
    renewals: impl IntoIterator<Item = Option<Timestamp>>,
) -> Vec<Subscription> {
    let made = renewals.into_iter().zip(0..);
    let made = made.map(|(renews_at, n)| Subscription { renews_at, ..subscription(n) });
    let made: Vec<_> = made.collect();
    put(store, made.clone()).await;
    made
}

/// A window of renewals includes its first moment and excludes its last one, to the microsecond.
pub async fn renewal_windows_that_share_a_border_share_no_record(store: Arc<dyn Store>) {
    let micros = |by| Some(Timestamp::from_micros(at(1_000).micros() + by).unwrap());
    let made = renewing(&store, [micros(-1), micros(0), micros(1), None]).await;

    let border = micros(0);
    let cases = [
        (None, border, 0..1),
        (border, None, 1..3),
        (border, border, 0..0),
        (border, Some(at(999)), 0..0),
        (Some(Timestamp::MIN), Some(Timestamp::MAX), 0..3),
    ];
    for (renews_after, renews_before, expected) in cases {
        let rest = SubscriptionFilter::default();
        let filter = SubscriptionFilter { renews_before, renews_after, ..rest };
        for query in queries(&filter, at(0)) {
            let expected = made.get(expected.clone()).unwrap().iter().cloned();
            assert_list(&store, Query::Subscription(query), expected).await;
        }
    }
}

/// A page that starts before, in or after a window of renewals shows the records that are after its start and in the
/// window.
pub async fn a_place_and_a_window_of_renewals_both_hold(store: Arc<dyn Store>) {
    let all = with_varied_subscriptions(&store).await;
    let early = Some(at(1_100));
    let late = Some(at(1_400));
    for (renews_after, renews_before) in [(None, late), (early, None), (early, late)] {
        let rest = SubscriptionFilter::default();
        let filter = SubscriptionFilter { renews_before, renews_after, ..rest };
        for query in queries(&filter, at(0)) {
            for place in all.iter().step_by(7) {
                let after = Some(query.order.position(place));
                let query = SubscriptionQuery { after, limit: limit(80), ..query.clone() };
                assert_admitted(&store, &all, query).await;
            }
        }
    }
}

/// Subscriptions that never renew come last in ascending order and first in descending order, and are sorted by id.
pub async fn subscriptions_that_never_renew_come_last(store: Arc<dyn Store>) {
    let renewals = [None, Some(Timestamp::MAX), None, Some(Timestamp::MIN), Some(at(5)), None];
    let made = renewing(&store, renewals).await;

    let upwards = [3, 4, 1, 0, 2, 5].map(|n| made.get(n).cloned().map(Record::from).unwrap());
    for direction in DIRECTIONS {
        for size in [1, 2, 50] {
            let order = SubscriptionOrder::RenewsAt;
            let limit = limit(size);
            let query = SubscriptionQuery { order, direction, limit, ..Default::default() };
            let seen = walk(&store, Query::Subscription(query)).await;
            assert_eq!(seen, directed(upwards.to_vec(), direction), "{direction:?} by {size}");
        }
    }
}

/// A subscription whose filtered fields change leaves one list and enters another.
pub async fn a_changed_subscription_is_listed_by_what_it_is_now(store: Arc<dyn Store>) {
    let before = subscription(1);
    let after = Subscription {
        user_id: user(2),
        subscription_plan_id: plan(2).id,
        external_subscription_id: Some(parsed("another")),
        status: SubscriptionStatus::Paused,
        renews_at: Some(at(20_000)),
        version: before.version.next(),
        ..subscription(1)
    };
    put(&store, [before.clone()]).await;
    put(&store, [after.clone()]).await;

    let by_each = |found: &Subscription| {
        let any = SubscriptionFilter::default;
        let next_second = |at: Timestamp| at.saturating_add(Duration::from_secs(1));
        let external_subscription_id = found.external_subscription_id.clone();
        let renews_after = found.renews_at;
        let renews_before = found.renews_at.map(next_second);
        [
            SubscriptionFilter { user_id: Some(found.user_id), ..any() },
            SubscriptionFilter { subscription_plan_id: Some(found.subscription_plan_id), ..any() },
            SubscriptionFilter { statuses: vec![found.status], ..any() },
            SubscriptionFilter { is_active: Some(found.is_active_at(at(0))), ..any() },
            SubscriptionFilter { external_subscription_id, ..any() },
            SubscriptionFilter { renews_before, renews_after, ..any() },
        ]
    };
    let filters = [by_each(&before), by_each(&after)].concat();
    assert_lists(&store, &[after], &filters, at(0)).await;
}
