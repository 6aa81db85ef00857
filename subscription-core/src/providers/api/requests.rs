//! The differences between the APIs of providers: the paths of their requests, and where their responses have the
//! objects and pages.

use serde_json::Value;

use super::ApiPage;
use crate::providers::{ObjectId, ObjectKind, ObjectList, Unmapped};

/// The functions that make the paths of a provider's API, and those that read its responses.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The scheme and host.
    pub(crate) host: &'static str,
    /// The headers of every request, in addition to the API key.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// The path and query of the request for an object; `None` if the provider has no objects of this kind.
    pub(crate) object: fn(ObjectKind, &ObjectId) -> Option<String>,
    /// Extracts the object from the response for one object.
    pub(crate) object_in: fn(Value) -> Value,
    /// The fields that are added to an object by further requests, in this order.
    pub(crate) added: &'static [Added],
    /// The path and query of the request for a page of a list; `None` if the provider has no such list.
    pub(crate) list: fn(&ObjectList, Option<&str>) -> Option<String>,
    /// Extracts the page from the response for a page.
    pub(crate) page: fn(&ObjectList, Option<&str>, Value) -> Result<ApiPage, Unmapped>,
}

/// A field that is added to the objects of a kind, because the provider's response for such an object does not have it.
#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) kind: ObjectKind,
    pub(crate) field: &'static str,
    /// Makes from an object the paths of the lists whose entries together become the value of the field. One page of
    /// each list is read.
    pub(crate) lists: fn(&Value) -> Vec<String>,
}
