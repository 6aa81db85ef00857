//! Reads lists page by page, and checks each page.

use std::sync::Arc;

use super::records::{payment, plan, subscription};
use super::steps::limit;
use crate::store::{
    Direction, DuePayments, DueSubscriptions, Page, PaymentQuery, PlanOrder, PlanQuery, Position,
    Query, Record, Store, SubscriptionOrder, SubscriptionQuery,
};

/// A list has fewer pages than this in every case, so a list that never ends makes the case fail.
const PAGES_MAX: usize = 500;

pub(super) const DIRECTIONS: [Direction; 2] = [Direction::Ascending, Direction::Descending];

/// Sorts a list that is in ascending order into this direction.
pub(super) fn directed<T>(mut upwards: Vec<T>, direction: Direction) -> Vec<T> {
    if direction == Direction::Descending {
        upwards.reverse();
    }
    upwards
}

/// The position of a record in a list.
fn position(query: &Query, record: &Record) -> Position {
    match (query, record) {
        (Query::Plan(query), Record::Plan(plan)) => query.order.position(plan),
        (Query::Subscription(query), Record::Subscription(found)) => query.order.position(found),
        (Query::Payment(_), Record::Payment(payment)) => PaymentQuery::position(payment),
        (Query::DueSubscriptions(_), Record::Subscription(found)) => {
            DueSubscriptions::position(found).unwrap()
        }
        (Query::DuePayments(_), Record::Payment(found)) => DuePayments::position(found).unwrap(),
        (Query::Document(query), Record::Document(document)) => query.position(document),
        _ => panic!("{query:?} lists {record:?}"),
    }
}

/// The position after which the page of a query begins, its size and its direction.
fn window(query: &mut Query) -> (&mut Option<Position>, usize, Direction) {
    match query {
        Query::Plan(query) => (&mut query.after, query.limit.get(), query.direction),
        Query::Subscription(query) => (&mut query.after, query.limit.get(), query.direction),
        Query::Payment(query) => (&mut query.after, query.limit.get(), query.direction),
        Query::DueSubscriptions(query) => {
            (&mut query.after, query.limit.get(), Direction::Ascending)
        }
        Query::DuePayments(query) => (&mut query.after, query.limit.get(), Direction::Ascending),
        Query::Document(query) => (&mut query.after, query.limit.get(), Direction::Ascending),
        Query::User(_) | Query::Session(_) | Query::Client(_) | Query::Idempotency(_) => {
            panic!("a list without pages")
        }
    }
}

/// The records of a list to its end, page by page. A page that other pages follow is full and names the position of its
/// last record; no page has more records than its limit.
pub(super) async fn walk(store: &Arc<dyn Store>, mut query: Query) -> Vec<Record> {
    let mut seen = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = store.list(&query).await.unwrap();
        let last = page.items.last().map(|record| position(&query, record));
        let (after, size, _) = window(&mut query);
        let len = page.items.len();
        assert!(len <= size, "{len} records on a page of {size}");
        seen.extend(page.items);
        *after = page.next;
        if after.is_none() {
            return seen;
        }
        assert_eq!((len, after.as_ref()), (size, last.as_ref()), "a page before others");
    }
    panic!("the list does not end: {query:?}");
}

/// Asserts that a list shows these records, and no others, sorted by their positions.
pub(super) async fn assert_list<R: Into<Record>>(
    store: &Arc<dyn Store>,
    mut query: Query,
    records: impl Iterator<Item = R> + Send,
) {
    let mut expected: Vec<Record> = records.map(R::into).collect();
    expected.sort_by_cached_key(|record| position(&query, record));
    let (after, _, direction) = window(&mut query);
    if let Some(after) = after.clone() {
        expected.retain(|record| match direction {
            Direction::Ascending => position(&query, record) > after,
            Direction::Descending => position(&query, record) < after,
        });
    }

    let seen = walk(store, query.clone()).await;

    assert_eq!(seen, directed(expected, direction), "{query:?}");
}

/// Any list in any order, without a filter.
#[derive(Debug, Clone, Copy)]
pub(super) enum List {
    Plans(PlanOrder),
    Subscriptions(SubscriptionOrder),
    /// The payments of one subscription.
    Payments,
    AllPayments,
}

impl List {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let plans = PlanOrder::ALL.map(Self::Plans).into_iter();
        plans
            .chain(SubscriptionOrder::ALL.map(Self::Subscriptions))
            .chain([Self::Payments, Self::AllPayments])
    }

    /// Every list in both directions.
    pub(super) fn directed() -> impl Iterator<Item = (Self, Direction)> {
        Self::all().flat_map(|list| DIRECTIONS.map(|direction| (list, direction)))
    }

    /// Record `n` of the kind that is listed.
    pub(super) fn record(self, n: u64) -> Record {
        match self {
            Self::Plans(_) => Record::from(plan(n)),
            Self::Subscriptions(_) => Record::from(subscription(n)),
            Self::Payments | Self::AllPayments => Record::from(payment(n)),
        }
    }

    fn query(self, direction: Direction, after: Option<Position>, size: usize) -> Query {
        let limit = limit(size);
        match self {
            Self::Plans(order) => {
                Query::Plan(PlanQuery { order, direction, after, limit, ..PlanQuery::default() })
            }
            Self::Subscriptions(order) => {
                let rest = SubscriptionQuery::default();
                Query::Subscription(SubscriptionQuery { order, direction, after, limit, ..rest })
            }
            Self::Payments => {
                let rest = PaymentQuery::of(subscription(0).id);
                Query::Payment(PaymentQuery { direction, after, limit, ..rest })
            }
            Self::AllPayments => {
                Query::Payment(PaymentQuery { direction, after, limit, ..PaymentQuery::all() })
            }
        }
    }

    /// The position of record `n`.
    pub(super) fn position(self, n: u64) -> Position {
        position(&self.query(Direction::Ascending, None, 1), &self.record(n))
    }

    /// A page of `size` records.
    pub(super) async fn page(
        self,
        store: &Arc<dyn Store>,
        direction: Direction,
        after: Option<Position>,
        size: usize,
    ) -> Page<Record> {
        store.list(&self.query(direction, after, size)).await.unwrap()
    }

    /// The numbers of all records below `known` that come after a position.
    pub(super) async fn walk(
        self,
        store: &Arc<dyn Store>,
        direction: Direction,
        after: Option<Position>,
        size: usize,
        known: u64,
    ) -> Vec<u64> {
        let seen = walk(store, self.query(direction, after, size)).await;
        seen.iter().map(|record| self.number(record, known)).collect()
    }

    /// The number of a record.
    pub(super) fn number(self, record: &Record, known: u64) -> u64 {
        let number = (0..known).find(|n| self.record(*n).key() == record.key());
        number.unwrap_or_else(|| panic!("{record:?} is not among {known}"))
    }
}
