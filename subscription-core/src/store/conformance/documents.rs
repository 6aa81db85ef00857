//! Documents: found by key, and listed by collection, owner, label and due time.

use std::sync::Arc;

use uuid::Uuid;

use super::records::{at, at_version, document};
use super::steps::{assert_bad, deleting, limit, stored, writing};
use crate::store::{
    BadChangeSet, Collection, Document, DocumentFilter, DocumentKey, DocumentQuery, Record, Store,
    StoreExt as _,
};
use crate::values::clock::Timestamp;

const NOTES: Collection = Collection::named("notes");

/// The ids of a list, read by pages of two.
async fn listed(store: &Arc<dyn Store>, filter: DocumentFilter) -> Vec<String> {
    let mut query = DocumentQuery { limit: limit(2), ..DocumentQuery::new(NOTES, filter) };
    let mut ids = Vec::new();
    loop {
        let page = store.list_as::<Document>(query.clone()).await.unwrap();
        assert!(page.items.len() <= 2, "a page is longer than its limit");
        ids.extend(page.items.iter().map(|document| document.key.id.to_string()));
        query.after = page.next;
        if query.after.is_none() {
            return ids;
        }
    }
}

fn named(id: &str, document: Document) -> Document {
    let key = DocumentKey { id: id.parse().unwrap(), ..document.key };
    Document { key, ..document }
}

/// Bodies of any text within the bound, with and without the values that lists go by.
pub async fn every_field_of_a_document_reads_back(store: Arc<dyn Store>) {
    let full = Document { body: "x".repeat(Document::BODY_BYTES_MAX).into(), ..document(1) };
    let odd = r#"{"text":"Größe 日本 \\ \" 🏠"}"#;
    let bare = Document { owner: None, label: None, due_at: None, body: odd.into(), ..document(2) };
    let last = Document { due_at: Some(Timestamp::MAX), body: "".into(), ..document(3) };
    let records = [full, bare, last].map(Record::from);

    store.commit(writing(records.clone())).await.unwrap();

    for record in records {
        assert_eq!(stored(&store, &record.key()).await, Some(record));
    }
}

/// The same id in two collections names two documents.
pub async fn documents_of_two_collections_do_not_clash(store: Arc<dyn Store>) {
    let other = DocumentKey { collection: Collection::named("other"), ..document(1).key };
    let both = [document(1), Document { key: other, ..document(1) }].map(Record::from);

    store.commit(writing(both.clone())).await.unwrap();

    assert_eq!(listed(&store, DocumentFilter::All).await, ["note-001"]);
    store.commit(deleting([both[1].clone()])).await.unwrap();
    assert_eq!(stored(&store, &both[0].key()).await.as_ref(), Some(&both[0]));
    assert_eq!(stored(&store, &both[1].key()).await, None);
}

/// Lists are sorted by id, byte by byte.
pub async fn documents_are_listed_by_collection_owner_and_label(store: Arc<dyn Store>) {
    let (ada, bob) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let of = |id: &str, owner, label: Option<&str>| {
        let label = label.map(|label| label.parse().unwrap());
        Record::from(named(id, Document { owner, label, ..document(1) }))
    };
    let documents = [
        of("b", Some(ada), Some("open")),
        of("a", Some(ada), None),
        of("B", Some(bob), Some("open")),
        of("~", None, Some("done")),
        of("a/1", Some(ada), Some("open")),
    ];

    store.commit(writing(documents)).await.unwrap();

    assert_eq!(listed(&store, DocumentFilter::All).await, ["B", "a", "a/1", "b", "~"]);
    assert_eq!(listed(&store, DocumentFilter::Owner(ada)).await, ["a", "a/1", "b"]);
    let label = |label: &str| DocumentFilter::Label(label.parse().unwrap());
    assert_eq!(listed(&store, label("open")).await, ["B", "a/1", "b"]);
    assert_eq!(listed(&store, label("ope")).await, [""; 0]);
}

/// The longest due first, and among those of one moment by id.
pub async fn documents_that_are_due_are_listed(store: Arc<dyn Store>) {
    let due = |id: &str, due_at| Record::from(named(id, Document { due_at, ..document(1) }));
    let documents = [
        due("e", Some(at(1))),
        due("d", Some(at(3))),
        due("c", Some(at(3))),
        due("b", Some(at(4))),
        due("a", None),
        due("f", Some(at(3))),
    ];

    store.commit(writing(documents)).await.unwrap();

    assert_eq!(listed(&store, DocumentFilter::DueBy(at(3))).await, ["e", "c", "d", "f"]);
    assert_eq!(listed(&store, DocumentFilter::DueBy(at(0))).await, [""; 0]);
}

/// A document leaves the lists of the values that it had.
pub async fn a_changed_document_is_listed_by_what_it_is_now(store: Arc<dyn Store>) {
    store.commit(writing([Record::from(document(1))])).await.unwrap();
    let bob = Uuid::from_u128(2);
    let label = Some("done".parse().unwrap());
    let changed = Document { owner: Some(bob), label, due_at: None, ..document(1) };

    store.commit(writing([at_version(changed.into(), 2)])).await.unwrap();

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

/// Nothing of the set is stored.
pub async fn a_body_beyond_its_bound_is_refused(store: Arc<dyn Store>) {
    let long = "x".repeat(Document::BODY_BYTES_MAX + 1).into();
    let long = Record::from(Document { body: long, ..document(2) });

    let refused = store.commit(writing([Record::from(document(1)), long.clone()])).await;

    assert_bad(&refused, &BadChangeSet::BodyTooLong(long.key()));
    assert_eq!(listed(&store, DocumentFilter::All).await, [""; 0]);
}
