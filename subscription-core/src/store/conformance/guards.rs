//! Guards: conditions on records that a set does not change.

use std::sync::Arc;

use super::records::{
    account, answer, at, at_version, event, one_of_each, plan, subscription, user,
};
use super::steps::{
    assert_conflict, assert_in_use, deleting, feed, guarding, stored, unchanged, writing,
};
use crate::store::{ChangeSet, Guard, IdempotencyRecord, Key, Record, Store, StoreError};
use crate::subscriptions::{Subscription, SubscriptionStatus};

/// The set is taken, and the guarded record is as before, at the same version.
pub async fn a_guard_that_holds_changes_nothing(store: Arc<dyn Store>) {
    store.commit(writing(one_of_each(1))).await.unwrap();

    for guarded in one_of_each(1) {
        store.commit(guarding([unchanged(&guarded, 1)])).await.unwrap();

        assert_eq!(stored(&store, &guarded.key()).await, Some(guarded));
    }
    assert_eq!(feed(&store).await, []);
}

/// At an older version, at one that never was, and where there is nothing.
pub async fn a_guard_at_another_version_is_refused_and_names_the_record(store: Arc<dyn Store>) {
    let second = one_of_each(1).map(|record| at_version(record, 2));
    store.commit(writing(one_of_each(1))).await.unwrap();
    store.commit(writing(second.clone())).await.unwrap();

    for guarded in second {
        for version in [0, 1, 3] {
            assert_conflict(
                &store.commit(guarding([unchanged(&guarded, version)])).await,
                &guarded,
            );
        }
    }
    for nothing in one_of_each(2) {
        assert_conflict(&store.commit(guarding([unchanged(&nothing, 1)])).await, &nothing);
    }
}

/// A guard of [`Version::NEW`](crate::Version::NEW): before a record is made and after it is deleted.
pub async fn a_guard_that_there_is_no_record_holds_while_there_is_none(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        let no_record = || guarding([unchanged(&record, 0)]);

        store.commit(no_record()).await.unwrap();
        store.commit(writing([record.clone()])).await.unwrap();
        let refused = store.commit(no_record()).await;
        store.commit(deleting([record.clone()])).await.unwrap();
        store.commit(no_record()).await.unwrap();

        assert_conflict(&refused, &record);
        assert_eq!(stored(&store, &record.key()).await, None);
    }
}

/// One of them that does not hold refuses the set, wherever it stands.
pub async fn every_guard_of_a_set_must_hold(store: Arc<dyn Store>) {
    let guarded = one_of_each(1);
    store.commit(writing(guarded.clone())).await.unwrap();

    for stale in &guarded {
        let version = |record: &Record| if record == stale { 2 } else { 1 };
        let guards = guarded.iter().map(|record| unchanged(record, version(record))).collect();
        let changes = ChangeSet { guards, ..writing([Record::from(plan(9))]) };
        assert_conflict(&store.commit(changes).await, stale);
    }
    assert_eq!(stored(&store, &Key::Plan(plan(9).id)).await, None);
}

fn deleting_unused_plan(n: u64) -> ChangeSet {
    let guards = vec![Guard::PlanUnused(plan(n).id)];
    ChangeSet { guards, ..deleting([Record::from(plan(n))]) }
}

/// Subscriptions to other plans do not matter.
pub async fn a_plan_that_nobody_has_is_unused(store: Arc<dyn Store>) {
    let others = [1, 3].map(|n| Record::from(subscription(n)));
    store.commit(writing(others)).await.unwrap();
    store.commit(writing([Record::from(plan(2))])).await.unwrap();

    store.commit(deleting_unused_plan(2)).await.unwrap();

    assert_eq!(stored(&store, &Key::Plan(plan(2).id)).await, None);
}

/// Whatever the subscription's state: it refers to the plan.
pub async fn a_plan_that_somebody_has_is_in_use(store: Arc<dyn Store>) {
    for (status, n) in SubscriptionStatus::all().zip(1..) {
        let holder = Subscription { status, ..subscription(n) };
        store.commit(writing([Record::from(plan(n)), Record::from(holder)])).await.unwrap();

        let changes = ChangeSet { events: vec![event(n)], ..deleting_unused_plan(n) };
        assert_in_use(&store.commit(changes).await, plan(n).id);

        assert_eq!(stored(&store, &Key::Plan(plan(n).id)).await, Some(Record::from(plan(n))));
    }
    assert_eq!(feed(&store).await, []);
}

/// The guard looks at what the set's deletes leave: all of them, or one too few.
pub async fn a_plan_is_unused_if_the_set_deletes_what_refers_to_it(store: Arc<dyn Store>) {
    let holders = [1, 2].map(|n| {
        let subscription_plan_id = plan(1).id;
        Record::from(Subscription { subscription_plan_id, ..subscription(n) })
    });
    store.commit(writing(holders.clone())).await.unwrap();
    store.commit(writing([Record::from(plan(1))])).await.unwrap();
    let with_deleted = |records: &[Record]| {
        let mut changes = deleting_unused_plan(1);
        changes.deletes.extend(deleting(records.iter().cloned()).deletes);
        changes
    };
    let [first, ..] = &holders;

    let one_left = store.commit(with_deleted(std::slice::from_ref(first))).await;
    assert_in_use(&one_left, plan(1).id);
    assert_eq!(stored(&store, &first.key()).await, Some(first.clone()));

    store.commit(with_deleted(&holders)).await.unwrap();
    assert_eq!(stored(&store, &Key::Plan(plan(1).id)).await, None);
}

/// A subscription that moved on or was deleted no longer refers to its old plan.
pub async fn a_plan_is_unused_once_nobody_has_it_any_more(store: Arc<dyn Store>) {
    let [moving, leaving] = [subscription(1), subscription(2)];
    store.commit(writing([1, 2].map(|n| Record::from(plan(n))))).await.unwrap();
    let holders = [moving.clone(), leaving.clone()].map(Record::from);
    store.commit(writing(holders)).await.unwrap();

    let moved =
        Subscription { subscription_plan_id: plan(3).id, version: moving.version.next(), ..moving };
    store.commit(writing([Record::from(moved)])).await.unwrap();
    store.commit(deleting([Record::from(leaving)])).await.unwrap();

    store.commit(deleting_unused_plan(1)).await.unwrap();
    store.commit(deleting_unused_plan(2)).await.unwrap();
    assert_in_use(&store.commit(guarding([Guard::PlanUnused(plan(3).id)])).await, plan(3).id);
}

/// A key that is used again after its record was deleted has the first version again: a writer that has read
/// the old record neither replaces nor deletes the new one.
pub async fn an_idempotency_record_that_has_not_expired_is_not_taken_for_one_that_has(
    store: Arc<dyn Store>,
) {
    let expires = |seconds| IdempotencyRecord { expires_at: at(seconds), ..answer(1) };
    let key = answer(1).key;
    let guarded = |changes: ChangeSet, by| {
        let guards = vec![Guard::Expired { key: key.clone(), by: at(by) }];
        ChangeSet { guards, ..changes }
    };
    let replace = || writing([at_version(Record::from(expires(900)), 2)]);
    let absent = store.commit(guarded(writing([Record::from(account(1))]), 500)).await;
    assert!(matches!(absent, Err(StoreError::Conflict(Key::Idempotency(_)))), "{absent:?}");
    store.commit(writing([Record::from(expires(500))])).await.unwrap();

    for changes in [replace(), deleting([Record::from(expires(500))])] {
        let refused = store.commit(guarded(changes, 499)).await;

        let named =
            matches!(&refused, Err(StoreError::Conflict(Key::Idempotency(id))) if *id == key);
        assert!(named, "{refused:?}");
    }
    let stored_now = stored(&store, &Key::Idempotency(key.clone())).await;
    assert_eq!(stored_now, Some(Record::from(expires(500))));

    store.commit(guarded(replace(), 500)).await.unwrap();
    let replaced = at_version(Record::from(expires(900)), 2);
    store.commit(guarded(deleting([replaced]), 900)).await.unwrap();
    assert_eq!(stored(&store, &Key::Idempotency(key.clone())).await, None);
}

/// Expired ones do not matter, nor those of others, nor those that the set writes or deletes.
pub async fn a_user_with_another_live_subscription_is_refused(store: Arc<dyn Store>) {
    let of_user = |n, status| Subscription { user_id: user(1), status, ..subscription(n) };
    let expired = Record::from(of_user(1, SubscriptionStatus::Expired));
    let others = Record::from(Subscription { user_id: user(2), ..subscription(2) });
    store.commit(writing([expired, others, Record::from(account(1))])).await.unwrap();
    let live: Vec<_> = SubscriptionStatus::all()
        .filter(|status| *status != SubscriptionStatus::Expired)
        .zip(10..)
        .map(|(status, n)| Record::from(of_user(n, status)))
        .collect();
    store.commit(writing(live.clone())).await.unwrap();
    let guards = vec![Guard::NoOtherLiveSubscription(user(1))];
    let naming = |written: &[Record], deleted: &[Record]| ChangeSet {
        guards: guards.clone(),
        writes: written.iter().map(|write| at_version(write.clone(), 2)).collect(),
        events: vec![event(1)],
        ..deleting(deleted.iter().cloned().chain([Record::from(account(1))]))
    };
    let (written, deleted) = live.split_at(3);

    for left_out in 0..written.len() {
        let mut others = written.to_vec();
        others.remove(left_out);
        let refused = store.commit(naming(&others, deleted)).await;
        assert!(matches!(refused, Err(StoreError::Conflict(Key::User(id))) if id == account(1).id));
    }
    let refused = store.commit(naming(written, &[])).await;
    assert!(matches!(refused, Err(StoreError::Conflict(Key::User(_)))), "{refused:?}");
    assert_eq!(feed(&store).await, []);
    assert_eq!(
        stored(&store, &Key::Subscription(subscription(10).id)).await,
        live.first().cloned()
    );

    store.commit(naming(written, deleted)).await.unwrap();

    assert_eq!(stored(&store, &Key::User(account(1).id)).await, None);
}
