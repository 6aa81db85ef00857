//! Documents: the small, versioned state of a capability (an optional part of the service, such as webhooks). A
//! document is found by its id, its owner, its label or its due time.
//!
//! A capability stores its state in documents, so that it needs no table, no store method and no export of its own. A
//! change of a document adds no event to the feed.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::query::{PageLimit, Position, SortKey};
use crate::values::{DocumentId, InvalidValue, Label, Timestamp, Version};

/// A piece of state of a capability (an optional part of the service, such as webhooks): a JSON text under a key, with
/// the values by which lists find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The key of the document.
    pub key: DocumentKey,
    /// The number of times that the document was written.
    pub version: Version,
    /// The id of the record that the document belongs to, for lists by owner; `None` if there is no owner.
    pub owner: Option<Uuid>,
    /// A text by which lists select documents, such as a state or a group; `None` for a document without a label.
    pub label: Option<Label>,
    /// The time at which work on the document is due, for lists by due time; `None` if no work is due.
    pub due_at: Option<Timestamp>,
    /// The state itself as JSON: at most [`Document::BODY_BYTES_MAX`] bytes.
    pub body: Box<str>,
}

impl Document {
    /// The longest body, in bytes. A change set with a longer body is refused.
    pub const BODY_BYTES_MAX: usize = 65_536;
}

/// The key of a document: ids are unique within a collection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    /// The collection of the document.
    pub collection: Collection,
    /// The id of the document in the collection.
    pub id: DocumentId,
}

/// The name of a collection of documents: 1 to 40 small letters, digits and underscores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection(Cow<'static, str>);

impl Collection {
    /// A collection whose name is a constant in the code. The name is not checked.
    pub const fn named(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The name as a plain `str`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Collection {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if (1..=40).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(Cow::Owned(text.to_owned())))
        } else {
            let message = "must be 1 to 40 small letters, digits and underscores";
            Err(InvalidValue::bad_format(message))
        }
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A page of the documents of one collection, sorted by id. Due documents are sorted by due time, then by id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentQuery {
    /// The collection.
    pub collection: Collection,
    /// The documents of the collection that are listed.
    pub filter: DocumentFilter,
    /// The position after which the page begins; from the start if `None`.
    pub after: Option<Position>,
    /// The largest number of documents on the page.
    pub limit: PageLimit,
}

/// The documents of a collection that are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentFilter {
    /// All documents.
    All,
    /// The documents of this owner.
    Owner(Uuid),
    /// The documents with this label.
    Label(Label),
    /// The documents that are due at this moment or before, the longest due first.
    DueBy(Timestamp),
}

impl DocumentQuery {
    /// The first page of the documents that a filter admits.
    pub fn new(collection: Collection, filter: DocumentFilter) -> Self {
        Self { collection, filter, after: None, limit: PageLimit::default() }
    }

    /// The position of `document` in this list.
    pub fn position(&self, document: &Document) -> Position {
        let due_at = match self.filter {
            DocumentFilter::DueBy(_) => document.due_at,
            DocumentFilter::All | DocumentFilter::Owner(_) | DocumentFilter::Label(_) => None,
        };
        let key = SortKey::Document { due_at, id: document.key.id.clone() };
        Position { key, id: Uuid::nil() }
    }
}

crate::with_fields! {
    DocumentQuery {
        with_after(impl Into<Option<Position>>) => after,
        with_limit(PageLimit) => limit,
    }
}
