//! Random numbers that are the same for the same seed.

use std::sync::atomic::{AtomicU64, Ordering};

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The generator `SplitMix64`: small, fast, and random enough for tests. Several tasks may share one value.
#[derive(Debug)]
pub struct Rng(AtomicU64);

impl Rng {
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Creates an independent generator. Later calls of this generator do not change the numbers of the new one.
    pub fn fork(&self) -> Self {
        Self::new(self.number())
    }

    pub fn number(&self) -> u64 {
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end` - 1. Returns 0 if `end` is 0.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&self, end: N) -> N {
        let end = end.try_into().unwrap_or_else(|_| panic!("a negative end"));
        let number = N::try_from(self.number() % end.max(1));
        number.unwrap_or_else(|_| panic!("less than {end} fits where {end} does"))
    }

    /// True with a probability of `percent` percent.
    pub fn percent(&self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of the choices. `None` if there are no choices.
    pub fn pick<T>(&self, choices: impl IntoIterator<Item = T>) -> Option<T> {
        let mut choices: Vec<T> = choices.into_iter().collect();
        let nth = self.below(choices.len());
        (nth < choices.len()).then(|| choices.swap_remove(nth))
    }

    /// `Some` with a probability of `percent` percent.
    pub fn maybe<T>(&self, percent: u32, make: impl FnOnce(&Self) -> T) -> Option<T> {
        self.percent(percent).then(|| make(self))
    }
}
