//! The differences between the APIs of providers: how requests are written, and where responses have their parts.

use serde_json::Value;

use super::ApiPage;
use crate::providers::{ObjectId, ObjectKind, ObjectList, Unmapped};

/// The requests of a provider's API, and the parts of its responses.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The scheme and host.
    pub(crate) host: &'static str,
    /// The headers of every request, in addition to the API key.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// The path and query of an object; `None` if the provider has no objects of this kind.
    pub(crate) object: fn(ObjectKind, &ObjectId) -> Option<String>,
    /// Extracts the object from the response for one object.
    pub(crate) object_in: fn(Value) -> Value,
    /// The fields that are added to an object, in this order.
    pub(crate) added: &'static [Added],
    /// The path and query of a page; `None` if the provider has no such list.
    pub(crate) list: fn(&ObjectList, Option<&str>) -> Option<String>,
    /// Extracts the page from the response for a page.
    pub(crate) page: fn(&ObjectList, Option<&str>, Value) -> Result<ApiPage, Unmapped>,
}

/// A field that is added to the objects of a kind, because the provider does not return it with them.
#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) kind: ObjectKind,
    pub(crate) field: &'static str,
    /// The paths of the lists whose entries become the field. One page of each list is read.
    pub(crate) lists: fn(&Value) -> Vec<String>,
}
