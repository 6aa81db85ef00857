//! The events of providers: receives, stores and lists them, and defines their states.

pub(crate) mod documents;
pub(crate) mod intake;
pub(crate) mod links;
pub(crate) mod queries;
pub(crate) mod signature;
pub(crate) mod status;
