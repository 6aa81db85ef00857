//! Servers under load, and those who call them.

pub(crate) mod callers;
pub(crate) mod servers;
