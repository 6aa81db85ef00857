//! Random choices that a seed repeats.

/// `SplitMix64`: small, fast, and random enough to choose what happens next.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another row of choices, which does not change when this one is drawn from more often.
    pub fn fork(&mut self) -> Self {
        Self(self.number())
    }

    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, but without, `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.number() % u64::from(end.max(1))).unwrap_or_default()
    }

    /// True in so many cases of a hundred.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of several, or `None` of none.
    pub fn pick<T>(&mut self, choices: impl IntoIterator<Item = T>) -> Option<T> {
        let mut choices: Vec<T> = choices.into_iter().collect();
        let nth = self.below(u32::try_from(choices.len()).unwrap_or(u32::MAX)) as usize;
        (nth < choices.len()).then(|| choices.swap_remove(nth))
    }

    /// `Some` in so many cases of a hundred.
    pub fn maybe<T>(&mut self, percent: u32, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.percent(percent).then(|| make(self))
    }
}
