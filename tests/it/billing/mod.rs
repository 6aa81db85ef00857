//! The rules of billing: pure functions, without service and store.

mod creation;
mod golden;
mod grid;
mod policy;
mod properties;
mod reports;
mod ties;
mod updates;
mod verbs;
