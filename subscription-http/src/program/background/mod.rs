//! The background work of the leader, and the clock of the process.

pub(crate) mod billing;
pub(crate) mod jobs;
pub(crate) mod leader;
pub(crate) mod process_clock;
pub(crate) mod upkeep;
