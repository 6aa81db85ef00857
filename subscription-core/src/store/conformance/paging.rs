//! Every list in every order: page by page, each record exactly once.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::records::{at_version, parsed, plan, subscription};
use super::steps::{deleting, writing};
use super::walk::{DIRECTIONS, List, directed};
use crate::plans::{Plan, Tier};
use crate::store::{Direction, PlanOrder, Record, Store, SubscriptionOrder};
use crate::subscriptions::Subscription;

/// The kinds of records that are listed, each once.
fn kinds() -> [List; 3] {
    [
        List::Plans(PlanOrder::default()),
        List::Subscriptions(SubscriptionOrder::default()),
        List::Payments,
    ]
}

/// Makes records of each kind that is listed.
async fn make(store: &Arc<dyn Store>, numbers: impl Iterator<Item = u64> + Clone + Send) {
    for list in kinds() {
        store.commit(writing(numbers.clone().map(|n| list.record(n)))).await.unwrap();
    }
}

/// Deletes records of each kind that is listed.
async fn unmake(store: &Arc<dyn Store>, numbers: impl Iterator<Item = u64> + Clone + Send) {
    for list in kinds() {
        store.commit(deleting(numbers.clone().map(|n| list.record(n)))).await.unwrap();
    }
}

/// No record, and nothing that follows.
pub async fn an_empty_list_is_one_empty_page(store: Arc<dyn Store>) {
    for list in List::all() {
        for direction in DIRECTIONS {
            for after in [None, Some(list.position(3))] {
                let page = list.page(&store, direction, after, 1).await;

                assert_eq!((page.items.len(), page.next), (0, None), "{list:?} {direction:?}");
            }
        }
    }
}

/// In both directions, with pages of any size; alike ones by id, in the same direction.
pub async fn every_list_is_walked_in_order_by_pages_of_any_size(store: Arc<dyn Store>) {
    // Made in another order than they are listed in.
    make(&store, (0..12).rev()).await;

    for list in List::all() {
        for direction in DIRECTIONS {
            for size in [1, 2, 3, 5, 11, 12, 13, 200] {
                let seen = list.walk(&store, direction, None, size, 12).await;

                let expected = directed((0..12).collect(), direction);
                assert_eq!(seen, expected, "{list:?} {direction:?} by {size}");
            }
        }
    }
}

/// As many as there may be, as long as there are some.
pub async fn a_page_holds_as_many_records_as_its_limit(store: Arc<dyn Store>) {
    make(&store, 0..7).await;

    for list in List::all() {
        for direction in DIRECTIONS {
            for size in 1..=7 {
                let page = list.page(&store, direction, None, size).await;

                assert_eq!(page.items.len(), size, "{list:?} {direction:?}");
            }
        }
    }
}

/// The last page says so, even if it is full.
pub async fn a_page_names_its_end_only_if_more_follow(store: Arc<dyn Store>) {
    make(&store, 0..6).await;

    for list in List::all() {
        for direction in DIRECTIONS {
            let numbers: Vec<u64> = directed((0..6).collect(), direction);
            for (size, last) in numbers.into_iter().enumerate().map(|(n, last)| (n + 1, last)) {
                let page = list.page(&store, direction, None, size).await;

                let expected = (size < 6).then(|| list.position(last));
                assert_eq!(page.next, expected, "{list:?} {direction:?} by {size}");
            }
        }
    }
}

/// From after any record on, in both directions; after the last there is nothing.
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

/// Whether its record is deleted or never was.
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

/// While others are made and deleted before, at and after the place that a reader has come to.
pub async fn a_record_that_stays_is_seen_exactly_once(store: Arc<dyn Store>) {
    for list in List::all() {
        for direction in DIRECTIONS {
            // The even ones stay, the odd ones come and go.
            let stay = || (0..40).step_by(2).map(|n| list.record(n));
            store.commit(writing(stay())).await.unwrap();
            let mut others: BTreeSet<_> = (1..40).step_by(4).collect();
            store.commit(writing(others.iter().map(|n| list.record(*n)))).await.unwrap();
            let mut seen = Vec::new();
            let mut after = None;
            for round in 0..100_u64 {
                let page = list.page(&store, direction, after, 3).await;
                seen.extend(page.items.iter().map(|id| list.number(*id, 40)));
                after = page.next;
                if after.is_none() {
                    break;
                }
                let anywhere = [7, 13, 29].map(|step| (round * step) % 20 * 2 + 1);
                let here = seen.last().copied().filter(|n| n % 2 == 1);
                for other in anywhere.into_iter().chain(here).collect::<BTreeSet<_>>() {
                    let record = || [list.record(other)];
                    let changes = if others.remove(&other) {
                        deleting(record())
                    } else {
                        others.insert(other);
                        writing(record())
                    };
                    store.commit(changes).await.unwrap();
                }
            }

            let stayed: Vec<u64> = seen.iter().copied().filter(|n| n % 2 == 0).collect();
            let expected: Vec<u64> = directed((0..40).step_by(2).collect(), direction);
            assert_eq!(stayed, expected, "{list:?} {direction:?}");
            let in_order = directed(seen, direction);
            assert!(in_order.is_sorted_by(|a, b| a < b), "{list:?} {direction:?} {in_order:?}");

            store.commit(deleting(stay())).await.unwrap();
            store.commit(deleting(others.iter().map(|n| list.record(*n)))).await.unwrap();
        }
    }
}

/// A record that moves in a list stands at its new place, and no longer at the old one.
pub async fn a_changed_record_is_listed_at_its_new_place(store: Arc<dyn Store>) {
    make(&store, 0..6).await;

    let last = Plan {
        tier: Tier::new(Tier::MAX).unwrap(),
        price: parsed("1000"),
        name: parsed("Z"),
        ..plan(1)
    };
    let renewed = Subscription { renews_at: None, ..subscription(1) };
    let moved = [Record::from(last), Record::from(renewed)];
    store.commit(writing(moved.map(|record| at_version(record, 2)))).await.unwrap();

    for list in List::all() {
        let by_creation = matches!(
            list,
            List::Plans(PlanOrder::CreatedAt)
                | List::Subscriptions(SubscriptionOrder::CreatedAt)
                | List::Payments
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
