//! Documents that an import changes, leaves out or adds.

use subscription_core::Version;
use subscription_core::store::transfer::{ImportOptions, TransferError};
use subscription_core::store::{Collection, Document, DocumentKey, Record, StoreExt as _};
use test_support::trials;
use test_support::trials::Trial;

use super::{Movable, commit};
use crate::{postgres, sqlite};

pub(super) fn trials() -> Vec<Trial> {
    trials![documents_are_edited_on_their_way_into_a_file]
}

pub(super) fn trials_with_a_server() -> Vec<Trial> {
    trials![documents_are_edited_on_their_way_into_a_server]
}

async fn documents_are_edited_on_their_way_into_a_file() {
    edited(&sqlite::fresh().await, &sqlite::fresh().await).await;
}

async fn documents_are_edited_on_their_way_into_a_server() {
    edited(&sqlite::fresh().await, &postgres::fresh().await).await;
    edited(&postgres::fresh().await, &sqlite::fresh().await).await;
}

fn document(collection: &'static str, id: &str) -> Document {
    Document {
        key: DocumentKey { collection: Collection::named(collection), id: id.parse().unwrap() },
        version: Version::FIRST,
        owner: None,
        label: None,
        due_at: None,
        body: "{}".into(),
    }
}

async fn edited(home: &impl Movable, away: &impl Movable) {
    let (same, changed) = (document("endpoint", "a"), document("endpoint", "b"));
    let (left_out, added) = (document("endpoint", "c"), document("pause", "a"));
    let written = [&same, &changed, &left_out].map(|document| Record::from(document.clone()));
    commit(home, written.into()).await;
    let file = home.moved_out().await;
    let edit = |mut document: Document| {
        if document.key.id == changed.key.id {
            document.label = "disabled".parse().ok();
        }
        Ok::<_, TransferError>(Some(document).filter(|document| document.key != left_out.key))
    };

    // A function that fails refuses the file, with its line, and nothing of it is stored.
    let options = ImportOptions::default().add_document(added.clone());
    let options = options.edit_documents(|_| Err::<Option<Document>, _>("it is damaged"));
    let refused = away.move_in_with(&file, options).await.unwrap_err();
    let TransferError::Faulty(faults) = refused else { panic!("{refused}") };
    assert_eq!(faults.listed().next(), Some("line 2: it is damaged"));
    assert_eq!(faults.total(), 3);

    let options = ImportOptions::default().add_document(added.clone()).edit_documents(edit);
    let counts = away.move_in_with(&file, options).await.unwrap();

    assert_eq!(counts.documents, 3);
    let label = "disabled".parse().ok();
    let changed = Document { label, ..changed };
    for (document, is_there) in [(same, true), (changed, true), (left_out, false), (added, true)] {
        let found = away.get_as::<Document>(&document.key).await.unwrap();
        assert_eq!(found.as_deref(), is_there.then_some(&document));
    }
}
