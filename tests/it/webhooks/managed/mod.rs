//! The calls that manage endpoints, through the facade.

mod changes;
mod creation;
mod deletion;
mod inputs;
mod ping;
mod resending;
mod secrets;
mod upkeep;
pub(crate) mod world;
