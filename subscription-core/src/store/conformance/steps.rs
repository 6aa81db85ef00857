//! Steps that cases share: change sets, reads and expected errors.

use crate::store::{EventQuery, IdempotencyQuery, StoreExt as _};
use std::sync::Arc;

use super::records::at;
use crate::events::RecordedEvent;
use crate::store::{
    BadChangeSet, ChangeSet, Delete, Guard, IdempotencyRecord, Key, PageLimit, Record, Store,
    StoreError, Unique,
};
use crate::values::id::PlanId;
use crate::values::version::Version;

pub(super) fn writing(writes: impl IntoIterator<Item = Record>) -> ChangeSet {
    ChangeSet { writes: writes.into_iter().collect(), ..ChangeSet::default() }
}

/// Deletes records at the versions that they have.
pub(super) fn deleting(records: impl IntoIterator<Item = Record>) -> ChangeSet {
    let deletes = records.into_iter().map(|record| delete(&record, record.version().get()));
    ChangeSet { deletes: deletes.collect(), ..ChangeSet::default() }
}

pub(super) fn guarding(guards: impl IntoIterator<Item = Guard>) -> ChangeSet {
    ChangeSet { guards: guards.into_iter().collect(), ..ChangeSet::default() }
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

/// The feed from its start, as far as one page goes.
pub(super) async fn feed(store: &Arc<dyn Store>) -> Vec<RecordedEvent> {
    store.events(&EventQuery::after(0, PageLimit::MAX)).await.unwrap().items
}

/// Every answer that will ever expire in a case.
pub(super) async fn kept_answers(store: &Arc<dyn Store>) -> Vec<Arc<IdempotencyRecord>> {
    store
        .list_as::<IdempotencyRecord>(IdempotencyQuery::Expired {
            by: at(1_000_000),
            limit: PageLimit::MAX,
        })
        .await
        .unwrap()
        .items
}

pub(super) fn limit(records: usize) -> PageLimit {
    PageLimit::new(records).unwrap()
}

#[track_caller]
pub(super) fn assert_conflict(answer: &Result<(), StoreError>, record: &Record) {
    let key = record.key();
    let is_conflict = matches!(answer, Err(StoreError::Conflict(named)) if *named == key);
    assert!(is_conflict, "{answer:?} is no conflict over {key:?}");
}

#[track_caller]
pub(super) fn assert_taken(answer: &Result<(), StoreError>, unique: Unique) {
    let is_taken = matches!(answer, Err(StoreError::Taken(named)) if *named == unique);
    assert!(is_taken, "{answer:?} does not say that the {unique} is taken");
}

#[track_caller]
pub(super) fn assert_in_use(answer: &Result<(), StoreError>, plan: PlanId) {
    let is_in_use = matches!(answer, Err(StoreError::PlanInUse(named)) if *named == plan);
    assert!(is_in_use, "{answer:?} does not say that plan {plan} is in use");
}

#[track_caller]
pub(super) fn assert_bad(answer: &Result<(), StoreError>, bad: &BadChangeSet) {
    let is_bad = matches!(answer, Err(StoreError::BadChangeSet(named)) if named == bad);
    assert!(is_bad, "{answer:?} does not say that the change set {bad}");
}
