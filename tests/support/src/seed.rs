//! The seed of everything random in a test, and the number of random steps.
//!
//! `SUBSCRIPTION_TEST_SEED=n` repeats a failed test with the seed that it printed. `SUBSCRIPTION_TEST_STEPS=n` sets the
//! number of steps. `SUBSCRIPTION_TEST_SEEDS=n` tries `n` seeds; `.ci/long` tries 1,000.

#![expect(clippy::print_stdout, reason = "a failing test shows its seed")]

use std::env;

use subscription_core::{Randomness as _, SystemRandomness};

use crate::rng::Rng;

/// The seed of `SUBSCRIPTION_TEST_SEED`, or a new random seed. The seed is printed, so that a failed test shows it.
pub fn seed() -> u64 {
    let seed = asked_for().unwrap_or_else(fresh);
    println!("SUBSCRIPTION_TEST_SEED={seed}");
    seed
}

/// Random numbers from [`seed`]. The name of the test is printed with the seed, for output that is not captured.
pub fn rng(test: &str) -> Rng {
    println!("{test}:");
    Rng::new(seed())
}

/// The number of seeds that is enough for random lives to reach every state that a test names.
const SEEDS_OF_ALL_STATES: usize = 400;

/// True if a test tries enough seeds to reach every state. With fewer seeds, some states may be missing.
pub fn meet_all_states(seeds: &[u64]) -> bool {
    seeds.len() >= SEEDS_OF_ALL_STATES
}

/// Only the seed of `SUBSCRIPTION_TEST_SEED` if it is set. Otherwise `fixed` seeds that are the same in each run, and a
/// new random seed.
pub fn seeds(fixed: u64) -> Vec<u64> {
    let fixed = number("SUBSCRIPTION_TEST_SEEDS").unwrap_or(fixed);
    let several = || (1..=fixed).chain([fresh()]).collect();
    let seeds: Vec<_> = asked_for().map_or_else(several, |seed| vec![seed]);
    let last = seeds.last().copied().unwrap_or_default();
    println!("the last seed is SUBSCRIPTION_TEST_SEED={last}");
    seeds
}

/// The number of steps of a test: `SUBSCRIPTION_TEST_STEPS`, or `by_default`.
pub fn steps(by_default: u64) -> u64 {
    number("SUBSCRIPTION_TEST_STEPS").unwrap_or(by_default)
}

/// Every `by_default`-th of these cases, beginning at a random one, so that each run takes others. With
/// `SUBSCRIPTION_TEST_STEPS`, every case.
pub fn sample<T>(cases: Vec<T>, by_default: usize) -> Vec<T> {
    if number("SUBSCRIPTION_TEST_STEPS").is_some() {
        return cases;
    }
    let first = rng("sample").below(by_default);
    cases.into_iter().skip(first).step_by(by_default).collect()
}

fn asked_for() -> Option<u64> {
    number("SUBSCRIPTION_TEST_SEED")
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

/// A new random seed. It is short, because people read and type it.
fn fresh() -> u64 {
    let mut bytes = [0; 8];
    SystemRandomness.fill(&mut bytes).unwrap_or_else(|error| panic!("no randomness: {error}"));
    u64::from_le_bytes(bytes) >> 16
}
