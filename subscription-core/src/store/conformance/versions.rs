//! Writes and deletes are taken only at the version that was read.

use std::sync::Arc;

use super::records::{at_version, one_of_each, parsed, plan, subscription};
use super::steps::{
    assert_absent, assert_conflict, assert_refused, assert_stored, assert_taken, delete, feed,
    found, kept_answers, listed, put, remove, stored, writing,
};
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{
    ChangeSet, PaymentQuery, PlanQuery, Record, Store, StoreError, SubscriptionQuery, Unique,
    UniqueValue,
};
use crate::subscriptions::Subscription;

/// Records of every kind are returned as they were last written.
pub async fn a_write_of_the_next_version_replaces_the_record(store: Arc<dyn Store>) {
    for version in 1..5 {
        let next = one_of_each(1).map(|record| at_version(record, version));
        put(&store, next.clone()).await;

        assert_stored(&store, next).await;
    }
}

/// A record's history as text, the last version that was written, and the versions that must be refused after it.
type History = (&'static str, u64, &'static [u64]);

/// Tries changes of every kind of record that do not fit its history. Each must be refused, and change
/// nothing.
async fn assert_versions_refused(
    store: &Arc<dyn Store>,
    histories: &[History],
    change: impl Fn(&Record, u64) -> ChangeSet + Send + Sync,
) {
    for (n, (history, written, refused)) in (1..).zip(histories) {
        for record in one_of_each(n) {
            for version in 1..=*written {
                put(store, [at_version(record.clone(), version)]).await;
            }
            let last = at_version(record.clone(), *written);
            if history.starts_with("deleted") {
                remove(store, [last]).await;
            }
            let before = stored(store, &record.key()).await;
            for version in *refused {
                let answer = store.commit(change(&record, *version)).await;

                let case = format!("version {version} of a record that was {history}");
                assert_refused(&answer, &StoreError::Conflict(record.key()), &case);
                assert_eq!(stored(store, &record.key()).await, before, "{case}");
            }
        }
    }
}

/// A write of the first version requires that the record does not exist; a write of a later version requires that the
/// version before it is stored.
pub async fn a_write_at_another_version_is_refused_and_names_the_record(store: Arc<dyn Store>) {
    let histories: [History; 5] = [
        ("never written", 0, &[2, 5]),
        ("written at version 1", 1, &[1, 3]),
        ("written at version 2", 2, &[1, 2, 4]),
        ("deleted at version 1", 1, &[2, 3]),
        ("deleted at version 2", 2, &[2, 3]),
    ];
    let write = |record: &Record, version| writing([at_version(record.clone(), version)]);
    assert_versions_refused(&store, &histories, write).await;
}

/// A writer who read an older version, or a version that never was, deletes nothing.
pub async fn a_delete_at_another_version_is_refused_and_names_the_record(store: Arc<dyn Store>) {
    let histories: [History; 4] = [
        ("never written", 0, &[1, 2]),
        ("written at version 1", 1, &[2]),
        ("written at version 2", 2, &[1, 3]),
        ("deleted at version 1", 1, &[1, 2]),
    ];
    assert_versions_refused(&store, &histories, |record, version| ChangeSet {
        deletes: vec![delete(record, version)],
        ..ChangeSet::default()
    })
    .await;
}

/// Of many records, the conflict names the one that has changed.
pub async fn a_conflict_names_the_record_among_many(store: Arc<dyn Store>) {
    put(&store, one_of_each(5)).await;

    for stale in one_of_each(5) {
        let fresh = (1..5).chain(6..9).flat_map(one_of_each);
        let writes = fresh.chain([stale.clone()]).collect::<Vec<_>>();
        let first = store.commit(writing(writes.iter().rev().cloned())).await;
        let last = store.commit(writing(writes)).await;

        assert_conflict(&first, &stale);
        assert_conflict(&last, &stale);
    }
}

/// A deleted record is found neither by its key nor by its unique values, and is in no list.
pub async fn a_deleted_record_is_gone(store: Arc<dyn Store>) {
    let slug = plan(0).slug;
    let external = parsed("subscription 0");
    let external_payment = parsed("payment 0");
    let values = [
        UniqueValue::PlanSlug(&slug),
        UniqueValue::ExternalSubscription(&external),
        UniqueValue::ExternalPayment(&external_payment),
    ];
    put(&store, one_of_each(0)).await;
    // The records are read before they are deleted: a store that caches records must notice the deletion.
    assert_stored(&store, one_of_each(0)).await;
    for value in values {
        assert!(found(&store, value).await.is_some(), "{value:?}");
    }

    remove(&store, one_of_each(0)).await;

    assert_absent(&store, one_of_each(0)).await;
    for value in values {
        assert_eq!(found(&store, value).await, None);
    }
    assert_eq!(listed::<Plan>(&store, PlanQuery::default()).await, []);
    assert_eq!(listed::<Subscription>(&store, SubscriptionQuery::default()).await, []);
    assert_eq!(listed::<Payment>(&store, PaymentQuery::of(subscription(0).id)).await, []);
    assert_eq!(kept_answers(&store).await, []);
}

/// A deleted record leaves nothing behind, so a record with the first version is accepted.
pub async fn a_deleted_record_may_be_made_again_at_version_one(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        let second = [at_version(record.clone(), 2)];
        put(&store, [record.clone()]).await;
        put(&store, second.clone()).await;
        remove(&store, second.clone()).await;
        assert_absent(&store, second).await;

        put(&store, [record.clone()]).await;

        assert_stored(&store, [record]).await;
    }
}

/// An empty set has nothing to check and nothing to change.
pub async fn an_empty_change_set_is_taken_and_changes_nothing(store: Arc<dyn Store>) {
    put(&store, one_of_each(1)).await;

    store.commit(ChangeSet::default()).await.unwrap();

    assert_stored(&store, one_of_each(1)).await;
    assert_eq!(feed(&store).await, []);
}

/// If a write is stale and its value is taken too, the error is about the version.
pub async fn versions_are_checked_before_values(store: Arc<dyn Store>) {
    put(&store, [plan(1), plan(2)]).await;
    let stale = at_version(Plan { slug: plan(1).slug, ..plan(2) }, 3);

    let answer = store.commit(writing([stale.clone()])).await;
    assert_conflict(&answer, &stale);

    let latest = at_version(stale, 2);
    assert_taken(&store.commit(writing([latest])).await, Unique::PlanSlug);
    assert_stored(&store, [plan(1), plan(2)]).await;
}
