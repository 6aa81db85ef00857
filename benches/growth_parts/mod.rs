//! The parts of the bench of growth: one file for each quantity that grows.

pub(crate) mod connections;
pub(crate) mod over_records;
pub(crate) mod start;
