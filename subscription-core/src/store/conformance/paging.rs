//! Pages of every list in every order: each record is on exactly one page.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::records::{at_version, parsed, plan, subscription};
use super::steps::{put, remove};
use super::walk::{DIRECTIONS, List, directed};
use crate::plans::{Plan, Tier};
use crate::store::{Direction, PlanOrder, Store, SubscriptionOrder};
use crate::subscriptions::Subscription;

/// The kinds of records that are listed, each once.
fn kinds() -> [List; 3] {
    [
        List::Plans(PlanOrder::default()),
        List::Subscriptions(SubscriptionOrder::default()),
        List::Payments,
    ]
}

/// Creates records of each kind that is listed.
async fn make(store: &Arc<dyn Store>, numbers: impl Iterator<Item = u64> + Clone + Send) {
    for list in kinds() {
        put(store, numbers.clone().map(|n| list.record(n))).await;
    }
}

/// Deletes records of each kind that is listed.
async fn unmake(store: &Arc<dyn Store>, numbers: impl Iterator<Item = u64> + Clone + Send) {
    for list in kinds() {
        remove(store, numbers.clone().map(|n| list.record(n))).await;
    }
}

/// The page has no record and no next position.
pub async fn an_empty_list_is_one_empty_page(store: Arc<dyn Store>) {
    for (list, direction) in List::directed() {
        for after in [None, Some(list.position(3))] {
            let page = list.page(&store, direction, after, 1).await;

            assert_eq!((page.items.len(), page.next), (0, None), "{list:?} {direction:?}");
        }
    }
}

/// The lists are walked in both directions, with pages of any size. Records with the same value are sorted by id, in
/// the same direction.
pub async fn every_list_is_walked_in_order_by_pages_of_any_size(store: Arc<dyn Store>) {
    // The records are created in another order than that of the lists.
    make(&store, (0..12).rev()).await;

    for (list, direction) in List::directed() {
        for size in [1, 2, 3, 5, 11, 12, 13, 200] {
            let seen = list.walk(&store, direction, None, size, 12).await;

            let expected = directed((0..12).collect(), direction);
            assert_eq!(seen, expected, "{list:?} {direction:?} by {size}");
        }
    }
}

/// A page is as long as its limit if there are enough records. It has a next position if more records follow: the last
/// page has none, even if it is full. The limit may be larger than the largest one that a caller can request.
pub async fn a_page_holds_as_many_records_as_its_limit(store: Arc<dyn Store>) {
    make(&store, 0..201).await;

    for (list, direction) in List::directed() {
        for (size, last) in (1..).zip(directed((0..201).collect(), direction)).step_by(40) {
            let page = list.page(&store, direction, None, size).await;

            let next = (size < 201).then(|| list.position(last));
            assert_eq!((page.items.len(), page.next), (size, next), "{list:?} {direction:?}");
        }
    }
}

/// A page can start after any record, in both directions; after the last record it is empty.
pub async fn a_page_starts_right_after_its_position(store: Arc<dyn Store>) {
    make(&store, 0..8).await;

    for list in List::all() {
        for n in 0..8 {
            let position = Some(list.position(n));
            let up = list.walk(&store, Direction::Ascending, position.clone(), 3, 8).await;
            let down = list.walk(&store, Direction::Descending, position, 3, 8).await;

            assert_eq!(up, (n + 1..8).collect::<Vec<_>>(), "{list:?}");
            assert_eq!(down, (0..n).rev().collect::<Vec<_>>(), "{list:?}");
        }
    }
}

/// The record of the position was deleted, or never existed.
pub async fn a_position_need_not_be_that_of_a_record(store: Arc<dyn Store>) {
    make(&store, (0..8).filter(|n| *n != 5)).await;
    unmake(&store, 2..3).await;
    let left = [0, 1, 3, 4, 6, 7];

    for list in List::all() {
        for n in [2, 5] {
            let position = Some(list.position(n));
            let up = list.walk(&store, Direction::Ascending, position.clone(), 2, 8).await;
            let down = list.walk(&store, Direction::Descending, position, 2, 8).await;

            let above: Vec<_> = left.into_iter().filter(|other| *other > n).collect();
            let below: Vec<_> = left.into_iter().rev().filter(|other| *other < n).collect();
            assert_eq!((up, down), (above, below), "{list:?} after {n}");
        }
    }
}

/// Other records are created and deleted before, at and after the position that a reader has reached.
pub async fn a_record_that_stays_is_seen_exactly_once(store: Arc<dyn Store>) {
    for (list, direction) in List::directed() {
        // The records with even numbers stay; those with odd numbers are created and deleted.
        let stay = || (0..40).step_by(2).map(|n| list.record(n));
        put(&store, stay()).await;
        let mut others: BTreeSet<_> = (1..40).step_by(4).collect();
        put(&store, others.iter().map(|n| list.record(*n))).await;
        let mut seen = Vec::new();
        let mut after = None;
        for round in 0..100_u64 {
            let page = list.page(&store, direction, after, 3).await;
            seen.extend(page.items.iter().map(|record| list.number(record, 40)));
            after = page.next;
            if after.is_none() {
                break;
            }
            let anywhere = [7, 13, 29].map(|step| (round * step) % 20 * 2 + 1);
            let here = seen.last().copied().filter(|n| n % 2 == 1);
            for other in anywhere.into_iter().chain(here).collect::<BTreeSet<_>>() {
                if others.remove(&other) {
                    remove(&store, [list.record(other)]).await;
                } else {
                    others.insert(other);
                    put(&store, [list.record(other)]).await;
                }
            }
        }

        let stayed: Vec<u64> = seen.iter().copied().filter(|n| n % 2 == 0).collect();
        let expected: Vec<u64> = directed((0..40).step_by(2).collect(), direction);
        assert_eq!(stayed, expected, "{list:?} {direction:?}");
        let in_order = directed(seen, direction);
        assert!(in_order.is_sorted_by(|a, b| a < b), "{list:?} {direction:?} {in_order:?}");

        remove(&store, stay()).await;
        remove(&store, others.iter().map(|n| list.record(*n))).await;
    }
}

/// A record whose sort value changes is listed at its new position, and no longer at the old one.
pub async fn a_changed_record_is_listed_at_its_new_place(store: Arc<dyn Store>) {
    make(&store, 0..6).await;

    let last = Plan {
        tier: Tier::new(Tier::MAX).unwrap(),
        price: parsed("1000"),
        name: parsed("Z"),
        ..plan(1)
    };
    let renewed = Subscription { renews_at: None, ..subscription(1) };
    put(&store, [at_version(last, 2), at_version(renewed, 2)]).await;

    for list in List::all() {
        let by_creation = matches!(
            list,
            List::Plans(PlanOrder::CreatedAt)
                | List::Subscriptions(SubscriptionOrder::CreatedAt)
                | List::Payments
                | List::AllPayments
        );
        let upwards = if by_creation { [0, 1, 2, 3, 4, 5] } else { [0, 2, 3, 4, 5, 1] };
        for direction in DIRECTIONS {
            let seen = list.walk(&store, direction, None, 2, 6).await;

            assert_eq!(seen, directed(upwards.to_vec(), direction), "{list:?} {direction:?}");
        }
    }
}

/// A record that is deleted and made again is listed once.
pub async fn a_record_made_again_is_listed_once(store: Arc<dyn Store>) {
    make(&store, 0..4).await;
    unmake(&store, 1..3).await;
    make(&store, 1..3).await;

    for list in List::all() {
        let seen = list.walk(&store, Direction::Ascending, None, 3, 4).await;

        assert_eq!(seen, [0, 1, 2, 3], "{list:?}");
    }
}
