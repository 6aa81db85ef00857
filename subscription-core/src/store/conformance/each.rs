//! Many change sets in one call: each is taken or refused alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::records::{at, at_version, event, one_of_each, payment, plan, subscription};
use super::steps::{assert_refused, deleting, put, stored, unchanged, writing};
use crate::events::Event;
use crate::payments::Payment;
use crate::store::{
    BadChangeSet, ChangeSet, EventQuery, PageLimit, Record, Store, StoreError, Unique,
};
use crate::subscriptions::Subscription;

/// The change set of a step of the clock: subscription `n` is renewed to this version, a payment is requested,
/// and both have an event.
pub(super) fn renewal(n: u64, version: u64) -> ChangeSet {
    let place = version * 1_000 + n;
    let renewed = Subscription { renews_at: Some(at(20_000 + place)), ..subscription(n) };
    ChangeSet {
        events: vec![event(2 * place), event(2 * place + 1)],
        ..writing([at_version(renewed, version), payment(place).into()])
    }
}

/// Every event of the feed, in order.
pub(super) async fn every_event(store: &Arc<dyn Store>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut after = 0;
    loop {
        let page = store.events(&EventQuery::after(after, PageLimit::MAX)).await.unwrap();
        let Some(last) = page.items.last() else { return events };
        after = last.sequence;
        events.extend(page.items.into_iter().map(|recorded| recorded.event));
    }
}

/// Commits sets by one call, and asserts that each has its expected result: that some were taken, one after the
/// other, and that nothing of the others was written.
async fn assert_each(store: &Arc<dyn Store>, sets: Vec<(ChangeSet, Result<(), StoreError>)>) {
    let mut records = BTreeMap::new();
    let mut events = every_event(store).await;
    for (changes, _) in &sets {
        let deleted = changes.deletes.iter().map(|delete| delete.key.clone());
        for key in changes.writes.iter().map(Record::key).chain(deleted) {
            records.insert(key.clone(), stored(store, &key).await);
        }
    }

    let outcomes = store.commit_each(sets.iter().map(|(changes, _)| changes.clone()).collect());
    let outcomes = outcomes.await;

    assert_eq!(outcomes.len(), sets.len());
    for (number, ((changes, expected), outcome)) in sets.into_iter().zip(&outcomes).enumerate() {
        if let Err(error) = expected {
            assert_refused(outcome, &error, &format!("set {number}"));
            continue;
        }
        assert!(outcome.is_ok(), "set {number}: {outcome:?}");
        records.extend(changes.deletes.into_iter().map(|delete| (delete.key, None)));
        records.extend(changes.writes.into_iter().map(|write| (write.key(), Some(write))));
        events.extend(changes.events);
    }
    for (key, record) in records {
        assert_eq!(stored(store, &key).await, record, "{key:?}");
    }
    assert_eq!(every_event(store).await, events);
}

fn conflict(record: impl Into<Record>) -> StoreError {
    StoreError::Conflict(record.into().key())
}

/// The sets name their records in any order, and there are more sets than a store may group. Their events enter the
/// feed in the order of the sets.
pub async fn every_set_of_a_call_is_taken_in_its_order(store: Arc<dyn Store>) {
    put(&store, (0..450).map(subscription)).await;

    let sets = (0..450).map(|n| (renewal((n * 7 + 3) % 450, 2), Ok(())));
    assert_each(&store, sets.collect()).await;
}

/// The sets create, delete and guard records, between steps of the clock. A set may have no event, or no payment.
pub async fn sets_of_any_form_are_taken_in_one_call(store: Arc<dyn Store>) {
    put(&store, (0..5).map(subscription)).await;
    put(&store, one_of_each(8)).await;

    let updates = one_of_each(8).map(|record| at_version(record, 2));
    let sets = [
        renewal(4, 2),
        renewal(3, 2),
        ChangeSet { events: vec![event(1)], ..writing([plan(1)]) },
        ChangeSet { guards: vec![unchanged(&plan(1).into(), 1)], ..renewal(2, 2) },
        ChangeSet { events: Vec::new(), ..renewal(1, 2) },
        writing([at_version(subscription(0), 2)]),
        ChangeSet { events: vec![event(2), event(3)], ..writing(one_of_each(9)) },
        ChangeSet { events: vec![event(4)], ..writing(updates) },
        deleting([at_version(subscription(4), 2)]),
        renewal(2, 3),
    ];
    assert_each(&store, sets.map(|changes| (changes, Ok(()))).into()).await;
}

/// A set at another version is refused, and the sets around it are taken.
pub async fn a_stale_set_does_not_affect_the_others(store: Arc<dyn Store>) {
    put(&store, (0..5).map(subscription)).await;

    let sets = vec![
        (renewal(0, 2), Ok(())),
        (renewal(1, 3), Err(conflict(subscription(1)))),
        (renewal(2, 2), Ok(())),
        (renewal(9, 2), Err(conflict(subscription(9)))),
        (renewal(3, 2), Ok(())),
        (renewal(4, 3), Err(conflict(subscription(4)))),
    ];
    assert_each(&store, sets).await;
}

/// Sets are refused for all kinds of reasons, each between sets that are accepted.
pub async fn a_refused_set_does_not_affect_the_others(store: Arc<dyn Store>) {
    put(&store, (0..20).map(subscription)).await;
    put(&store, [payment(1), payment(2)]).await;

    let with_payment = |n, version, paid: &Payment| {
        let writes = vec![at_version(subscription(n), version), paid.clone().into()];
        ChangeSet { writes, ..renewal(n, version) }
    };
    let with_a_taken_value = |n, paid: &[Payment]| {
        let external_subscription_id = subscription(0).external_subscription_id;
        let renamed = Subscription { external_subscription_id, ..subscription(n) };
        let paid = paid.iter().cloned().map(Record::from);
        let writes = [at_version(renamed, 2)].into_iter().chain(paid).collect();
        ChangeSet { writes, ..renewal(n, 2) }
    };
    let a_value_is_taken = || Err(StoreError::Taken(Unique::ExternalSubscription));
    let twice = || at_version(subscription(12), 2);
    let named_twice = BadChangeSet::NamedTwice(Record::from(subscription(12)).key());
    let stale = ChangeSet { guards: vec![unchanged(&payment(1).into(), 2)], ..renewal(13, 2) };
    let new_payment =
        Payment { external_payment_id: payment(2).external_payment_id, ..payment(99) };
    let refused = [
        (renewal(10, 3), Err(conflict(subscription(10)))),
        (with_a_taken_value(11, &[]), a_value_is_taken()),
        (writing([twice(), twice()]), Err(StoreError::BadChangeSet(named_twice))),
        (stale, Err(conflict(payment(1)))),
        (with_payment(14, 2, &payment(1)), Err(conflict(payment(1)))),
        (with_payment(15, 2, &new_payment), Err(StoreError::Taken(Unique::ExternalPayment))),
        (with_payment(15, 3, &new_payment), Err(conflict(subscription(15)))),
        (with_a_taken_value(17, &[payment(50)]), a_value_is_taken()),
        (with_a_taken_value(18, &[payment(1)]), Err(conflict(payment(1)))),
    ];
    let taken = (0..).map(|n| (renewal(n, 2), Ok(())));
    let sets = refused.into_iter().zip(taken).flat_map(|(refused, taken)| [taken, refused]);
    assert_each(&store, sets.chain([(renewal(16, 2), Ok(()))]).collect()).await;
}

/// The second set is checked after the first was written: its versions and its unique values.
pub async fn a_set_is_judged_after_the_sets_before_it(store: Arc<dyn Store>) {
    put(&store, (0..6).map(subscription)).await;

    let external = |n| subscription(n).external_subscription_id;
    let with_value = |n, external_subscription_id| {
        let renamed = Subscription { external_subscription_id, ..subscription(n) };
        ChangeSet { events: vec![event(n)], ..writing([at_version(renamed, 2)]) }
    };
    let sets = vec![
        (renewal(0, 2), Ok(())),
        (renewal(1, 2), Ok(())),
        (renewal(0, 3), Ok(())),
        (renewal(0, 3), Err(conflict(subscription(0)))),
        // The value that the set gives up is free for a later set, but not for an earlier one.
        (with_value(4, external(5)), Err(StoreError::Taken(Unique::ExternalSubscription))),
        (with_value(5, None), Ok(())),
        (with_value(3, external(5)), Ok(())),
        (renewal(2, 2), Ok(())),
        (
            writing([at_version(subscription(1), 3), payment(2_002).into()]),
            Err(conflict(payment(2_002))),
        ),
    ];
    assert_each(&store, sets).await;
}

/// A call without sets returns no results. An empty set is accepted, and a set that breaks the rules for change sets is
/// refused.
pub async fn empty_and_bad_sets_of_a_call_are_judged_alone(store: Arc<dyn Store>) {
    put(&store, [subscription(0)]).await;

    assert_each(&store, Vec::new()).await;
    let unversioned = at_version(subscription(0), 0);
    let no_version = || BadChangeSet::NoVersion(unversioned.key());
    let bad = || (writing([unversioned.clone()]), Err(StoreError::BadChangeSet(no_version())));
    assert_each(&store, vec![bad()]).await;
    assert_each(
        &store,
        vec![bad(), (renewal(0, 2), Ok(())), (ChangeSet::default(), Ok(())), bad()],
    )
    .await;
}
