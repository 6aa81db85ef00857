//! Documents: the small, versioned state of capabilities, found by id, by owner, by label or when due.
//!
//! A capability stores its state in documents, so that it needs no table, no store method and no export of
//! its own. Documents write no events.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use super::query::{PageLimit, Position, SortKey};
use crate::values::clock::Timestamp;
use crate::values::faults::{FaultCode, InvalidValue};
use crate::values::text::reads_and_writes_as_text;
use crate::values::version::Version;

/// State of a capability: a JSON text under a key, with the values that lists find it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Names the document.
    pub key: DocumentKey,
    /// The number of times it has been written.
    pub version: Version,
    /// The record that it belongs to, for lists by owner.
    pub owner: Option<Uuid>,
    /// A state or a group, for lists by label.
    pub label: Option<Label>,
    /// When work on it is due, for lists by due time.
    pub due_at: Option<Timestamp>,
    /// The state itself as JSON: at most [`Document::BODY_BYTES_MAX`] bytes.
    pub body: Box<str>,
}

impl Document {
    /// The longest body, in bytes. A change set with a longer one is refused.
    pub const BODY_BYTES_MAX: usize = 65_536;
}

/// The key of a document: ids are unique within a collection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    /// The collection that it is in.
    pub collection: Collection,
    /// Its id there.
    pub id: DocumentId,
}

fn visible(text: &str) -> Result<Box<str>, InvalidValue> {
    if (1..=100).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.into())
    } else {
        let message = "must be 1 to 100 visible ASCII characters";
        Err(InvalidValue::new(FaultCode::BadFormat, message))
    }
}

macro_rules! visible_texts {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl FromStr for $name {
            type Err = InvalidValue;

            fn from_str(text: &str) -> Result<Self, InvalidValue> {
                visible(text).map(Self)
            }
        }

        reads_and_writes_as_text!($name);
    )+};
}

impl DocumentId {
    /// A text that sorts before every id.
    pub(super) fn before_all() -> Self {
        Self(Box::default())
    }
}

visible_texts! {
    /// The id of a document: 1 to 100 visible ASCII characters, sorted byte by byte.
    DocumentId;
    /// The label of a document: 1 to 100 visible ASCII characters.
    Label;
}

/// The name of a collection of documents: 1 to 40 small letters, digits and underscores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection(Cow<'static, str>);

impl Collection {
    /// A collection that the program names itself. The caller answers for its form.
    pub const fn named(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The bare text.
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
            Err(InvalidValue::new(FaultCode::BadFormat, message))
        }
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A page of the documents of one collection, sorted by id; those that are due by due time first.
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
    /// All of them.
    All,
    /// The documents of this owner.
    Owner(Uuid),
    /// Those with this label.
    Label(Label),
    /// Those that are due at this moment or before, the longest due first.
    DueBy(Timestamp),
}

impl DocumentQuery {
    /// The first documents that a filter admits.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_labels_and_collections_beyond_their_bounds_are_refused() {
        let longest = "x".repeat(100);
        for text in ["a", "0194b9e4/00000000000000000017", "~!", longest.as_str()] {
            assert_eq!(text.parse::<DocumentId>().unwrap().as_str(), text);
            assert_eq!(text.parse::<Label>().unwrap().as_str(), text);
        }
        for text in ["", "a b", "a\n", "ä", "\u{7f}", &"x".repeat(101)] {
            assert!(text.parse::<DocumentId>().is_err(), "{text:?}");
            assert!(text.parse::<Label>().is_err(), "{text:?}");
        }
        for text in ["", "Upper", "a-b", "a b", &"x".repeat(41)] {
            assert!(text.parse::<Collection>().is_err(), "{text:?}");
        }
        assert_eq!("webhook_endpoint".parse(), Ok(Collection::named("webhook_endpoint")));
    }
}
