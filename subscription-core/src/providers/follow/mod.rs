//! Following the objects of providers: events are applied, and records written.

pub(crate) mod bindings;
pub(crate) mod decide;
pub(crate) mod observation;
pub(crate) mod observe;
pub(crate) mod observe_now;
pub(crate) mod outcome;
pub(crate) mod plans;
pub(crate) mod records;
pub(crate) mod runner;
pub(crate) mod users;
