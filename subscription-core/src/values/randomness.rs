//! The port for random bytes.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The machine gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("no randomness is to be had")]
pub struct RandomnessUnavailable(#[source] Box<dyn std::error::Error + Send + Sync>);

impl RandomnessUnavailable {
    /// Wraps what the source of randomness said.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

/// The source of all random bytes: of ids, salts, secrets and pauses.
///
/// The service uses no other, so that a seed ([`SeededRandomness`]) repeats a run.
pub trait Randomness: Send + Sync + fmt::Debug {
    /// Fills all of `bytes` with random bytes of which no copy remains: fit for a secret.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable>;

    /// Fills the random part of an id, which is no secret, so the bytes may come from a buffer.
    fn fill_id(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        self.fill(bytes)
    }
}

/// A source that is shared, or chosen at run time.
impl<I: Randomness + ?Sized> Randomness for Arc<I> {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        (**self).fill(bytes)
    }

    fn fill_id(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        (**self).fill_id(bytes)
    }
}

/// The random numbers of the operating system.
///
/// For ids they are fetched a few hundred bytes at a time, because each fetch is a system call.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandomness;

/// Random bytes of one thread that were fetched ahead; those that were given away are zero.
struct Buffer {
    bytes: [u8; 512],
    left: usize,
}

thread_local! {
    static BUFFER: RefCell<Buffer> = const { RefCell::new(Buffer { bytes: [0; 512], left: 0 }) };
}

impl Buffer {
    fn fill(&mut self, into: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        if into.len() > self.left {
            // Not the fresh ones alone: nothing is left of a fetch that failed half way.
            self.left = 0;
            getrandom::fill(&mut self.bytes).map_err(RandomnessUnavailable::new)?;
            self.left = self.bytes.len();
        }
        let rest = self.left.saturating_sub(into.len());
        match self.bytes.get_mut(rest..self.left) {
            Some(bytes) if bytes.len() == into.len() => {
                into.copy_from_slice(bytes);
                bytes.fill(0);
                self.left = rest;
                Ok(())
            }
            // More than the buffer holds.
            Some(_) | None => getrandom::fill(into).map_err(RandomnessUnavailable::new),
        }
    }
}

impl Randomness for SystemRandomness {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        getrandom::fill(bytes).map_err(RandomnessUnavailable::new)
    }

    fn fill_id(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        // A thread that is ending has no buffer any more.
        BUFFER
            .try_with(|buffer| buffer.try_borrow_mut().ok().map(|mut buffer| buffer.fill(bytes)))
            .ok()
            .flatten()
            .unwrap_or_else(|| self.fill(bytes))
    }
}

/// The same bytes in each run with the same seed, for tests.
#[derive(Debug)]
pub struct SeededRandomness(Mutex<u64>);

impl SeededRandomness {
    /// Starts the sequence of bytes that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Randomness for SeededRandomness {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64: one addition and three mixes, every state visited once.
            *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = *state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^= mixed >> 31;
            for (byte, random) in chunk.iter_mut().zip(mixed.to_le_bytes()) {
                *byte = random;
            }
        }
        Ok(())
    }
}
