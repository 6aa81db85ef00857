//! The strict parsing of the parts of a request.

pub(crate) mod body;
pub(crate) mod bounds;
pub(crate) mod cursor;
pub(crate) mod query;
