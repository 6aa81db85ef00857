//! Steps that cases share: change sets, reads and expected errors.

use std::sync::Arc;

use super::records::at;
use crate::events::RecordedEvent;
use crate::store::{
    BadChangeSet, ChangeSet, Delete, EventQuery, Guard, IdempotencyQuery, IdempotencyRecord, Key,
    Kind, PageLimit, Record, Store, StoreError, StoreExt as _, Unique, UniqueValue,
};
use crate::values::{PlanId, Version};

/// A change set that writes records.
pub(super) fn writing<R: Into<Record>>(writes: impl IntoIterator<Item = R>) -> ChangeSet {
    ChangeSet { writes: writes.into_iter().map(R::into).collect(), ..ChangeSet::default() }
}

/// A change set that deletes records at the versions that they have.
pub(super) fn deleting<R: Into<Record>>(records: impl IntoIterator<Item = R>) -> ChangeSet {
    let records = records.into_iter().map(R::into);
    let deletes = records.map(|record| delete(&record, record.version().get()));
    ChangeSet { deletes: deletes.collect(), ..ChangeSet::default() }
}

pub(super) fn guarding(guards: impl IntoIterator<Item = Guard>) -> ChangeSet {
    ChangeSet { guards: guards.into_iter().collect(), ..ChangeSet::default() }
}

/// Writes records, which the store must accept.
pub(super) async fn put<R: Into<Record>>(
    store: &Arc<dyn Store>,
    records: impl IntoIterator<Item = R> + Send,
) {
    let changes = writing(records);
    store.commit(changes).await.unwrap();
}

/// Deletes records, which the store must accept.
pub(super) async fn remove<R: Into<Record>>(
    store: &Arc<dyn Store>,
    records: impl IntoIterator<Item = R> + Send,
) {
    let changes = deleting(records);
    store.commit(changes).await.unwrap();
}

pub(super) fn delete(record: &Record, version: u64) -> Delete {
    Delete { key: record.key(), version: Version::from(version) }
}

pub(super) fn unchanged(record: &Record, version: u64) -> Guard {
    Guard::Unchanged { key: record.key(), version: Version::from(version) }
}

/// The record as the store has it.
pub(super) async fn stored(store: &Arc<dyn Store>, key: &Key) -> Option<Record> {
    store.get(key).await.unwrap()
}

/// The record that has a unique value.
pub(super) async fn found(store: &Arc<dyn Store>, value: UniqueValue<'_>) -> Option<Record> {
    store.find(value).await.unwrap()
}

/// The first page of a list.
pub(super) async fn listed<K: Kind>(store: &Arc<dyn Store>, query: K::Query) -> Vec<Arc<K>> {
    store.list_as::<K>(query).await.unwrap().items
}

/// Asserts that the store returns these records as they are here.
pub(super) async fn assert_stored<R: Into<Record>>(
    store: &Arc<dyn Store>,
    records: impl IntoIterator<Item = R, IntoIter: Send> + Send,
) {
    for record in records.into_iter().map(R::into).collect::<Vec<_>>() {
        assert_eq!(stored(store, &record.key()).await, Some(record));
    }
}

/// Asserts that no records with the keys of these records exist.
pub(super) async fn assert_absent<R: Into<Record>>(
    store: &Arc<dyn Store>,
    records: impl IntoIterator<Item = R, IntoIter: Send> + Send,
) {
    for record in records.into_iter().map(R::into).collect::<Vec<_>>() {
        assert_eq!(stored(store, &record.key()).await, None);
    }
}

/// The first page of the feed.
pub(super) async fn feed(store: &Arc<dyn Store>) -> Vec<RecordedEvent> {
    store.events(&EventQuery::after(0, PageLimit::MAX)).await.unwrap().items
}

/// Every idempotency record of a case: all of them expire before this time.
pub(super) async fn kept_answers(store: &Arc<dyn Store>) -> Vec<Arc<IdempotencyRecord>> {
    let query = IdempotencyQuery::Expired { by: at(1_000_000), limit: PageLimit::MAX };
    listed::<IdempotencyRecord>(store, query).await
}

pub(super) fn limit(records: usize) -> PageLimit {
    // A page that is longer than a caller can request: only figures are read in such pages.
    PageLimit::new(records).unwrap_or(PageLimit::FIGURES)
}

/// Asserts that a commit was refused with an error; `case` names the row of a table.
#[track_caller]
pub(super) fn assert_refused(answer: &Result<(), StoreError>, error: &StoreError, case: &str) {
    assert_eq!(format!("{answer:?}"), format!("Err({error:?})"), "{case}");
}

#[track_caller]
pub(super) fn assert_conflict(answer: &Result<(), StoreError>, record: &Record) {
    assert_refused(answer, &StoreError::Conflict(record.key()), "");
}

#[track_caller]
pub(super) fn assert_taken(answer: &Result<(), StoreError>, unique: Unique) {
    assert_refused(answer, &StoreError::Taken(unique), "");
}

#[track_caller]
pub(super) fn assert_in_use(answer: &Result<(), StoreError>, plan: PlanId) {
    assert_refused(answer, &StoreError::PlanInUse(plan), "");
}

#[track_caller]
pub(super) fn assert_bad(answer: &Result<(), StoreError>, bad: &BadChangeSet) {
    assert_refused(answer, &StoreError::BadChangeSet(bad.clone()), "");
}
