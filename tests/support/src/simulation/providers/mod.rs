//! Random lives of accounts at payment providers, followed by two workers that are interrupted at any point.

#![expect(clippy::wildcard_enum_match_arm, reason = "few kinds of records matter here")]

pub mod broken;
mod commits;
pub mod invariants;
pub mod races;
mod worker;
pub mod world;
