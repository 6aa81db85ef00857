//! The work of the leader, and of every instance, in the background.

pub(crate) mod billing;
pub(crate) mod jobs;
pub(crate) mod leader;
pub(crate) mod process_clock;
pub(crate) mod upkeep;
