//! Events of providers: received, stored, listed, and their state.

pub(crate) mod documents;
pub(crate) mod intake;
pub(crate) mod links;
pub(crate) mod queries;
pub(crate) mod signature;
pub(crate) mod status;
