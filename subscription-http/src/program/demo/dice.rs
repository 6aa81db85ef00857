//! Chance that a seed repeats.

use subscription_core::{Randomness as _, SeededRandomness};

#[derive(Debug)]
pub(super) struct Dice(SeededRandomness);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        // Apart from the row that the ids of the same seed are taken from.
        Self(SeededRandomness::new(!seed))
    }

    fn roll(&self) -> u64 {
        let mut bytes = [0; 8];
        // What is seeded never fails.
        self.0.fill(&mut bytes).ok();
        u64::from_le_bytes(bytes)
    }

    /// A number from 0 up to, but without, `end`.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    /// True so many times in a thousand.
    pub(super) fn permille(&self, times: u64) -> bool {
        self.below(1_000) < times
    }

    /// One of several, each as likely as the others.
    pub(super) fn one_of<'a, T>(&self, several: &'a [T]) -> Option<&'a T> {
        let nth = self.below(several.len() as u64);
        several.get(usize::try_from(nth).ok()?)
    }

    /// The place of one of several, each as likely as its weight.
    pub(super) fn weighted(&self, weights: impl Iterator<Item = u64> + Clone) -> usize {
        let mut left = self.below(weights.clone().sum());
        let mut weights = weights.enumerate();
        let found = weights.find(|(_, weight)| {
            let here = left < *weight;
            left = left.saturating_sub(*weight);
            here
        });
        found.map_or(0, |(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_how_often_its_place_comes_up() {
        let dice = Dice::new(1);
        let mut found = [0; 3];
        for _ in 0..1_000 {
            found[dice.weighted([700, 0, 300].into_iter())] += 1;
        }

        assert!((650..750).contains(&found[0]), "{found:?}");
        assert_eq!(found[1], 0);
    }
}
