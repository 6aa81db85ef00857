//! Change sets that every store refuses, whatever records it has.

use std::sync::Arc;

use super::records::{at_version, one_of_each, payment};
use super::steps::{assert_absent, assert_bad, assert_stored, delete, deleting, put, writing};
use crate::store::{BadChangeSet, ChangeSet, Store};
use crate::values::Version;

const MAX: u64 = ChangeSet::RECORDS_MAX as u64;

/// All records of the set exist afterwards.
pub async fn a_set_of_a_thousand_records_is_taken(store: Arc<dyn Store>) {
    put(&store, (0..MAX).map(payment)).await;

    assert_stored(&store, [0, 1, MAX / 2, MAX - 1].map(payment)).await;
}

/// Deletes count like writes.
pub async fn a_set_of_more_than_a_thousand_records_is_refused(store: Arc<dyn Store>) {
    let too_large = BadChangeSet::TooLarge(ChangeSet::RECORDS_MAX + 1);
    put(&store, [payment(0)]).await;

    assert_bad(&store.commit(writing((1..MAX + 2).map(payment))).await, &too_large);
    let deletes = deleting([payment(0)]).deletes;
    let both = ChangeSet { deletes, ..writing((1..=MAX).map(payment)) };
    assert_bad(&store.commit(both).await, &too_large);

    assert_stored(&store, [payment(0)]).await;
    assert_absent(&store, [payment(1)]).await;
}

/// The set names the record in two writes, in two deletes, or in a write and a delete.
pub async fn a_set_that_names_a_record_twice_is_refused(store: Arc<dyn Store>) {
    put(&store, one_of_each(1)).await;

    for record in one_of_each(1) {
        let named_twice = BadChangeSet::NamedTwice(record.key());
        let next = at_version(record.clone(), 2);
        let deletes = vec![delete(&record, 1)];
        let after_next = at_version(record.clone(), 3);

        assert_bad(&store.commit(writing([next.clone(), next.clone()])).await, &named_twice);
        assert_bad(&store.commit(writing([next.clone(), after_next])).await, &named_twice);
        assert_bad(&store.commit(deleting([record.clone(), record.clone()])).await, &named_twice);
        let both = ChangeSet { deletes, ..writing([next]) };
        assert_bad(&store.commit(both).await, &named_twice);

        assert_stored(&store, [record]).await;
    }
}

/// The version before the first one is refused in a write and in a delete.
pub async fn a_set_without_a_version_is_refused(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        let unversioned = at_version(record, Version::NEW.get());
        let no_version = BadChangeSet::NoVersion(unversioned.key());

        assert_bad(&store.commit(writing([unversioned.clone()])).await, &no_version);
        assert_bad(&store.commit(deleting([unversioned.clone()])).await, &no_version);

        assert_absent(&store, [unversioned]).await;
    }
}
