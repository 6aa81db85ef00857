//! Random lives of accounts at payment providers, followed by two workers that are interrupted at any point.

pub mod broken;
mod commits;
pub mod invariants;
pub mod races;
mod worker;
pub mod world;
