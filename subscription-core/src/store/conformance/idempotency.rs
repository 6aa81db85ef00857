//! Answers kept so that a request may be repeated.

use crate::store::{IdempotencyQuery, StoreExt as _};
use std::sync::Arc;

use super::records::{answer, at, at_version, parsed, request};
use super::steps::{deleting, kept_answers, limit, stored, writing};
use crate::store::{IdempotencyKey, IdempotencyRecord, Operation, PageLimit, Record, Store};
use crate::values::clock::Timestamp;

fn keeping(numbers: impl IntoIterator<Item = u64>) -> Vec<Record> {
    numbers.into_iter().map(answer).map(Record::from).collect()
}

async fn expired(store: &Arc<dyn Store>, now: Timestamp, limit: PageLimit) -> Vec<IdempotencyKey> {
    let expired = store
        .list_as::<IdempotencyRecord>(IdempotencyQuery::Expired { by: now, limit })
        .await
        .unwrap()
        .items;
    expired.iter().map(|record| record.key.clone()).collect()
}

/// The same key of another client, for another operation or in another case is another request.
pub async fn an_answer_belongs_to_its_operation_client_and_key(store: Arc<dyn Store>) {
    let keys = [
        request(1),
        IdempotencyKey { operation: Operation::CreatePayment, ..request(1) },
        IdempotencyKey { client: "Client".to_owned(), ..request(1) },
        IdempotencyKey { client: String::new(), ..request(1) },
        IdempotencyKey { key: parsed("Request-1"), ..request(1) },
    ];
    for (key, n) in keys.iter().zip(10..) {
        let record = IdempotencyRecord { key: key.clone(), ..answer(n) };
        store.commit(writing([Record::from(record)])).await.unwrap();
    }

    for (key, n) in keys.iter().zip(10..) {
        let found = store.get_as::<IdempotencyRecord>(key).await.unwrap();
        assert_eq!(found.map(|found| found.expires_at), Some(at(n)), "{key:?}");
    }
}

/// The service decides what an expired answer means.
pub async fn an_expired_answer_still_reads_back(store: Arc<dyn Store>) {
    let long_ago = IdempotencyRecord { expires_at: Timestamp::MIN, ..answer(1) };

    store.commit(writing([Record::from(long_ago.clone())])).await.unwrap();

    assert_eq!(
        store.get_as::<IdempotencyRecord>(&request(1)).await.unwrap(),
        Some(Arc::new(long_ago))
    );
}

/// A record that expires exactly at the time of the query is listed too.
pub async fn answers_that_have_expired_are_listed_and_no_other(store: Arc<dyn Store>) {
    store.commit(writing(keeping(1..=5))).await.unwrap();

    let microsecond = |n, by: i64| Timestamp::from_micros(at(n).micros() + by).unwrap();
    let cases = [
        (Timestamp::MIN, 0),
        (microsecond(1, -1), 0),
        (at(1), 1),
        (microsecond(3, -1), 2),
        (at(3), 3),
        (Timestamp::MAX, 5),
    ];
    for (now, count) in cases {
        let expected: Vec<_> = (1..=count).map(request).collect();
        assert_eq!(expired(&store, now, PageLimit::MAX).await, expected, "{now}");
    }
}

/// In the order of their expiry, whatever that of their keys or their writing.
pub async fn the_longest_expired_answers_come_first(store: Arc<dyn Store>) {
    for n in [4, 20, 1, 3, 100, 2] {
        store.commit(writing(keeping([n]))).await.unwrap();
    }

    let expected = [1, 2, 3, 4, 20, 100].map(request);
    assert_eq!(expired(&store, at(100), PageLimit::MAX).await, expected);
    for size in 1..=6 {
        let first: Vec<_> = expected.iter().take(size).cloned().collect();
        assert_eq!(expired(&store, at(100), limit(size)).await, first, "{size}");
    }
}

/// They can be deleted as they were listed, a batch at a time, until none is left.
pub async fn expired_answers_can_be_swept(store: Arc<dyn Store>) {
    store.commit(writing(keeping(1..=10))).await.unwrap();

    let mut batches = Vec::new();
    while batches.len() < 10 {
        let batch = store
            .list_as::<IdempotencyRecord>(IdempotencyQuery::Expired { by: at(7), limit: limit(3) })
            .await
            .unwrap()
            .items;
        if batch.is_empty() {
            break;
        }
        batches.push(batch.len());
        let records = batch.iter().map(|record| Record::from((**record).clone()));
        store.commit(deleting(records)).await.unwrap();
    }

    assert_eq!(batches, [3, 3, 1]);
    let left: Vec<_> = kept_answers(&store).await.iter().map(|left| left.key.clone()).collect();
    assert_eq!(left, [8, 9, 10].map(request));
}

/// A key that is used anew is listed by its new expiry alone.
pub async fn a_renewed_answer_expires_anew(store: Arc<dyn Store>) {
    store.commit(writing(keeping([1, 2]))).await.unwrap();

    let renewed = IdempotencyRecord { expires_at: at(9), ..answer(1) };
    let renewed = at_version(Record::from(renewed), 2);
    store.commit(writing([renewed.clone()])).await.unwrap();

    assert_eq!(expired(&store, at(8), PageLimit::MAX).await, [request(2)]);
    assert_eq!(expired(&store, at(9), PageLimit::MAX).await, [request(2), request(1)]);
    assert_eq!(stored(&store, &renewed.key()).await, Some(renewed));
}
