//! Documents in memory: by key, and listed by collection, owner, label and due time.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use uuid::Uuid;

use super::index::first;
use crate::store::document::{Collection, Document, DocumentFilter, DocumentKey, DocumentQuery};
use crate::store::query::SortKey;
use crate::values::{DocumentId, Label, Timestamp};

#[derive(Debug, Default)]
pub(super) struct DocumentTable {
    records: HashMap<DocumentKey, Arc<Document>>,
    /// Each document is in the list of all documents of its collection, and in one list each for its owner, its label
    /// and its due time.
    lists: BTreeSet<(Collection, List, DocumentId)>,
}

/// One of the lists of a collection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    All,
    Owner(Uuid),
    Label(Label),
    Due(Timestamp),
}

fn lists(document: &Document) -> impl Iterator<Item = (Collection, List, DocumentId)> + '_ {
    let DocumentKey { collection, id } = &document.key;
    let lists = [
        Some(List::All),
        document.owner.map(List::Owner),
        document.label.clone().map(List::Label),
        document.due_at.map(List::Due),
    ];
    lists.into_iter().flatten().map(|list| (collection.clone(), list, id.clone()))
}

impl DocumentTable {
    pub(super) fn get(&self, key: &DocumentKey) -> Option<&Arc<Document>> {
        self.records.get(key)
    }

    pub(super) fn put(&mut self, document: Arc<Document>) {
        self.delete(&document.key);
        self.lists.extend(lists(&document));
        self.records.insert(document.key.clone(), document);
    }

    pub(super) fn delete(&mut self, key: &DocumentKey) {
        let Some(document) = self.records.remove(key) else { return };
        for entry in lists(&document) {
            self.lists.remove(&entry);
        }
    }

    pub(super) fn page(&self, query: &DocumentQuery) -> Vec<Arc<Document>> {
        let (after_due, after_id) = match query.after.as_ref().map(|position| &position.key) {
            Some(SortKey::Document { due_at, id }) => (*due_at, id.clone()),
            Some(_) | None => (None, DocumentId::before_all()),
        };
        let begin = match &query.filter {
            DocumentFilter::All => List::All,
            DocumentFilter::Owner(owner) => List::Owner(*owner),
            DocumentFilter::Label(label) => List::Label(label.clone()),
            DocumentFilter::DueBy(_) => List::Due(after_due.unwrap_or(Timestamp::MIN)),
        };
        let admits = |list: &List| match (&query.filter, list) {
            (DocumentFilter::DueBy(by), List::Due(due_at)) => due_at <= by,
            _ => *list == begin,
        };
        let from = (query.collection.clone(), begin.clone(), after_id);
        let entries = self.lists.range((Bound::Excluded(from), Bound::Unbounded));
        let found = entries
            .take_while(|(collection, list, _)| *collection == query.collection && admits(list))
            .filter_map(|(collection, _, id)| {
                let key = DocumentKey { collection: collection.clone(), id: id.clone() };
                self.records.get(&key)
            });
        first(found, query.limit)
    }
}
