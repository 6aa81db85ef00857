//! One file for each thing that costs grow with.

pub(crate) mod connections;
pub(crate) mod over_records;
pub(crate) mod start;
