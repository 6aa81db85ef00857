//! Lists of due records: subscriptions with a due step, and payments to collect or to retry.

use std::sync::Arc;

use super::records::{asked_payment, at, at_version, due_subscription, payment, subscription};
use super::steps::{limit, put, remove};
use super::walk::assert_list;
use crate::payments::{Payment, PaymentKind, PaymentStatus};
use crate::store::{
    DuePayments, DueSubscriptions, Query, Record, Store, StoreExt as _, UniqueValue,
};
use crate::subscriptions::Subscription;
use crate::values::Timestamp;

/// The moment one microsecond before `at`.
fn before(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.micros() - 1).unwrap()
}

/// Asserts that the list until a moment has these subscriptions, by pages of any size.
async fn assert_due(store: &Arc<dyn Store>, until: Timestamp, due: &[Subscription]) {
    for size in [1, 2, 3, 100] {
        let query = DueSubscriptions::until(until).with_limit(limit(size));
        assert_list(store, Query::DueSubscriptions(query), due.iter().cloned()).await;
    }
}

/// Asserts that the list of payments in a status, until a moment, has these payments.
async fn assert_to_do(
    store: &Arc<dyn Store>,
    status: PaymentStatus,
    until: Timestamp,
    due: &[Payment],
) {
    for size in [1, 2, 3, 100] {
        let query = DuePayments::until(status, until).with_limit(limit(size));
        assert_list(store, Query::DuePayments(query), due.iter().cloned()).await;
    }
}

/// Subscriptions that are due at the same moment are sorted by id. A subscription that is due at the last moment is in
/// the list; one that the clock does not manage is in no list.
pub async fn subscriptions_that_are_due_are_listed_the_longest_due_first(store: Arc<dyn Store>) {
    assert_due(&store, Timestamp::MAX, &[]).await;
    let due = [(1, 30), (2, 10), (3, 20), (4, 20), (5, 40), (6, 10)];
    let due = due.map(|(n, seconds)| due_subscription(n, seconds));
    put(&store, due.clone()).await;
    put(&store, [subscription(7)]).await;

    assert_due(&store, Timestamp::MAX, &due).await;
    for seconds in [10, 20, 30, 40] {
        let by = |until: Timestamp| {
            let mut due = due.to_vec();
            due.retain(|found| found.next_action_at() <= Some(until));
            due
        };
        assert_due(&store, at(seconds), &by(at(seconds))).await;
        let earlier = before(at(seconds));
        assert_due(&store, earlier, &by(earlier)).await;
    }
}

/// Pending and processing payments are listed when they are due, failed payments at their next attempt. Payments in
/// other statuses, and payments without a period, are not listed.
pub async fn payments_that_are_due_are_listed_by_status_the_longest_due_first(
    store: Arc<dyn Store>,
) {
    let kinds = [PaymentKind::Initial, PaymentKind::Renewal, PaymentKind::Proration];
    let mut all = Vec::new();
    for (status, place) in PaymentStatus::all().zip(0..) {
        for ((n, start), kind) in (1..).zip([30, 10, 20, 20, 40]).zip(kinds.into_iter().cycle()) {
            let mut paid = asked_payment(place * 10 + n, kind, start);
            paid.subscription_id = subscription(place * 10 + n).id;
            all.push(Payment { status, ..paid });
        }
        all.push(Payment { status, ..payment(place * 10 + 9) });
    }
    // A payment that has failed and has no next attempt.
    let mut given_up = asked_payment(1_000, PaymentKind::Proration, 10);
    given_up.status = PaymentStatus::Failed;
    given_up.asked.as_mut().unwrap().next_attempt_at = None;
    all.push(given_up);
    put(&store, all.clone()).await;

    for status in PaymentStatus::all() {
        for until in [10, 20, 30, 40, 50].map(at) {
            for until in [until, before(until)] {
                let mut due = all.clone();
                due.retain(|paid| paid.status == status && paid.action_at().is_some());
                due.retain(|paid| paid.action_at() <= Some(until));
                assert_to_do(&store, status, until, &due).await;
            }
        }
    }
}

/// A changed record is listed at its new moment, in the list of its new status, or in no list.
pub async fn a_changed_record_is_due_when_it_is_now(store: Arc<dyn Store>) {
    let collected = asked_payment(1, PaymentKind::Renewal, 10);
    put(&store, [Record::from(due_subscription(1, 10)), Record::from(due_subscription(2, 20))])
        .await;
    put(&store, [collected.clone()]).await;

    put(&store, [at_version(due_subscription(1, 30), 2)]).await;
    let failed = Payment {
        status: PaymentStatus::Failed,
        version: collected.version.next(),
        ..collected.clone()
    };
    put(&store, [failed.clone()]).await;

    assert_due(&store, at(20), &[due_subscription(2, 20)]).await;
    let moved = Subscription { version: failed.version, ..due_subscription(1, 30) };
    assert_due(&store, at(30), &[due_subscription(2, 20), moved]).await;
    assert_to_do(&store, PaymentStatus::Pending, at(100), &[]).await;
    assert_to_do(&store, PaymentStatus::Failed, at(20), &[failed]).await;

    put(&store, [at_version(subscription(1), 3)]).await;
    remove(&store, [due_subscription(2, 20)]).await;
    let status = PaymentStatus::Succeeded;
    put(&store, [at_version(Payment { status, ..collected }, 3)]).await;

    assert_due(&store, at(100), &[]).await;
    assert_to_do(&store, PaymentStatus::Failed, at(100), &[]).await;
    assert_to_do(&store, PaymentStatus::Succeeded, at(100), &[]).await;
}

/// A provider may have several payments for one period, beside one that is collected here.
pub async fn a_mirrored_payment_is_never_due_and_claims_no_period(store: Arc<dyn Store>) {
    let mirrored = |n: u64, status: PaymentStatus| {
        let mut paid = asked_payment(n, PaymentKind::Renewal, 10);
        paid.asked.as_mut().unwrap().mirrored = true;
        Payment { status, ..paid }
    };
    let theirs = || PaymentStatus::all().zip((0_u64..).step_by(10));
    for (status, n) in theirs() {
        put(&store, [mirrored(n, status), mirrored(n + 1, status)]).await;
    }
    let period = UniqueValue::PaymentPeriod(subscription(0).id, at(10));
    let own = asked_payment(1_000, PaymentKind::Renewal, 10);

    assert_eq!(store.find(period).await.unwrap(), None);
    put(&store, [own.clone()]).await;

    assert_eq!(store.find(period).await.unwrap(), Some(own.clone().into()));
    // In every other status, none of these payments is due.
    for ((_, n), status) in
        theirs().zip(PaymentStatus::all().skip(1).chain([PaymentStatus::Pending]))
    {
        put(&store, [at_version(mirrored(n, status), 2)]).await;
    }
    for status in PaymentStatus::all() {
        let due = [own.clone()];
        let due = if status == PaymentStatus::Pending { &due[..] } else { &[] };
        assert_to_do(&store, status, Timestamp::MAX, due).await;
    }

    // A payment that a provider takes over gives its period up, and is no longer due.
    put(&store, [at_version(mirrored(1_000, PaymentStatus::Pending), 2)]).await;

    assert_eq!(store.find(period).await.unwrap(), None);
    assert_to_do(&store, PaymentStatus::Pending, Timestamp::MAX, &[]).await;
    put(&store, [asked_payment(1_001, PaymentKind::Initial, 10)]).await;
}

/// A reader walks along the list. Meanwhile the records that it has seen are written with a later due time, and other
/// records become due before and after its position.
pub async fn a_walk_along_what_is_due_misses_nothing_that_waits(store: Arc<dyn Store>) {
    let due: Vec<_> = (0..40).map(|n| due_subscription(n, 100 + n / 4)).collect();
    put(&store, due.clone()).await;
    let mut query = DueSubscriptions::until(at(200)).with_limit(limit(3));
    let mut seen = Vec::new();
    for round in 0..100 {
        let page = store.due_subscriptions(query.clone()).await.unwrap();
        for found in page.items {
            let n = due.iter().position(|one| one.id == found.id);
            if let Some(n) = n {
                let n = u64::try_from(n).unwrap();
                put(&store, [at_version(due_subscription(n, 300), 2)]).await;
            }
            seen.push(found);
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
        // These records are due before the position, and after the last moment of the list.
        put(&store, [due_subscription(1_000 + round, 50), due_subscription(2_000 + round, 201)])
            .await;
    }

    let seen: Vec<_> = seen.iter().map(|found| (**found).clone()).collect();
    assert_eq!(seen, due);
}
