//! Payments, of one subscription and of all, in the order of their creation.

use std::sync::Arc;

use super::records::{payment, subscription};
use super::steps::{assert_stored, limit, put, remove};
use super::walk::{DIRECTIONS, assert_list};
use crate::payments::Payment;
use crate::store::{PaymentQuery, Query, Store};
use crate::subscriptions::Subscription;

fn payment_for(subscription_number: u64, n: u64) -> Payment {
    Payment { subscription_id: subscription(subscription_number).id, ..payment(n) }
}

/// Asserts that the list of a subscription has these payments, in both directions.
async fn assert_payments(store: &Arc<dyn Store>, subscription_number: u64, payments: &[Payment]) {
    let of = PaymentQuery::of(subscription(subscription_number).id);
    assert_listed(store, &of, payments).await;
}

async fn assert_listed(store: &Arc<dyn Store>, of: &PaymentQuery, payments: &[Payment]) {
    for direction in DIRECTIONS {
        let query = Query::Payment(PaymentQuery { direction, limit: limit(3), ..of.clone() });
        assert_list(store, query, payments.iter().cloned()).await;
    }
}

/// A list has no payment of another subscription.
pub async fn payments_are_listed_by_their_subscription(store: Arc<dyn Store>) {
    put(&store, (0..12).rev().map(|n| payment_for(n % 3, n))).await;

    assert_payments(&store, 0, &[0, 3, 6, 9].map(|n| payment_for(0, n))).await;
    assert_payments(&store, 2, &[2, 5, 8, 11].map(|n| payment_for(2, n))).await;
    assert_payments(&store, 4, &[]).await;
}

/// The list of all payments is sorted by id, whichever subscriptions the payments are for, and shows each payment as it
/// is now.
pub async fn payments_of_all_subscriptions_are_listed_by_id(store: Arc<dyn Store>) {
    assert_listed(&store, &PaymentQuery::all(), &[]).await;
    put(&store, [subscription(1)]).await;
    put(&store, (0..12).rev().map(|n| payment_for(n % 3, n))).await;

    let moved = Payment { version: payment(4).version.next(), ..payment_for(5, 4) };
    put(&store, [moved.clone()]).await;
    remove(&store, [payment_for(0, 9)]).await;
    remove(&store, [subscription(1)]).await;

    let others = (0..12).filter(|n| ![4, 9].contains(n)).map(|n| payment_for(n % 3, n));
    let payments: Vec<_> = others.chain([moved]).collect();
    assert_listed(&store, &PaymentQuery::all(), &payments).await;
}

/// The list of a user has the payments for all subscriptions of the user, and no others.
pub async fn payments_are_listed_by_their_user(store: Arc<dyn Store>) {
    let user_id = subscription(0).user_id;
    let held = |n| Subscription { user_id, ..subscription(n) };
    put(&store, [held(0), held(1)]).await;
    put(&store, [subscription(2)]).await;
    put(&store, (0..12).rev().map(|n| payment_for(n % 4, n))).await;

    let paid = |of: &[u64]| -> Vec<_> {
        (0..12).filter(|n| of.contains(&(n % 4))).map(|n| payment_for(n % 4, n)).collect()
    };
    assert_listed(&store, &PaymentQuery::of_user(user_id), &paid(&[0, 1])).await;
    assert_listed(&store, &PaymentQuery::of_user(subscription(2).user_id), &paid(&[2])).await;
    assert_listed(&store, &PaymentQuery::of_user(subscription(5).user_id), &[]).await;
    remove(&store, [held(1)]).await;
    assert_listed(&store, &PaymentQuery::of_user(user_id), &paid(&[0])).await;
}

/// Payments are listed after their subscription was deleted.
pub async fn payments_outlive_their_subscription(store: Arc<dyn Store>) {
    put(&store, [subscription(1)]).await;
    put(&store, [payment_for(1, 1)]).await;

    remove(&store, [subscription(1)]).await;

    assert_payments(&store, 1, &[payment_for(1, 1)]).await;
    assert_stored(&store, [payment_for(1, 1)]).await;
}

/// A payment that is changed to another subscription leaves one list and enters another.
pub async fn a_changed_payment_is_listed_by_what_it_is_now(store: Arc<dyn Store>) {
    put(&store, [payment_for(1, 1)]).await;

    let moved = Payment { version: payment(1).version.next(), ..payment_for(2, 1) };
    put(&store, [moved.clone()]).await;

    assert_payments(&store, 1, &[]).await;
    assert_payments(&store, 2, &[moved]).await;
}
