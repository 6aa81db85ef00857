//! Documents: found by key, and listed by collection, owner, label and due time.

use std::sync::Arc;

use uuid::Uuid;

use super::records::{at, at_version, document};
use super::steps::{assert_absent, assert_bad, assert_stored, limit, put, remove, writing};
use super::walk::walk;
use crate::store::{
    BadChangeSet, Collection, Document, DocumentFilter, DocumentKey, DocumentQuery, Key, Query,
    Record, Store,
};
use crate::values::Timestamp;

const NOTES: Collection = Collection::named("notes");

/// The ids of a list, read by pages of two.
async fn listed(store: &Arc<dyn Store>, filter: DocumentFilter) -> Vec<String> {
    let query = DocumentQuery { limit: limit(2), ..DocumentQuery::new(NOTES, filter) };
    let documents = walk(store, Query::Document(query)).await;
    let keys = documents.iter().map(Record::key);
    keys.filter_map(
        |key| if let Key::Document(key) = key { Some(key.id.to_string()) } else { None },
    )
    .collect()
}

fn named(id: &str, document: Document) -> Document {
    let key = DocumentKey { id: id.parse().unwrap(), ..document.key };
    Document { key, ..document }
}

/// The documents have bodies of any text up to the largest size, with and without owner, label and due time.
pub async fn every_field_of_a_document_reads_back(store: Arc<dyn Store>) {
    let full = Document { body: "x".repeat(Document::BODY_BYTES_MAX).into(), ..document(1) };
    let odd = r#"{"text":"Größe 日本 \\ \" 🏠"}"#;
    let bare = Document { owner: None, label: None, due_at: None, body: odd.into(), ..document(2) };
    let last = Document { due_at: Some(Timestamp::MAX), body: "".into(), ..document(3) };
    put(&store, [full.clone(), bare.clone(), last.clone()]).await;

    assert_stored(&store, [full, bare, last]).await;
}

/// The same id in two collections names two documents.
pub async fn documents_of_two_collections_do_not_clash(store: Arc<dyn Store>) {
    let other = DocumentKey { collection: Collection::named("other"), ..document(1).key };
    let other = Document { key: other, ..document(1) };
    put(&store, [document(1), other.clone()]).await;

    assert_eq!(listed(&store, DocumentFilter::All).await, ["note-001"]);
    remove(&store, [other.clone()]).await;
    assert_stored(&store, [document(1)]).await;
    assert_absent(&store, [other]).await;
}

/// Lists are sorted by id, byte by byte.
pub async fn documents_are_listed_by_collection_owner_and_label(store: Arc<dyn Store>) {
    let ada = Uuid::from_u128(1);
    let bob = Uuid::from_u128(2);
    let of = |id: &str, owner, label: Option<&str>| {
        let label = label.map(|label| label.parse().unwrap());
        named(id, Document { owner, label, ..document(1) })
    };
    let documents = [
        of("b", Some(ada), Some("open")),
        of("a", Some(ada), None),
        of("B", Some(bob), Some("open")),
        of("~", None, Some("done")),
        of("a/1", Some(ada), Some("open")),
    ];

    put(&store, documents).await;

    assert_eq!(listed(&store, DocumentFilter::All).await, ["B", "a", "a/1", "b", "~"]);
    assert_eq!(listed(&store, DocumentFilter::Owner(ada)).await, ["a", "a/1", "b"]);
    let label = |label: &str| DocumentFilter::Label(label.parse().unwrap());
    assert_eq!(listed(&store, label("open")).await, ["B", "a/1", "b"]);
    assert_eq!(listed(&store, label("ope")).await, [""; 0]);
}

/// The document with the earliest due time comes first; documents with the same due time are sorted by id.
pub async fn documents_that_are_due_are_listed(store: Arc<dyn Store>) {
    let due = |id: &str, due_at| named(id, Document { due_at, ..document(1) });
    let documents = [
        due("e", Some(at(1))),
        due("d", Some(at(3))),
        due("c", Some(at(3))),
        due("b", Some(at(4))),
        due("a", None),
        due("f", Some(at(3))),
    ];

    put(&store, documents).await;

    assert_eq!(listed(&store, DocumentFilter::DueBy(at(3))).await, ["e", "c", "d", "f"]);
    assert_eq!(listed(&store, DocumentFilter::DueBy(at(0))).await, [""; 0]);
}

/// A changed document is no longer in the lists of its old values.
pub async fn a_changed_document_is_listed_by_what_it_is_now(store: Arc<dyn Store>) {
    put(&store, [document(1)]).await;
    let bob = Uuid::from_u128(2);
    let label = Some("done".parse().unwrap());
    let changed = Document { owner: Some(bob), label, due_at: None, ..document(1) };

    put(&store, [at_version(changed, 2)]).await;

    for (filter, ids) in [
        (DocumentFilter::Owner(Uuid::from_u128(1)), 0),
        (DocumentFilter::Owner(bob), 1),
        (DocumentFilter::Label("open".parse().unwrap()), 0),
        (DocumentFilter::Label("done".parse().unwrap()), 1),
        (DocumentFilter::DueBy(Timestamp::MAX), 0),
        (DocumentFilter::All, 1),
    ] {
        assert_eq!(listed(&store, filter.clone()).await.len(), ids, "{filter:?}");
    }
}

/// No part of the change set is stored.
pub async fn a_body_beyond_its_bound_is_refused(store: Arc<dyn Store>) {
    let long = "x".repeat(Document::BODY_BYTES_MAX + 1).into();
    let long = Record::from(Document { body: long, ..document(2) });

    let refused = store.commit(writing([Record::from(document(1)), long.clone()])).await;

    assert_bad(&refused, &BadChangeSet::BodyTooLong(long.key()));
    assert_eq!(listed(&store, DocumentFilter::All).await, [""; 0]);
}
