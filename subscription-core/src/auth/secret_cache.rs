//! A bounded cache keyed by the SHA-256 of a token or credential, so that a repeated secret is not
//! verified again.

use std::fmt;
use std::sync::{Mutex, MutexGuard};

use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::values::locked;

/// Maximum number of entries in a part of the cache. One more entry evicts the oldest. The limit is twice the average
/// number of entries of a part in a full cache, and hashes are spread evenly, so a part is rarely full.
const PART_MAX: usize = 8;

/// Maximum number of parts of a cache: they hold four million secrets, which is enough for one process.
const PARTS_MAX: usize = 1 << 20;

/// The hash of a secret; the secret itself is not stored.
pub(super) type SecretHash = [u8; 32];

pub(super) fn hash(secret: &SecretString) -> SecretHash {
    Sha256::digest(secret.expose_secret()).into()
}

fn is(known: &SecretHash, hash: &SecretHash) -> bool {
    known.ct_eq(hash).into()
}

/// Caches one value for each of about `most` secrets.
///
/// Every request reads one or two of these caches, so a read must be cheap: it does not record that the entry was used.
/// Eviction removes the oldest entry of a part, even if that entry was read often.
pub(super) struct SecretCache<V> {
    parts: Box<[Mutex<Part<V>>]>,
}

/// Entries, oldest first.
type Part<V> = Vec<(SecretHash, V)>;

impl<V: Clone> SecretCache<V> {
    pub(super) fn of(most: usize) -> Self {
        let parts = most.div_ceil(PART_MAX / 2).min(PARTS_MAX);
        Self { parts: (0..parts).map(|_| Mutex::default()).collect() }
    }

    pub(super) fn get(&self, hash: &SecretHash) -> Option<V> {
        let part = self.part(hash)?;
        part.iter().find(|(known, _)| is(known, hash)).map(|(_, value)| value.clone())
    }

    pub(super) fn put(&self, hash: SecretHash, value: V) {
        let Some(mut part) = self.part(&hash) else { return };
        part.retain(|(known, _)| !is(known, &hash));
        if part.len() >= PART_MAX {
            part.remove(0);
        }
        part.push((hash, value));
    }

    fn part(&self, hash: &SecretHash) -> Option<MutexGuard<'_, Part<V>>> {
        let number = u64::from_le_bytes(*hash.first_chunk()?);
        let count = u64::try_from(self.parts.len()).ok()?;
        let part = self.parts.get(usize::try_from(number.checked_rem(count)?).ok()?)?;
        Some(locked(part))
    }
}

impl<V> fmt::Debug for SecretCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretCache")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(nth: u64) -> SecretHash {
        hash(&format!("secret {nth}").into())
    }

    #[test]
    fn what_is_remembered_is_found_again_and_the_latest_of_it() {
        let known = SecretCache::of(1_000);
        for nth in 0..1_000 {
            known.put(numbered(nth), nth);
            known.put(numbered(nth), nth + 1);
        }

        let found = (0..1_000).filter(|nth| known.get(&numbered(*nth)) == Some(nth + 1)).count();

        assert!(found >= 950, "{found} of 1,000");
        assert_eq!(known.get(&numbered(1_000)), None);
    }

    #[test]
    fn it_never_remembers_more_than_it_has_room_for() {
        let known = SecretCache::of(100);

        for nth in 0..10_000 {
            known.put(numbered(nth), nth);
        }

        let kept = (0..10_000).filter(|nth| known.get(&numbered(*nth)).is_some()).count();
        assert!((100..=200).contains(&kept), "{kept}");
        assert_eq!(known.get(&numbered(9_999)), Some(9_999));
    }
}
