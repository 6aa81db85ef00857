//! The parts of a response, and the line that is logged for it.

pub(crate) mod bodies;
pub(crate) mod json_cache;
pub(crate) mod request_log;
pub(crate) mod unread_bytes;
