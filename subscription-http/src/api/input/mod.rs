//! The parts of a request, read strictly.

pub(crate) mod body;
pub(crate) mod bounds;
pub(crate) mod cursor;
pub(crate) mod query;
