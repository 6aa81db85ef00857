//! Guards: conditions on records that a set does not change.

use std::sync::Arc;

use super::records::{
    account, answer, at, at_version, billing, event, one_of_each, payment, plan, subscription, user,
};
use super::steps::{
    assert_absent, assert_conflict, assert_in_use, assert_refused, assert_stored, deleting, feed,
    guarding, put, remove, unchanged, writing,
};
use crate::store::{ChangeSet, Guard, IdempotencyRecord, Key, Record, Store, StoreError};
use crate::subscriptions::{BillingState, ScheduledChange, Subscription, SubscriptionStatus};

/// A set of guards alone is taken, and the guarded records stay at their versions.
pub async fn a_guard_that_holds_changes_nothing(store: Arc<dyn Store>) {
    put(&store, one_of_each(1)).await;

    for record in one_of_each(1) {
        store.commit(guarding([unchanged(&record, 1)])).await.unwrap();
    }

    assert_stored(&store, one_of_each(1)).await;
}

/// The guard names an older version, a version that the record never had, or a record that does not exist.
pub async fn a_guard_at_another_version_is_refused_and_names_the_record(store: Arc<dyn Store>) {
    put(&store, one_of_each(1)).await;
    put(&store, one_of_each(1).map(|record| at_version(record, 2))).await;

    for (n, versions) in [(1, [0, 1, 3]), (2, [1, 2, 3])] {
        for record in one_of_each(n) {
            for version in versions {
                let answer = store.commit(guarding([unchanged(&record, version)])).await;
                assert_conflict(&answer, &record);
            }
        }
    }
}

/// A guard of [`Version::NEW`](crate::Version::NEW) holds before a record is created and after it is deleted.
pub async fn a_guard_that_there_is_no_record_holds_while_there_is_none(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        let no_record = || guarding([unchanged(&record, 0)]);

        store.commit(no_record()).await.unwrap();
        put(&store, [record.clone()]).await;
        let refused = store.commit(no_record()).await;
        remove(&store, [record.clone()]).await;
        store.commit(no_record()).await.unwrap();

        assert_conflict(&refused, &record);
        assert_absent(&store, [record]).await;
    }
}

/// A guard that does not hold refuses the set, wherever it stands in the set.
pub async fn every_guard_of_a_set_must_hold(store: Arc<dyn Store>) {
    let guarded = one_of_each(1);
    put(&store, guarded.clone()).await;

    for stale in &guarded {
        let version = |record: &Record| if record == stale { 2 } else { 1 };
        let guards = guarded.iter().map(|record| unchanged(record, version(record))).collect();
        let changes = ChangeSet { guards, ..writing([plan(9)]) };
        assert_conflict(&store.commit(changes).await, stale);
    }
    assert_absent(&store, [plan(9)]).await;
}

fn deleting_unused_plan(n: u64) -> ChangeSet {
    ChangeSet { guards: vec![Guard::PlanUnused(plan(n).id)], ..deleting([plan(n)]) }
}

/// A subscription in any status uses its plan.
pub async fn a_plan_that_somebody_has_is_in_use(store: Arc<dyn Store>) {
    for (status, n) in SubscriptionStatus::all().zip(1..) {
        put(&store, [plan(n)]).await;
        put(&store, [Subscription { status, ..subscription(n) }]).await;

        let changes = ChangeSet { events: vec![event(n)], ..deleting_unused_plan(n) };
        assert_in_use(&store.commit(changes).await, plan(n).id);

        assert_stored(&store, [plan(n)]).await;
    }
    assert_eq!(feed(&store).await, []);
}

/// The guard takes the deletes of its set into account: of all subscriptions to the plan, or of all but one.
pub async fn a_plan_is_unused_if_the_set_deletes_what_refers_to_it(store: Arc<dyn Store>) {
    let holders =
        [1, 2].map(|n| Subscription { subscription_plan_id: plan(1).id, ..subscription(n) });
    put(&store, holders.clone()).await;
    put(&store, [plan(1)]).await;
    let with_deleted = |holders: &[Subscription]| {
        let mut changes = deleting_unused_plan(1);
        changes.deletes.extend(deleting(holders.iter().cloned()).deletes);
        changes
    };

    let one_left = store.commit(with_deleted(holders.get(1..).unwrap())).await;
    assert_in_use(&one_left, plan(1).id);
    assert_stored(&store, holders.clone()).await;

    store.commit(with_deleted(&holders)).await.unwrap();
    assert_absent(&store, [plan(1)]).await;
}

/// A subscription that moved to another plan or was deleted no longer refers to its old plan.
pub async fn a_plan_is_unused_once_nobody_has_it_any_more(store: Arc<dyn Store>) {
    put(&store, [plan(1), plan(2)]).await;
    put(&store, [subscription(1), subscription(2)]).await;

    let moved = Subscription { subscription_plan_id: plan(3).id, ..subscription(1) };
    put(&store, [at_version(moved, 2)]).await;
    remove(&store, [subscription(2)]).await;

    store.commit(deleting_unused_plan(1)).await.unwrap();
    store.commit(deleting_unused_plan(2)).await.unwrap();
    assert_in_use(&store.commit(guarding([Guard::PlanUnused(plan(3).id)])).await, plan(3).id);
}

/// Subscription `n`, scheduled to change to plan `to`.
fn scheduled(n: u64, to: u64) -> Subscription {
    Subscription { billing: Some(Box::new(billing(to))), ..subscription(n) }
}

/// The plan is in use however the schedule was written: with a new subscription, by an update under a guard of the
/// plan, by a set with a payment and events, or among several such sets of one call.
pub async fn a_plan_that_a_change_is_scheduled_to_is_in_use(store: Arc<dyn Store>) {
    put(&store, (11..=15).map(plan)).await;
    put(&store, (2..=5).map(subscription)).await;
    let step = |n: u64| ChangeSet {
        events: vec![event(2 * n), event(2 * n + 1)],
        ..writing([at_version(scheduled(n, n + 10), 2), payment(n).into()])
    };

    put(&store, [scheduled(1, 11)]).await;
    let guards = vec![unchanged(&plan(12).into(), 1)];
    let update = writing([at_version(scheduled(2, 12), 2)]);
    store.commit(ChangeSet { guards, ..update }).await.unwrap();
    store.commit(step(3)).await.unwrap();
    let outcomes = store.commit_each(vec![step(4), step(5)]).await;

    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    for n in 11..=15 {
        assert_in_use(&store.commit(deleting_unused_plan(n)).await, plan(n).id);
    }
    assert_stored(&store, (11..=15).map(plan)).await;
}

/// The schedule was dropped, or replaced by a pause or by a change to another plan, or its subscription was deleted,
/// before or by the same set. A subscription whose change has happened has the plan.
pub async fn a_plan_is_unused_once_no_change_to_it_is_scheduled(store: Arc<dyn Store>) {
    put(&store, (11..=17).map(plan)).await;
    put(&store, (1..=6).map(|n| scheduled(n, n + 10))).await;
    let pause = Some(ScheduledChange::Pause { resumes_at: None });
    let pause = BillingState { scheduled_change: pause, ..billing(12) };

    let changed = [
        subscription(1),
        Subscription { billing: Some(Box::new(pause)), ..subscription(2) },
        scheduled(3, 17),
        Subscription { subscription_plan_id: plan(14).id, ..subscription(4) },
    ];
    put(&store, changed.map(|changed| at_version(changed, 2))).await;
    remove(&store, [scheduled(5, 15)]).await;

    for n in [11, 12, 13, 15] {
        store.commit(deleting_unused_plan(n)).await.unwrap();
    }
    for n in [14, 16, 17] {
        assert_in_use(&store.commit(deleting_unused_plan(n)).await, plan(n).id);
    }
    let mut with_its_subscription = deleting_unused_plan(16);
    with_its_subscription.deletes.extend(deleting([scheduled(6, 16)]).deletes);
    store.commit(with_its_subscription).await.unwrap();
}

/// A key that is used again after its record was deleted has the first version again: a writer that has read
/// the old record neither replaces nor deletes the new one.
pub async fn an_idempotency_record_that_has_not_expired_is_not_taken_for_one_that_has(
    store: Arc<dyn Store>,
) {
    let expires = |seconds| IdempotencyRecord { expires_at: at(seconds), ..answer(1) };
    let guarded = |changes: ChangeSet, by| {
        let guards = vec![Guard::Expired { key: answer(1).key, by: at(by) }];
        ChangeSet { guards, ..changes }
    };
    let replaced = || at_version(expires(900), 2);
    let cases = [
        ("there is no record", writing([Record::from(account(1))]), 500),
        ("a replacement before its end", writing([replaced()]), 499),
        ("a delete before its end", deleting([expires(500)]), 499),
    ];
    for (case, changes, by) in cases {
        let answer = store.commit(guarded(changes, by)).await;

        let conflict = StoreError::Conflict(Record::from(expires(500)).key());
        assert_refused(&answer, &conflict, case);
        store.commit(writing([expires(500)])).await.ok();
        assert_stored(&store, [expires(500)]).await;
    }

    store.commit(guarded(writing([replaced()]), 500)).await.unwrap();
    store.commit(guarded(deleting([replaced()]), 900)).await.unwrap();
    assert_absent(&store, [expires(500)]).await;
}

/// Expired subscriptions do not matter, nor those of other users, nor those that the set writes or deletes.
pub async fn a_user_with_another_live_subscription_is_refused(store: Arc<dyn Store>) {
    let of_user = |n, status| Subscription { user_id: user(1), status, ..subscription(n) };
    put(&store, [of_user(1, SubscriptionStatus::Expired), subscription(2)]).await;
    put(&store, [account(1)]).await;
    let statuses = SubscriptionStatus::all().filter(|it| *it != SubscriptionStatus::Expired);
    let live: Vec<_> = statuses.zip(10..).map(|(status, n)| of_user(n, status)).collect();
    put(&store, live.clone()).await;
    let naming = |written: &[Subscription], deleted: &[Subscription]| {
        let deletes = deleting(deleted.iter().cloned()).deletes;
        ChangeSet {
            guards: vec![Guard::NoOtherLiveSubscription(user(1))],
            writes: written.iter().map(|write| at_version(write.clone(), 2)).collect(),
            deletes: [deletes, deleting([account(1)]).deletes].concat(),
            events: vec![event(1)],
            ..ChangeSet::default()
        }
    };
    let (written, deleted) = live.split_at(3);
    let conflict = StoreError::Conflict(Key::User(user(1)));

    for left_out in 0..written.len() {
        let mut others = written.to_vec();
        others.remove(left_out);
        let answer = store.commit(naming(&others, deleted)).await;
        assert_refused(&answer, &conflict, "one is not written");
    }
    let answer = store.commit(naming(written, &[])).await;
    assert_refused(&answer, &conflict, "some are not deleted");
    assert_eq!(feed(&store).await, []);
    assert_stored(&store, live.clone()).await;

    store.commit(naming(written, deleted)).await.unwrap();

    assert_absent(&store, [account(1)]).await;
}
