//! Subscriptions by every filter and in every order, against a list that is sorted by hand.

use crate::store::StoreExt as _;
use std::sync::Arc;

use uuid::Uuid;

use super::records::{at, at_version, parsed, plan, subscription, user};
use super::steps::{limit, writing};
use super::walk::{DIRECTIONS, directed, subscription_ids};
use crate::store::{
    Direction, PageLimit, Record, Store, SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use crate::subscriptions::{Subscription, SubscriptionStatus};
use crate::values::clock::Timestamp;

/// Subscriptions of which many are alike in something, no two in everything.
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
            // In steps of a hundred seconds, so that many fall together.
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
    let writes = subscriptions.iter().rev().cloned().map(Record::from);
    store.commit(writing(writes)).await.unwrap();
    subscriptions
}

/// The expected list: all subscriptions that the filter admits, sorted.
fn expected(subscriptions: &[Subscription], query: &SubscriptionQuery) -> Vec<Uuid> {
    let admits = |found: &&Subscription| query.filter.admits(found, query.now);
    let mut admitted: Vec<_> = subscriptions.iter().filter(admits).collect();
    admitted.sort_by_key(|found| (query.order.key(found), found.id));
    directed(admitted.iter().map(|found| found.id.uuid()).collect(), query.direction)
}

/// Compares every order and direction of each filter.
async fn assert_lists(
    store: &Arc<dyn Store>,
    subscriptions: &[Subscription],
    filters: &[SubscriptionFilter],
    now: Timestamp,
) {
    for filter in filters {
        for order in SubscriptionOrder::ALL {
            for direction in DIRECTIONS {
                let (filter, limit) = (filter.clone(), limit(7));
                let query = SubscriptionQuery { filter, order, direction, after: None, limit, now };

                let seen = subscription_ids(store, query.clone()).await;

                assert_eq!(seen, expected(subscriptions, &query), "{query:?}");
            }
        }
    }
}

/// Every filter by itself, with values that many have, that few have and that none has.
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

/// Both filters in one; the first where both name the same field.
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

/// All subscriptions, in every order and both directions; those that never renew come last.
pub async fn all_subscriptions_are_listed_in_every_order(store: Arc<dyn Store>) {
    let made = with_varied_subscriptions(&store).await;

    assert_lists(&store, &made, &[SubscriptionFilter::default()], at(0)).await;
}

/// Each filter alone, in every order and both directions.
pub async fn subscriptions_are_listed_by_every_filter_in_every_order(store: Arc<dyn Store>) {
    let made = with_varied_subscriptions(&store).await;

    assert_lists(&store, &made, &single_filters(), at(650)).await;
}

/// All that are given must hold: two and three at a time.
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

async fn numbers(store: &Arc<dyn Store>, query: SubscriptionQuery) -> Vec<u64> {
    let ids = subscription_ids(store, query).await;
    let number = |id: &Uuid| (0..80).find(|n| subscription(*n).id.uuid() == *id).unwrap();
    ids.iter().map(number).collect()
}

fn pairs<'a, A, B>(all: &'a [A], others: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    all.iter().flat_map(|one| others.iter().map(move |other| (one, other)))
}

/// Access begins at the start and is over at the end, whatever the status: the same list differs with
/// the time.
pub async fn access_is_judged_by_the_time_of_the_question(store: Arc<dyn Store>) {
    let cancelled = |n, ends_at, blocked| Subscription {
        status: SubscriptionStatus::Cancelled,
        ends_at,
        blocked,
        ..subscription(n)
    };
    let held = |n, status, starts_at, ends_at| Subscription {
        status,
        starts_at: at(starts_at),
        ends_at,
        ..subscription(n)
    };
    let made = [
        cancelled(0, Some(at(100)), false),
        cancelled(1, Some(at(200)), false),
        cancelled(2, None, false),
        cancelled(3, Some(at(200)), true),
        subscription(4),
        held(5, SubscriptionStatus::Active, 5, Some(at(100))),
        held(6, SubscriptionStatus::OnTrial, 100, None),
        held(7, SubscriptionStatus::PastDue, 100, Some(at(200))),
        held(8, SubscriptionStatus::Cancelled, 150, Some(at(150))),
        held(9, SubscriptionStatus::Paused, 100, Some(at(200))),
        Subscription { blocked: true, ..held(10, SubscriptionStatus::Active, 100, None) },
        held(11, SubscriptionStatus::Active, 11, Some(at(11))),
    ];
    let Subscription { user_id, subscription_plan_id, .. } = subscription(0);
    let made = made.map(|made| Subscription { user_id, subscription_plan_id, ..made });
    store.commit(writing(made.clone().map(Record::from))).await.unwrap();
    let any = SubscriptionFilter::default;
    let filters = [
        any(),
        SubscriptionFilter { subscription_plan_id: Some(subscription_plan_id), ..any() },
        SubscriptionFilter { user_id: Some(user_id), ..any() },
    ];

    // Clocks go back too, and two that ask need not agree on the time.
    let forth = [Timestamp::MIN, at(99), at(100), at(150), at(200), at(201), Timestamp::MAX];
    let back = forth.into_iter().rev();
    for now in forth.into_iter().chain(back).chain([at(150), at(99), at(150)]) {
        for (order, filter) in pairs(&SubscriptionOrder::ALL, &filters) {
            for is_active in [true, false] {
                let wanted = |found: &&Subscription| found.is_active_at(now) == is_active;
                let expected: Vec<_> = made.iter().filter(wanted).map(|s| s.id.uuid()).collect();
                let direction = Direction::Ascending;
                let filter = SubscriptionFilter { is_active: Some(is_active), ..filter.clone() };
                let limit = limit(1);
                let query =
                    SubscriptionQuery { filter, order: *order, direction, after: None, limit, now };

                assert_eq!(subscription_ids(&store, query.clone()).await, expected, "{query:?}");
            }
        }
    }
}

/// A subscription that is cancelled, ended, moved or given up after it was asked about is judged anew.
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
        let write = at_version(Record::from(life.clone()), version);
        store.commit(writing([write])).await.unwrap();

        for now in [at(200), at(120)] {
            for is_active in [true, false] {
                let expected = usize::from(life.is_active_at(now) == is_active);
                let is_active = Some(is_active);
                let filter = SubscriptionFilter { is_active, ..SubscriptionFilter::default() };
                let query = SubscriptionQuery { filter, now, ..SubscriptionQuery::default() };
                let found = subscription_ids(&store, query.clone()).await.len();
                assert_eq!(found, expected, "version {version}, {query:?}");
            }
        }
    }
}

/// A window begins with its first moment and ends before its last; to the microsecond.
pub async fn renewal_windows_that_share_a_border_share_no_record(store: Arc<dyn Store>) {
    let border = at(1_000).micros();
    let renewals = [border - 1, border, border + 1].map(|at| Timestamp::from_micros(at).unwrap());
    let made = renewals
        .into_iter()
        .map(Some)
        .chain([None])
        .zip(0..)
        .map(|(renews_at, n)| Record::from(Subscription { renews_at, ..subscription(n) }));
    store.commit(writing(made)).await.unwrap();

    let border = Some(at(1_000));
    let cases = [
        (None, border, vec![0]),
        (border, None, vec![1, 2]),
        (border, border, vec![]),
        (border, Some(at(999)), vec![]),
        (Some(Timestamp::MIN), Some(Timestamp::MAX), vec![0, 1, 2]),
    ];
    for (renews_after, renews_before, expected) in cases {
        for order in SubscriptionOrder::ALL {
            for direction in DIRECTIONS {
                let rest = SubscriptionFilter::default();
                let filter = SubscriptionFilter { renews_before, renews_after, ..rest };
                let rest = SubscriptionQuery::default();
                let query = SubscriptionQuery { filter, order, direction, ..rest };

                let expected = directed(expected.clone(), direction);
                assert_eq!(numbers(&store, query.clone()).await, expected, "{query:?}");
            }
        }
    }
}

/// A place before, in and behind a window of renewals: what is shown is after the one and in the other.
pub async fn a_place_and_a_window_of_renewals_both_hold(store: Arc<dyn Store>) {
    let all = with_varied_subscriptions(&store).await;
    let (early, late) = (Some(at(1_100)), Some(at(1_400)));
    let windows = [(None, late), (early, None), (early, late)];
    let mut cases = Vec::new();
    for order in SubscriptionOrder::ALL {
        for direction in DIRECTIONS {
            for place in all.iter().step_by(7) {
                cases.push((order, direction, order.position(place)));
            }
        }
    }
    for (renews_after, renews_before) in windows {
        for (order, direction, place) in &cases {
            let rest = SubscriptionFilter::default();
            let filter = SubscriptionFilter { renews_before, renews_after, ..rest };
            let admitted = all.iter().filter(|record| filter.admits(record, at(0)));
            let mut expected: Vec<_> = admitted.map(|record| order.position(record)).collect();
            expected.retain(|position| match direction {
                Direction::Ascending => position > place,
                Direction::Descending => position < place,
            });
            expected.sort();
            let query = SubscriptionQuery {
                filter,
                order: *order,
                direction: *direction,
                after: Some(place.clone()),
                limit: PageLimit::MAX,
                ..SubscriptionQuery::default()
            };

            let page = store.list_as::<Subscription>(query.clone()).await.unwrap();

            let shown: Vec<_> = page.items.iter().map(|found| order.position(found)).collect();
            assert_eq!(shown, directed(expected, *direction), "{query:?}");
        }
    }
}

/// After all others upwards, before all others downwards, by id among themselves.
pub async fn subscriptions_that_never_renew_come_last(store: Arc<dyn Store>) {
    let renewals = [None, Some(Timestamp::MAX), None, Some(Timestamp::MIN), Some(at(5)), None];
    let made = renewals
        .into_iter()
        .zip(0..)
        .map(|(renews_at, n)| Record::from(Subscription { renews_at, ..subscription(n) }));
    store.commit(writing(made)).await.unwrap();

    for direction in DIRECTIONS {
        for size in [1, 2, 50] {
            let (order, limit) = (SubscriptionOrder::RenewsAt, limit(size));
            let query = SubscriptionQuery { order, direction, limit, ..Default::default() };
            let expected = directed(vec![3, 4, 1, 0, 2, 5], direction);
            assert_eq!(numbers(&store, query).await, expected, "{direction:?} by {size}");
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
        ..subscription(1)
    };
    store.commit(writing([Record::from(before.clone())])).await.unwrap();
    store.commit(writing([at_version(Record::from(after.clone()), 2)])).await.unwrap();

    let by_each = |found: &Subscription| {
        let any = SubscriptionFilter::default;
        let next_second = |at: Timestamp| at.saturating_add(std::time::Duration::from_secs(1));
        [
            SubscriptionFilter { user_id: Some(found.user_id), ..any() },
            SubscriptionFilter { subscription_plan_id: Some(found.subscription_plan_id), ..any() },
            SubscriptionFilter { statuses: vec![found.status], ..any() },
            SubscriptionFilter { is_active: Some(found.is_active_at(at(0))), ..any() },
            SubscriptionFilter {
                external_subscription_id: found.external_subscription_id.clone(),
                ..any()
            },
            SubscriptionFilter {
                renews_after: found.renews_at,
                renews_before: found.renews_at.map(next_second),
                ..any()
            },
        ]
    };
    for (filters, expected) in [(by_each(&before), vec![]), (by_each(&after), vec![1])] {
        for filter in filters {
            for order in SubscriptionOrder::ALL {
                let filter = filter.clone();
                let query = SubscriptionQuery { filter, order, ..SubscriptionQuery::default() };
                assert_eq!(numbers(&store, query.clone()).await, expected, "{query:?}");
            }
        }
    }
}

/// Not only what they are sorted by.
pub async fn listed_subscriptions_are_whole(store: Arc<dyn Store>) {
    let made = with_varied_subscriptions(&store).await;

    let query = SubscriptionQuery { limit: limit(80), ..SubscriptionQuery::default() };
    let page = store.list_as::<Subscription>(query.clone()).await.unwrap();

    for listed in page.items {
        assert_eq!(Some(&*listed), made.iter().find(|made| made.id == listed.id));
    }
}
