//! Change sets that every store refuses, whatever its records are.

use crate::payments::Payment;
use crate::store::StoreExt as _;
use std::sync::Arc;

use super::records::{at_version, one_of_each, payment};
use super::steps::{assert_bad, delete, deleting, stored, writing};
use crate::store::{BadChangeSet, ChangeSet, Record, Store};
use crate::values::version::Version;

const MAX: u64 = ChangeSet::RECORDS_MAX as u64;

fn payments(numbers: std::ops::Range<u64>) -> impl Iterator<Item = Record> {
    numbers.map(payment).map(Record::from)
}

/// All of them are there afterwards.
pub async fn a_set_of_a_thousand_records_is_taken(store: Arc<dyn Store>) {
    store.commit(writing(payments(0..MAX))).await.unwrap();

    for n in [0, 1, MAX / 2, MAX - 1] {
        assert_eq!(
            store.get_as::<Payment>(&payment(n).id).await.unwrap(),
            Some(Arc::new(payment(n)))
        );
    }
}

/// Deletes count like writes.
pub async fn a_set_of_more_than_a_thousand_records_is_refused(store: Arc<dyn Store>) {
    let too_large = BadChangeSet::TooLarge(ChangeSet::RECORDS_MAX + 1);
    store.commit(writing(payments(0..1))).await.unwrap();

    let writes = store.commit(writing(payments(1..MAX + 2))).await;
    assert_bad(&writes, &too_large);

    let deletes = deleting(payments(0..1)).deletes;
    let both = store.commit(ChangeSet { deletes, ..writing(payments(1..MAX + 1)) }).await;
    assert_bad(&both, &too_large);

    assert_eq!(store.get_as::<Payment>(&payment(0).id).await.unwrap(), Some(Arc::new(payment(0))));
    assert_eq!(store.get_as::<Payment>(&payment(1).id).await.unwrap(), None);
}

/// By two writes, two deletes, or one of each.
pub async fn a_set_that_names_a_record_twice_is_refused(store: Arc<dyn Store>) {
    store.commit(writing(one_of_each(1))).await.unwrap();

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

        assert_eq!(stored(&store, &record.key()).await, Some(record));
    }
}

/// Neither a write nor a delete can be of the version before the first.
pub async fn a_set_without_a_version_is_refused(store: Arc<dyn Store>) {
    for record in one_of_each(1) {
        let unversioned = at_version(record, Version::NEW.get());
        let no_version = BadChangeSet::NoVersion(unversioned.key());

        assert_bad(&store.commit(writing([unversioned.clone()])).await, &no_version);
        assert_bad(&store.commit(deleting([unversioned.clone()])).await, &no_version);

        assert_eq!(stored(&store, &unversioned.key()).await, None);
    }
}
