//! Writes and deletes are taken only at the version that was read.

use crate::payments::Payment;
use crate::store::{StoreExt as _, UniqueValue};
use crate::subscriptions::Subscription;
use std::sync::Arc;

use super::records::{at_version, one_of_each, parsed, payment, plan, subscription};
use super::steps::{
    assert_conflict, assert_taken, delete, deleting, feed, kept_answers, limit, stored, writing,
};
use crate::plans::Plan;
use crate::store::{ChangeSet, PaymentQuery, PlanQuery, Record, Store, SubscriptionQuery, Unique};

/// The record reads as it was last written, in every kind.
pub async fn a_write_of_the_next_version_replaces_the_record(store: Arc<dyn Store>) {
    store.commit(writing(one_of_each(1))).await.unwrap();

    for version in 2..5 {
        let next = one_of_each(1).map(|record| at_version(record, version));
        store.commit(writing(next.clone())).await.unwrap();

        for record in next {
            assert_eq!(stored(&store, &record.key()).await, Some(record));
        }
    }
}

/// A writer who read version one is refused once there is version two.
pub async fn a_stale_write_is_refused_and_names_the_record(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        let second = at_version(record.clone(), 2);
        store.commit(writing([record])).await.unwrap();
        store.commit(writing([second.clone()])).await.unwrap();

        let answer = store.commit(writing([second.clone()])).await;

        assert_conflict(&answer, &second);
        assert_eq!(stored(&store, &second.key()).await, Some(second));
    }
}

/// Nobody can have read the version before it.
pub async fn a_write_that_skips_a_version_is_refused(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        store.commit(writing([record.clone()])).await.unwrap();

        let answer = store.commit(writing([at_version(record.clone(), 3)])).await;

        assert_conflict(&answer, &record);
        assert_eq!(stored(&store, &record.key()).await, Some(record));
    }
}

/// A first version says that there is no such record.
pub async fn a_first_version_of_a_record_that_exists_is_refused(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        store.commit(writing([record.clone()])).await.unwrap();
        let again = store.commit(writing([record.clone()])).await;
        let second = at_version(record.clone(), 2);
        store.commit(writing([second.clone()])).await.unwrap();
        let later = store.commit(writing([record.clone()])).await;

        assert_conflict(&again, &record);
        assert_conflict(&later, &record);
        assert_eq!(stored(&store, &record.key()).await, Some(second));
    }
}

/// A later version says that there is a record.
pub async fn a_later_version_of_nothing_is_refused(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        for version in [2, 5] {
            let answer = store.commit(writing([at_version(record.clone(), version)])).await;

            assert_conflict(&answer, &record);
            assert_eq!(stored(&store, &record.key()).await, None, "{version}");
        }
    }
}

/// The conflict names the one record of many that has changed.
pub async fn a_conflict_names_the_record_among_many(store: Arc<dyn Store>) {
    store.commit(writing(one_of_each(5))).await.unwrap();

    for stale in one_of_each(5) {
        let fresh = (1..5).chain(6..9).flat_map(one_of_each);
        let writes = fresh.chain([stale.clone()]).collect::<Vec<_>>();
        let first = store.commit(writing(writes.iter().rev().cloned())).await;
        let last = store.commit(writing(writes)).await;

        assert_conflict(&first, &stale);
        assert_conflict(&last, &stale);
    }
}

/// Gone by id, by what names it outside, and from every list.
pub async fn a_deleted_record_is_gone(store: Arc<dyn Store>) {
    store.commit(writing(one_of_each(0))).await.unwrap();
    // Read before: a store that keeps what it has read must notice.
    for record in one_of_each(0) {
        assert_eq!(stored(&store, &record.key()).await, Some(record));
    }
    assert!(store.find_as::<Plan>(UniqueValue::PlanSlug(&plan(0).slug)).await.unwrap().is_some());

    store.commit(deleting(one_of_each(0))).await.unwrap();

    for record in one_of_each(0) {
        assert_eq!(stored(&store, &record.key()).await, None);
    }
    assert_eq!(store.find_as::<Plan>(UniqueValue::PlanSlug(&plan(0).slug)).await.unwrap(), None);
    let found = store
        .find_as::<Subscription>(UniqueValue::ExternalSubscription(&parsed("subscription 0")))
        .await;
    assert_eq!(found.unwrap(), None);
    assert_eq!(
        store.find_as::<Payment>(UniqueValue::ExternalPayment(&parsed("payment 0"))).await.unwrap(),
        None
    );
    assert_eq!(store.list_as::<Plan>(PlanQuery::default()).await.unwrap().items, []);
    assert_eq!(
        store.list_as::<Subscription>(SubscriptionQuery::default()).await.unwrap().items,
        []
    );
    let payments = PaymentQuery::of(subscription(0).id);
    assert_eq!(store.list_as::<Payment>(payments.clone()).await.unwrap().items, []);
    assert_eq!(kept_answers(&store).await, []);
}

/// Its neighbours stay.
pub async fn a_delete_takes_no_other_record_along(store: Arc<dyn Store>) {
    for n in [0, 1, 2] {
        store.commit(writing(one_of_each(n))).await.unwrap();
    }

    store.commit(deleting(one_of_each(1))).await.unwrap();

    for record in [0, 2].into_iter().flat_map(one_of_each) {
        assert_eq!(stored(&store, &record.key()).await, Some(record));
    }
    let payments = store.list_as::<Payment>(PaymentQuery::of(subscription(0).id)).await.unwrap();
    assert_eq!(payments.items, [payment(0), payment(2)].map(Arc::new));
}

/// A writer who read an older version, or one that never was, deletes nothing.
pub async fn a_delete_at_another_version_is_refused(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        let second = at_version(record.clone(), 2);
        store.commit(writing([record])).await.unwrap();
        store.commit(writing([second.clone()])).await.unwrap();

        for version in [1, 3] {
            let deletes = vec![delete(&second, version)];
            let answer = store.commit(ChangeSet { deletes, ..ChangeSet::default() }).await;

            assert_conflict(&answer, &second);
        }
        assert_eq!(stored(&store, &second.key()).await, Some(second));
    }
}

/// Whether it never was or is gone already.
pub async fn a_delete_of_nothing_is_refused(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        let never_there = store.commit(deleting([record.clone()])).await;
        store.commit(writing([record.clone()])).await.unwrap();
        store.commit(deleting([record.clone()])).await.unwrap();
        let gone = store.commit(deleting([record.clone()])).await;

        assert_conflict(&never_there, &record);
        assert_conflict(&gone, &record);
    }
}

/// A change that was decided before the record was deleted does not bring it back.
pub async fn a_write_of_a_deleted_record_is_refused(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        store.commit(writing([record.clone()])).await.unwrap();
        store.commit(deleting([record.clone()])).await.unwrap();

        let answer = store.commit(writing([at_version(record.clone(), 2)])).await;

        assert_conflict(&answer, &record);
        assert_eq!(stored(&store, &record.key()).await, None);
    }
}

/// A deleted record leaves no trace: there is no such record, so a first version is taken.
pub async fn a_deleted_record_may_be_made_again_at_version_one(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        store.commit(writing([record.clone()])).await.unwrap();
        store.commit(writing([at_version(record.clone(), 2)])).await.unwrap();
        store.commit(deleting([at_version(record.clone(), 2)])).await.unwrap();
        assert_eq!(stored(&store, &record.key()).await, None);

        store.commit(writing([record.clone()])).await.unwrap();

        assert_eq!(stored(&store, &record.key()).await, Some(record));
    }
}

/// Nothing to check, nothing to do.
pub async fn an_empty_change_set_is_taken_and_changes_nothing(store: Arc<dyn Store>) {
    store.commit(writing(one_of_each(1))).await.unwrap();

    store.commit(ChangeSet::default()).await.unwrap();

    for record in one_of_each(1) {
        assert_eq!(stored(&store, &record.key()).await, Some(record));
    }
    assert_eq!(feed(&store).await, []);
}

/// A writer whose value is taken had read the latest versions.
pub async fn versions_are_checked_before_values(store: Arc<dyn Store>) {
    let [taken, mine] = [Record::from(plan(1)), Record::from(plan(2))];
    store.commit(writing([taken, mine])).await.unwrap();
    let clashing = Plan { slug: plan(1).slug, ..plan(2) };
    let stale = at_version(Record::from(clashing), 3);

    let answer = store.commit(writing([stale.clone()])).await;
    assert_conflict(&answer, &stale);

    let latest = at_version(stale, 2);
    assert_taken(&store.commit(writing([latest])).await, Unique::PlanSlug);
    let page = PlanQuery { limit: limit(2), ..PlanQuery::default() };
    assert_eq!(
        store.list_as::<Plan>(page.clone()).await.unwrap().items,
        [plan(1), plan(2)].map(Arc::new)
    );
}
