//! Idempotency records: the stored result of a create, by its key and by the time at which it expires.

use std::sync::Arc;

use super::records::{answer, at, at_version, parsed, request};
use super::steps::{assert_stored, limit, listed, put};
use crate::store::{
    IdempotencyKey, IdempotencyQuery, IdempotencyRecord, Operation, PageLimit, Store,
};
use crate::values::Timestamp;

async fn expired(store: &Arc<dyn Store>, by: Timestamp, limit: PageLimit) -> Vec<IdempotencyKey> {
    let query = IdempotencyQuery::Expired { by, limit };
    let expired = listed::<IdempotencyRecord>(store, query).await;
    expired.iter().map(|record| record.key.clone()).collect()
}

/// The same key is another request if another client sent it, if it is for another operation, or if its letters differ
/// in case.
pub async fn an_answer_belongs_to_its_operation_client_and_key(store: Arc<dyn Store>) {
    let keys = [
        request(1),
        IdempotencyKey { operation: Operation::CreatePayment, ..request(1) },
        IdempotencyKey { client: "Client".to_owned(), ..request(1) },
        IdempotencyKey { client: String::new(), ..request(1) },
        IdempotencyKey { key: parsed("Request-1"), ..request(1) },
    ];
    let records = keys.into_iter().zip(10..);
    let records = records.map(|(key, n)| IdempotencyRecord { key, ..answer(n) });
    for record in records.clone() {
        put(&store, [record]).await;
    }

    assert_stored(&store, records).await;
}

/// The service, not the store, decides what an expired record means.
pub async fn an_expired_answer_still_reads_back(store: Arc<dyn Store>) {
    let long_ago = IdempotencyRecord { expires_at: Timestamp::MIN, ..answer(1) };

    put(&store, [long_ago.clone()]).await;

    assert_stored(&store, [long_ago]).await;
}

/// A record that expires exactly at the time of the query is listed too.
pub async fn answers_that_have_expired_are_listed_and_no_other(store: Arc<dyn Store>) {
    put(&store, (1..=5).map(answer)).await;

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

/// The records are sorted by the time at which they expire, not by key or by the order of the writes.
pub async fn the_longest_expired_answers_come_first(store: Arc<dyn Store>) {
    for n in [4, 20, 1, 3, 100, 2] {
        put(&store, [answer(n)]).await;
    }

    let expected = [1, 2, 3, 4, 20, 100].map(request);
    assert_eq!(expired(&store, at(100), PageLimit::MAX).await, expected);
    for size in 1..=6 {
        let first: Vec<_> = expected.iter().take(size).cloned().collect();
        assert_eq!(expired(&store, at(100), limit(size)).await, first, "{size}");
    }
}

/// A record that was replaced is listed by its new time alone.
pub async fn a_renewed_answer_expires_anew(store: Arc<dyn Store>) {
    put(&store, [1, 2].map(answer)).await;

    let renewed = at_version(IdempotencyRecord { expires_at: at(9), ..answer(1) }, 2);
    put(&store, [renewed.clone()]).await;

    assert_eq!(expired(&store, at(8), PageLimit::MAX).await, [request(2)]);
    assert_eq!(expired(&store, at(9), PageLimit::MAX).await, [request(2), request(1)]);
    assert_stored(&store, [renewed]).await;
}
