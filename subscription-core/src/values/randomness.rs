//! Sources of random bytes: the trait, the source of the operating system, and a seeded source for tests.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::locked;

/// The source of randomness failed.
#[derive(Debug, thiserror::Error)]
#[error("the source of random bytes failed")]
pub struct RandomnessUnavailable(#[source] Box<dyn std::error::Error + Send + Sync>);

impl RandomnessUnavailable {
    /// Wraps the error of the source.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

/// The source of random bytes for ids, salts, secrets and the random lengths of pauses before retries.
///
/// The service has no other source of random bytes, so a run with the same seed ([`SeededRandomness`]) repeats exactly.
pub trait Randomness: Send + Sync + fmt::Debug {
    /// Fills `bytes` with random bytes that may be used as a secret: the source stores no copy of them.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable>;

    /// Fills the random part of an id. An id is public, so the bytes may come from a buffer.
    fn fill_id(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        self.fill(bytes)
    }
}

/// An [`Arc`] of a source is a source too, so that a source can be shared or chosen at run time.
impl<I: Randomness + ?Sized> Randomness for Arc<I> {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        (**self).fill(bytes)
    }

    fn fill_id(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        (**self).fill_id(bytes)
    }
}

/// The random bytes of the operating system.
///
/// Bytes for ids are fetched 512 at a time, because each fetch is a system call.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandomness;

/// The random bytes that one thread has fetched in advance. Bytes that were handed out are set to zero.
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
            // The buffer counts as empty until the fetch succeeds: a failed fetch may have written some of the bytes.
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
            // The caller needs more bytes than the buffer holds.
            Some(_) | None => getrandom::fill(into).map_err(RandomnessUnavailable::new),
        }
    }
}

impl Randomness for SystemRandomness {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        getrandom::fill(bytes).map_err(RandomnessUnavailable::new)
    }

    fn fill_id(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        // A thread that is ending no longer has its buffer, so it fetches the bytes directly.
        BUFFER
            .try_with(|buffer| buffer.try_borrow_mut().ok().map(|mut buffer| buffer.fill(bytes)))
            .ok()
            .flatten()
            .unwrap_or_else(|| self.fill(bytes))
    }
}

/// A sequence of bytes that its seed determines, for tests.
#[derive(Debug)]
pub struct SeededRandomness(Mutex<u64>);

impl SeededRandomness {
    /// The sequence of this seed, from its start.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Randomness for SeededRandomness {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomnessUnavailable> {
        let mut state = locked(&self.0);
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
