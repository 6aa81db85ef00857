//! The bodies of documents: values that a part of the service stores as JSON, each read together with the version of
//! its document.

use std::fmt::Display;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::damaged::DamagedRecord;
use super::document::{Collection, Document, DocumentKey, DocumentQuery};
use super::error::StoreError;
use super::record::Key;
use super::{PageLimit, Store, StoreExt as _};
use crate::values::{DocumentId, Timestamp, Version};

/// A body that was read, with the version and the due time of its document.
#[derive(Debug, Clone)]
pub(crate) struct Stored<T> {
    pub(crate) version: Version,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) body: T,
}

impl<T: DeserializeOwned> Stored<T> {
    pub(crate) fn read(document: &Document) -> Result<Self, StoreError> {
        let body = serde_json::from_str(&document.body);
        let body = body.map_err(|error| StoreError::Damaged(error.into()))?;
        Ok(Self { version: document.version, due_at: document.due_at, body })
    }

    pub(crate) async fn load(
        store: &dyn Store,
        key: &DocumentKey,
    ) -> Result<Option<Self>, StoreError> {
        let document = store.get_as::<Document>(key).await?;
        document.as_deref().map(Self::read).transpose()
    }

    /// Reads those of the documents whose bodies can be read, and adds the others to `damaged`.
    pub(crate) fn readable(
        documents: &[Arc<Document>],
        damaged: &mut Vec<DamagedRecord>,
    ) -> Vec<Self> {
        let read = |document: &Arc<Document>| match Self::read(document) {
            Ok(read) => Some(read),
            Err(error) => {
                damaged.push(document.damaged(&error));
                None
            }
        };
        documents.iter().filter_map(read).collect()
    }

    /// Reads all documents of a list.
    pub(crate) async fn all(
        store: &dyn Store,
        query: DocumentQuery,
    ) -> Result<Vec<Self>, StoreError> {
        query.all(store).await?.iter().map(|document| Self::read(document)).collect()
    }
}

impl DocumentQuery {
    /// All documents of the list.
    pub(crate) async fn all(self, store: &dyn Store) -> Result<Vec<Arc<Document>>, StoreError> {
        let page = |after| self.clone().with_limit(PageLimit::MAX).with_after(after);
        store.all_as::<Document>(page).await
    }
}

/// The key of a document whose id is `id` as text.
pub(crate) fn document_key(
    collection: Collection,
    id: impl Display,
) -> Result<DocumentKey, StoreError> {
    let id: Result<DocumentId, _> = id.to_string().parse();
    Ok(DocumentKey { collection, id: id.map_err(|error| StoreError::Damaged(error.into()))? })
}

impl Document {
    /// Names this document as one whose body cannot be read.
    pub(crate) fn damaged(&self, error: &StoreError) -> DamagedRecord {
        let key = Key::Document(self.key.clone());
        if let StoreError::Damaged(cause) = error {
            DamagedRecord::of(&key, cause)
        } else {
            DamagedRecord::of(&key, error)
        }
    }

    /// A document whose body is the JSON of `value`, without owner, label and due time.
    pub(crate) fn with_body(
        key: DocumentKey,
        version: Version,
        value: &impl Serialize,
    ) -> Result<Self, StoreError> {
        let body = serde_json::to_string(value);
        let body = body.map_err(|error| StoreError::Damaged(error.into()))?.into();
        Ok(Self { key, version, owner: None, label: None, due_at: None, body })
    }
}
