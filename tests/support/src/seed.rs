//! One seed for all that tests leave to chance, and how much of it there is.
//!
//! `SUBSCRIPTION_TEST_SEED=n` repeats what a failing test has printed; `SUBSCRIPTION_TEST_STEPS=n` makes
//! it longer or shorter, and `SUBSCRIPTION_TEST_SEEDS=n` tries `n` seeds; `.ci/long` tries 1,000.

#![expect(clippy::print_stdout, reason = "a failing test shows its seed")]

use std::env;

use subscription_core::{Randomness as _, SystemRandomness};

use crate::rng::Rng;

/// The seed to repeat, or one that nobody has tried yet. It is printed, and shown if the test fails.
pub fn seed() -> u64 {
    let seed = asked_for().unwrap_or_else(fresh);
    println!("SUBSCRIPTION_TEST_SEED={seed}");
    seed
}

/// Random numbers of [`seed`], printed with the name of the test where output is not captured.
pub fn rng(test: &str) -> Rng {
    println!("{test}:");
    Rng::new(seed())
}

/// The number of seeds from which on random lives have met every state that a test names.
const SEEDS_OF_ALL_STATES: usize = 400;

/// True if a test tries enough seeds to have met every state. With fewer, some states may be missing.
pub fn meet_all_states(seeds: &[u64]) -> bool {
    seeds.len() >= SEEDS_OF_ALL_STATES
}

/// The seed to repeat alone, or `fixed` seeds that are the same in each run and one that nobody has tried yet.
pub fn seeds(fixed: u64) -> Vec<u64> {
    let fixed = number("SUBSCRIPTION_TEST_SEEDS").unwrap_or(fixed);
    let several = || (1..=fixed).chain([fresh()]).collect();
    let seeds: Vec<_> = asked_for().map_or_else(several, |seed| vec![seed]);
    let last = seeds.last().copied().unwrap_or_default();
    println!("the last seed is SUBSCRIPTION_TEST_SEED={last}");
    seeds
}

/// How many steps a test takes whose number can be chosen.
pub fn steps(by_default: u64) -> u64 {
    number("SUBSCRIPTION_TEST_STEPS").unwrap_or(by_default)
}

fn asked_for() -> Option<u64> {
    number("SUBSCRIPTION_TEST_SEED")
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

/// A short one: it is read and typed by people.
fn fresh() -> u64 {
    let mut bytes = [0; 8];
    SystemRandomness.fill(&mut bytes).unwrap_or_else(|error| panic!("no randomness: {error}"));
    u64::from_le_bytes(bytes) >> 16
}
