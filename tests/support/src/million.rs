//! A million subscriptions as rows in SQL, and every kind of list of them.

use subscription_core::store::StoreExt as _;
use subscription_core::store::{
    Direction, Position, SortKey, SubscriptionFilter, SubscriptionOrder, SubscriptionQuery,
};
use subscription_core::subscriptions::Subscription;
use subscription_core::{PlanId, Store, SubscriptionStatus, Timestamp, UserId};
use uuid::Uuid;

use crate::service_world::at;

/// The time at which the lists are read.
pub fn now() -> Timestamp {
    at("2026-06-01T00:00:00Z")
}

/// The SQL that computes one row from its number `n`. The two dialects of SQL differ only in the arguments.
///
/// Half of all subscriptions have the same plan, and half are active. One in eight was cancelled and is over. One in
/// fifty of the active ones is over too. The access class of nearly all of these is up to date. One in fifty of the
/// trials has not begun yet. An active subscription renews at some second of the coming year, and no two that were
/// created together renew together.
pub fn row(id: &str, user: &str, plan: &str, time: fn(&str) -> String) -> String {
    let status = "CASE WHEN n * 7919 % 64 < 10 THEN 'cancelled' WHEN n * 7919 % 64 < 42 THEN 'active' \
                  WHEN n * 7919 % 64 < 48 THEN 'on_trial' WHEN n * 7919 % 64 < 52 THEN 'past_due' \
                  WHEN n * 7919 % 64 < 54 THEN 'pending' WHEN n * 7919 % 64 < 56 THEN 'unpaid' \
                  WHEN n * 7919 % 64 < 59 THEN 'paused' ELSE 'expired' END";
    let created = time("1735689600 + n * 30");
    let renews = time("1780272000 + n * 104729 % 31536000");
    let ended = time("1735776000 + n * 30");
    let ending = time("1798761600");
    let is_over = "(n * 7919 % 64 < 8 OR n * 7919 % 64 BETWEEN 10 AND 41 AND n % 50 = 0)";
    format!(
        "{id}, {user}, {plan}, 'sub-' || n, 'monthly', {status}, \
         n * 7919 % 64 BETWEEN 8 AND 51, \
         CASE WHEN n * 7919 % 64 BETWEEN 10 AND 51 THEN {renews} END, \
         CASE WHEN n * 7919 % 64 BETWEEN 42 AND 47 AND n % 50 = 1 THEN {ending} ELSE {created} END, \
         CASE WHEN {is_over} THEN {ended} WHEN n * 7919 % 64 < 10 THEN {ending} END, \
         {created}, {created}, 1, n % 97 = 0, NULL, \
         CASE WHEN {is_over} AND n % 1000 <> 0 THEN 2 \
         WHEN n * 7919 % 64 BETWEEN 42 AND 47 AND n % 50 = 1 THEN 0 ELSE 3 END, 'caller', 1"
    )
}

/// The columns of [`row`].
pub const COLUMNS: &str = "id, user_id, subscription_plan_id, external_subscription_id, \
    billing_cycle, status, is_active, renews_at, starts_at, ends_at, created_at, updated_at, version, \
    blocked, anchor_at, access_phase, managed_by, quantity";

/// The id of subscription `n`.
pub fn id(n: u64) -> Uuid {
    let millis = u128::from(1_735_689_600_000 + n * 30_000);
    Uuid::from_u128((millis << 80) | 0x7000_8000_0000_0000_0000 | u128::from(n))
}

/// The id of user or plan `n`. Half of the subscriptions have plan 1, the rest have plan 2 and higher.
pub fn other_id(n: u64) -> Uuid {
    Uuid::from_u128((1 << 80) | 0x7000_8000_0000_0000_0000 | u128::from(n))
}

/// The first page of every kind of list.
pub fn lists() -> Vec<SubscriptionQuery> {
    use SubscriptionStatus::{Active, Cancelled, Expired, PastDue};
    let (soon, later) = (at("2026-06-02T00:00:00Z"), at("2026-09-01T00:00:00Z"));
    let windows =
        [(None, None), (Some(soon), None), (None, Some(later)), (Some(soon), Some(now()))];
    let statuses = [vec![], vec![Active], vec![Cancelled], vec![PastDue, Expired, Cancelled]];
    let plans = [None, Some(PlanId::from(other_id(1))), Some(PlanId::from(other_id(7)))];
    let mut filters = Vec::new();
    for subscription_plan_id in plans {
        for statuses in &statuses {
            for is_active in [None, Some(true), Some(false)] {
                for (renews_before, renews_after) in windows {
                    let statuses = statuses.clone();
                    filters.push(
                        SubscriptionFilter::default()
                            .with_subscription_plan_id(subscription_plan_id)
                            .with_statuses(statuses)
                            .with_is_active(is_active)
                            .with_renews_before(renews_before)
                            .with_renews_after(renews_after),
                    );
                }
            }
        }
    }
    // One user or one external id has few subscriptions, whatever the other filters are.
    let narrowest = filters.last().cloned().unwrap();
    for narrow in [SubscriptionFilter::default(), narrowest] {
        let user_id = Some(UserId::from(other_id(4_321)));
        filters.push(narrow.clone().with_user_id(user_id));
        let external_subscription_id = Some("sub-4321".parse().unwrap());
        filters.push(narrow.with_external_subscription_id(external_subscription_id));
    }
    filters.iter().flat_map(in_every_order).collect()
}

/// The first page and a further one of every kind of list of one user, of one external id, or of both.
pub fn lists_of_few() -> Vec<SubscriptionQuery> {
    use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue};
    let user = Some(UserId::from(other_id(4_321)));
    let external_id = || Some("sub-8642".parse().unwrap());
    let whose = [(user, None), (None, external_id()), (user, external_id())];
    let (before, after) = (Some(at("2026-09-01T00:00:00Z")), Some(now()));
    let windows = [(None, None), (before, None), (None, after), (before, after)];
    let statuses = [vec![], vec![Active], vec![OnTrial], vec![Cancelled], vec![PastDue, Expired]];
    let mut lists = Vec::new();
    for (user_id, external_subscription_id) in whose {
        for subscription_plan_id in [None, Some(PlanId::from(other_id(1)))] {
            for statuses in &statuses {
                for is_active in [None, Some(true), Some(false)] {
                    for (renews_before, renews_after) in windows {
                        let filter = SubscriptionFilter::default()
                            .with_user_id(user_id)
                            .with_subscription_plan_id(subscription_plan_id)
                            .with_statuses(statuses.clone())
                            .with_is_active(is_active)
                            .with_external_subscription_id(external_subscription_id.clone())
                            .with_renews_before(renews_before)
                            .with_renews_after(renews_after);
                        lists.extend(in_every_order(&filter).into_iter().flat_map(with_a_middle));
                    }
                }
            }
        }
    }
    lists
}

fn in_every_order(filter: &SubscriptionFilter) -> Vec<SubscriptionQuery> {
    let mut lists = Vec::new();
    for order in SubscriptionOrder::ALL {
        for direction in [Direction::Ascending, Direction::Descending] {
            let (filter, rest) = (filter.clone(), SubscriptionQuery::default());
            lists.push(
                rest.with_filter(filter)
                    .with_order(order)
                    .with_direction(direction)
                    .with_now(now()),
            );
        }
    }
    lists
}

/// The first page of a list, and a page from its middle.
fn with_a_middle(first: SubscriptionQuery) -> [SubscriptionQuery; 2] {
    let after = Some(middle(&first));
    [first.clone(), first.with_after(after)]
}

/// A position in the middle of a list.
fn middle(list: &SubscriptionQuery) -> Position {
    let key = match list.order {
        SubscriptionOrder::CreatedAt => SortKey::CreatedAt,
        SubscriptionOrder::RenewsAt if list.filter.renews_before.is_some() => {
            SortKey::RenewsAt(at("2026-06-01T12:00:00Z"))
        }
        SubscriptionOrder::RenewsAt => SortKey::RenewsAt(at("2026-12-01T00:00:00Z")),
    };
    Position { key, id: id(500_000) }
}

/// A page from the middle of a list, and the last page, each with its name.
pub async fn further_pages(
    store: &impl Store,
    first: &SubscriptionQuery,
) -> Vec<(&'static str, SubscriptionQuery)> {
    let middle = Some(middle(first));
    let direction = match first.direction {
        Direction::Ascending => Direction::Descending,
        Direction::Descending => Direction::Ascending,
    };
    let backwards = first.clone().with_direction(direction);
    let end = store.list_as::<Subscription>(backwards.clone()).await.unwrap();
    let last = end.items.last().map(|last| first.order.position(last));
    [("middle", middle), ("last", last)]
        .map(|(name, after)| (name, first.clone().with_after(after)))
        .into()
}

/// True if no index supports both the filter and the order: the list is filtered by time of renewal, but ordered by
/// creation.
pub fn is_against_the_grain(query: &SubscriptionQuery) -> bool {
    query.order == SubscriptionOrder::CreatedAt
        && (query.filter.renews_before.is_some() || query.filter.renews_after.is_some())
}

/// A short description of a list.
pub fn brief(query: &SubscriptionQuery) -> String {
    let SubscriptionFilter {
        user_id,
        subscription_plan_id,
        statuses,
        is_active,
        external_subscription_id,
        renews_before,
        renews_after,
        ..
    } = &query.filter;
    let mut words = vec![format!("{:?} {:?}", query.order, query.direction)];
    words.extend(user_id.map(|_| "user".to_owned()));
    words.extend(subscription_plan_id.map(|id| format!("plan {}", id.uuid().as_u128() & 0xff)));
    words.extend(external_subscription_id.as_ref().map(|_| "external".to_owned()));
    words.extend(statuses.iter().map(ToString::to_string));
    words.extend(is_active.map(|active| format!("active={active}")));
    words.extend(renews_before.map(|_| "before".to_owned()));
    words.extend(renews_after.map(|_| "after".to_owned()));
    words.join(" ")
}
