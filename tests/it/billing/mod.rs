//! The rules of billing: pure functions, without service and store.

mod creation;
mod discount_properties;
mod discounts;
mod golden;
mod grid;
mod mirror;
mod people;
mod plan_changes;
mod plan_use;
mod policy;
mod properties;
mod races;
mod reports;
mod ties;
mod updates;
mod verbs;
