//! A cache of tokens that were authenticated recently.
//!
//! Each session belongs to a slot, and each slot has a stamp. A revocation on this instance changes the stamp of the
//! session's slot. A cached entry is valid only while its slot has the stamp that was read before the session was read.
//! So a revocation on this instance takes effect at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use secrecy::SecretString;

use super::Authenticated;
use super::secret_cache::{SecretCache, hash};
use crate::values::{SessionId, Timestamp};

/// Number of slots. Sessions share slots, so one revocation invalidates about a thousandth of all entries.
const SLOTS: usize = 1_024;

#[derive(Debug)]
pub(super) struct AuthCache {
    entries: SecretCache<Entry>,
    stamps: Box<[AtomicU64]>,
    lag: Duration,
}

#[derive(Debug, Clone)]
struct Entry {
    found: Arc<Authenticated>,
    checked_at: Timestamp,
    stamp: u64,
}

impl AuthCache {
    pub(super) fn new(entries: usize, lag: Duration) -> Self {
        let stamps = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { entries: SecretCache::of(entries), stamps, lag }
    }

    /// The cached result for a token. `None` if the token is not cached, if the result is too old, or if this instance
    /// has changed a session of the same slot since.
    pub(super) fn get(&self, token: &SecretString, now: Timestamp) -> Option<Arc<Authenticated>> {
        let entry = self.entries.get(&hash(token))?;
        let recent = entry.checked_at <= now && now < entry.checked_at.saturating_add(self.lag);
        let untouched = self.stamp(entry.found.session.id) == entry.stamp;
        (recent && untouched).then_some(entry.found)
    }

    pub(super) fn put(
        &self,
        token: &SecretString,
        found: Arc<Authenticated>,
        checked_at: Timestamp,
        stamp: u64,
    ) {
        self.entries.put(hash(token), Entry { found, checked_at, stamp });
    }

    /// The stamp of a session's slot. The caller must read the stamp before it reads the session.
    pub(super) fn stamp(&self, session: SessionId) -> u64 {
        self.slot(session).map_or(0, |slot| slot.load(Ordering::SeqCst))
    }

    /// Invalidates every cached token of the session.
    pub(super) fn forget(&self, session: SessionId) {
        if let Some(slot) = self.slot(session) {
            slot.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn slot(&self, session: SessionId) -> Option<&AtomicU64> {
        // The last bytes of an id are random.
        let bytes = session.uuid().into_bytes();
        let number = u16::from_be_bytes(*bytes.last_chunk()?);
        self.stamps.get(usize::from(number) % SLOTS)
    }
}
