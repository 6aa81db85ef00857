//! Chance that a seed repeats.

use subscription_core::{Randomness as _, SeededRandomness};

/// Throws the same in each run with the same seed.
#[derive(Debug)]
pub(crate) struct Dice(SeededRandomness);

impl Dice {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(SeededRandomness::new(seed))
    }

    pub(crate) fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// One of `0..sides`.
    pub(crate) fn below(&self, sides: u64) -> u64 {
        self.number() % sides
    }

    /// One of many; `None` of nothing.
    pub(crate) fn pick<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        let nth = self.below(u64::try_from(of.len()).unwrap().max(1));
        of.get(usize::try_from(nth).unwrap())
    }
}
