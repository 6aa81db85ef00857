//! The payments of one subscription, in the order of their creation.

use crate::store::StoreExt as _;
use std::sync::Arc;

use super::records::{at_version, payment, subscription};
use super::steps::{deleting, limit, writing};
use super::walk::{DIRECTIONS, directed};
use crate::payments::Payment;
use crate::store::{PaymentQuery, Record, Store};

fn payment_for(subscription_number: u64, n: u64) -> Payment {
    Payment { subscription_id: subscription(subscription_number).id, ..payment(n) }
}

async fn payments_for(store: &Arc<dyn Store>, subscription_number: u64) -> Vec<Arc<Payment>> {
    let query = PaymentQuery::of(subscription(subscription_number).id);
    store.list_as::<Payment>(query.clone()).await.unwrap().items
}

/// Not those of another, in both directions.
pub async fn payments_are_listed_by_their_subscription(store: Arc<dyn Store>) {
    let made: Vec<_> = (0..12).map(|n| payment_for(n % 3, n)).collect();
    store.commit(writing(made.iter().rev().cloned().map(Record::from))).await.unwrap();

    for (wanted, numbers) in [(0, vec![0, 3, 6, 9]), (2, vec![2, 5, 8, 11]), (4, vec![])] {
        for direction in DIRECTIONS {
            let rest = PaymentQuery::of(subscription(wanted).id);
            let first = PaymentQuery { direction, limit: limit(3), ..rest };
            let page = store.list_as::<Payment>(first.clone()).await.unwrap();
            let after = page.next.clone();
            let mut seen = page.items;
            if after.is_some() {
                let rest = PaymentQuery { after, ..first };
                seen.extend(store.list_as::<Payment>(rest.clone()).await.unwrap().items);
            }

            let expected = numbers.iter().map(|n| Arc::new(payment_for(wanted, *n))).collect();
            assert_eq!(seen, directed(expected, direction), "{wanted} {direction:?}");
        }
    }
}

/// Payments are listed after their subscription was deleted.
pub async fn payments_outlive_their_subscription(store: Arc<dyn Store>) {
    let record = Record::from(subscription(1));
    store.commit(writing([record.clone(), Record::from(payment_for(1, 1))])).await.unwrap();

    store.commit(deleting([record])).await.unwrap();

    assert_eq!(payments_for(&store, 1).await, [Arc::new(payment_for(1, 1))]);
    assert_eq!(
        store.get_as::<Payment>(&payment(1).id).await.unwrap(),
        Some(Arc::new(payment_for(1, 1)))
    );
}

/// A payment that turns out to be for another subscription leaves one list and enters another.
pub async fn a_changed_payment_is_listed_by_what_it_is_now(store: Arc<dyn Store>) {
    store.commit(writing([Record::from(payment_for(1, 1))])).await.unwrap();

    let moved = Payment { version: payment(1).version.next(), ..payment_for(2, 1) };
    store.commit(writing([at_version(Record::from(moved.clone()), 2)])).await.unwrap();

    assert_eq!(payments_for(&store, 1).await, []);
    assert_eq!(payments_for(&store, 2).await, [Arc::new(moved)]);
}
