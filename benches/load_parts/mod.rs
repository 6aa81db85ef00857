//! Servers under load, and their callers.

pub(crate) mod callers;
pub(crate) mod servers;
