//! How the requests of a provider's API are written, and where its responses have their parts.

use serde_json::Value;

use super::ApiPage;
use crate::providers::{ObjectId, ObjectKind, ObjectList, Unmapped};

/// The requests of a provider's API, and the parts of its responses.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The scheme and host.
    pub(crate) host: &'static str,
    /// The headers of every request, beside the key.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// The path and query of an object; `None` if the provider has none of this kind.
    pub(crate) object: fn(ObjectKind, &ObjectId) -> Option<String>,
    /// The object in the response for one object.
    pub(crate) object_in: fn(Value) -> Value,
    /// The fields that are added to an object, in this order.
    pub(crate) added: &'static [Added],
    /// The path and query of a page; `None` if the provider has no such list.
    pub(crate) list: fn(&ObjectList, Option<&str>) -> Option<String>,
    /// The page in the response for a page.
    pub(crate) page: fn(&ObjectList, Option<&str>, Value) -> Result<ApiPage, Unmapped>,
}

/// A field that is added to the objects of a kind, because the provider does not return it with them.
#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) kind: ObjectKind,
    pub(crate) field: &'static str,
    /// The paths of the lists whose entries the field has: one page of each.
    pub(crate) lists: fn(&Value) -> Vec<String>,
}
