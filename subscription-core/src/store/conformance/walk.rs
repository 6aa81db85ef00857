//! Goes through a list page by page, and checks that each page is one.

use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::StoreExt as _;
use crate::subscriptions::Subscription;
use std::sync::Arc;

use uuid::Uuid;

use super::records::{payment, plan, subscription};
use super::steps::limit;
use crate::store::{
    Direction, Page, PaymentQuery, PlanOrder, PlanQuery, Position, Record, Store,
    SubscriptionOrder, SubscriptionQuery,
};

/// More pages than any list of a case has.
const PAGES_MAX: usize = 500;

pub(super) const DIRECTIONS: [Direction; 2] = [Direction::Ascending, Direction::Descending];

/// Puts what is sorted upwards into a direction.
pub(super) fn directed<T>(mut upwards: Vec<T>, direction: Direction) -> Vec<T> {
    if direction == Direction::Descending {
        upwards.reverse();
    }
    upwards
}

/// Any list in any order, without a filter.
#[derive(Debug, Clone, Copy)]
pub(super) enum List {
    Plans(PlanOrder),
    Subscriptions(SubscriptionOrder),
    Payments,
}

impl List {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let plans = PlanOrder::ALL.map(Self::Plans).into_iter();
        plans.chain(SubscriptionOrder::ALL.map(Self::Subscriptions)).chain([Self::Payments])
    }

    /// Record `n` of the kind that is listed.
    pub(super) fn record(self, n: u64) -> Record {
        match self {
            Self::Plans(_) => Record::from(plan(n)),
            Self::Subscriptions(_) => Record::from(subscription(n)),
            Self::Payments => Record::from(payment(n)),
        }
    }

    /// The place of record `n`.
    pub(super) fn position(self, n: u64) -> Position {
        match self {
            Self::Plans(order) => order.position(&plan(n)),
            Self::Subscriptions(order) => order.position(&subscription(n)),
            Self::Payments => PaymentQuery::position(&payment(n)),
        }
    }

    /// The ids of a page of `size` records.
    pub(super) async fn page(
        self,
        store: &Arc<dyn Store>,
        direction: Direction,
        after: Option<Position>,
        size: usize,
    ) -> Page<Uuid> {
        let limit = limit(size);
        match self {
            Self::Plans(order) => {
                let query = PlanQuery { order, direction, after, limit, ..PlanQuery::default() };
                ids(store.list_as::<Plan>(query.clone()).await.unwrap(), |plan| plan.id.uuid())
            }
            Self::Subscriptions(order) => {
                let rest = SubscriptionQuery::default();
                let query = SubscriptionQuery { order, direction, after, limit, ..rest };
                ids(store.list_as::<Subscription>(query.clone()).await.unwrap(), |found| {
                    found.id.uuid()
                })
            }
            Self::Payments => {
                let rest = PaymentQuery::of(subscription(0).id);
                let query = PaymentQuery { direction, after, limit, ..rest };
                ids(store.list_as::<Payment>(query.clone()).await.unwrap(), |payment| {
                    payment.id.uuid()
                })
            }
        }
    }

    /// The numbers of all records below `known`, from after a place on.
    pub(super) async fn walk(
        self,
        store: &Arc<dyn Store>,
        direction: Direction,
        mut after: Option<Position>,
        size: usize,
        known: u64,
    ) -> Vec<u64> {
        let mut seen = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = self.page(store, direction, after, size).await;
            assert_whole(page.items.len(), page.next.as_ref(), size);
            seen.extend(page.items.iter().map(|id| self.number(*id, known)));
            let Some(next) = page.next else { return seen };
            assert_eq!(Some(next.id), page.items.last().copied(), "{self:?}");
            after = Some(next);
        }
        panic!("{self:?} does not end");
    }

    /// The number of the record of this id.
    pub(super) fn number(self, id: Uuid, known: u64) -> u64 {
        let number = (0..known).find(|n| self.position(*n).id == id);
        number.unwrap_or_else(|| panic!("{self:?} has {id}, which is not among {known}"))
    }
}

fn ids<T>(page: Page<T>, id: impl Fn(&T) -> Uuid) -> Page<Uuid> {
    Page { items: page.items.iter().map(id).collect(), next: page.next }
}

/// A page that others follow is full; none has more than its limit.
#[track_caller]
fn assert_whole(len: usize, next: Option<&Position>, size: usize) {
    assert!(len <= size, "{len} records on a page of {size}");
    assert!(next.is_none() || len == size, "{len} of {size} records on a page before others");
}

/// The ids of all plans of a list.
pub(super) async fn plan_ids(store: &Arc<dyn Store>, mut query: PlanQuery) -> Vec<Uuid> {
    let mut seen = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = store.list_as::<Plan>(query.clone()).await.unwrap();
        assert_whole(page.items.len(), page.next.as_ref(), query.limit.get());
        let last = page.items.last().map(|plan| query.order.position(plan));
        seen.extend(page.items.iter().map(|plan| plan.id.uuid()));
        query.after = page.next;
        if query.after.is_none() {
            return seen;
        }
        assert_eq!(query.after, last, "{query:?}");
    }
    panic!("the list does not end: {query:?}");
}

/// The ids of all subscriptions of a list.
pub(super) async fn subscription_ids(
    store: &Arc<dyn Store>,
    mut query: SubscriptionQuery,
) -> Vec<Uuid> {
    let mut seen = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = store.list_as::<Subscription>(query.clone()).await.unwrap();
        assert_whole(page.items.len(), page.next.as_ref(), query.limit.get());
        let last = page.items.last().map(|found| query.order.position(found));
        seen.extend(page.items.iter().map(|found| found.id.uuid()));
        query.after = page.next;
        if query.after.is_none() {
            return seen;
        }
        assert_eq!(query.after, last, "{query:?}");
    }
    panic!("the list does not end: {query:?}");
}
