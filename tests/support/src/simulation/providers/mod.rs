//! The simulation of payment providers: accounts change at random, and two workers that are interrupted at any point
//! update our records.

#![expect(clippy::wildcard_enum_match_arm, reason = "few kinds of records matter here")]

pub mod broken;
mod commits;
pub mod invariants;
pub mod races;
mod shop;
mod worker;
pub mod world;
