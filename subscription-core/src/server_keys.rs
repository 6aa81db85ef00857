//! The server's secret keys, with which the MACs of refresh tokens, portal tokens, client keys and webhook secrets are
//! made.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::Sha256;

/// The shortest shared secret, in bytes.
pub(crate) const SECRET_BYTES_MIN: usize = 32;

/// The reason why a key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadKey {
    /// The key is neither an Ed25519 nor a P-256 private key in PKCS #8.
    #[error("the key is neither an Ed25519 nor a P-256 private key in PKCS #8 (PEM)")]
    Unreadable,
    /// The shared secret is so short that it could be guessed.
    #[error("the secret is shorter than {SECRET_BYTES_MIN} bytes")]
    TooShort,
    /// The key, or a key with its number, was added before.
    #[error("the key ring already has this key, or a key with the same number")]
    Repeated,
    /// Shared secrets and key pairs cannot be used together: an attacker could otherwise use a public key as the shared
    /// secret, and sign tokens with it.
    #[error("shared secrets and key pairs cannot be used together")]
    Mixed,
}

/// The server's secret keys, by number. The current key makes MACs; all keys check them.
///
/// The keys protect refresh tokens, portal tokens, the stored hashes of client keys, and the secrets of webhook
/// endpoints. An attacker who has the database but not the server's keys can neither forge nor guess any of them.
#[derive(Debug, Clone)]
pub struct ServerKeys {
    current: u8,
    keys: BTreeMap<u8, SecretSlice<u8>>,
}

impl ServerKeys {
    /// Creates the keys from one key of at least 32 bytes, which is the current key.
    pub fn new(id: u8, key: SecretSlice<u8>) -> Result<Self, BadKey> {
        let mut keys = Self { current: id, keys: BTreeMap::new() };
        keys.insert(id, key)?;
        Ok(keys)
    }

    /// Adds an older key that only checks MACs.
    pub fn and_checks(mut self, id: u8, key: SecretSlice<u8>) -> Result<Self, BadKey> {
        if self.keys.contains_key(&id) {
            return Err(BadKey::Repeated);
        }
        self.insert(id, key)?;
        Ok(self)
    }

    fn insert(&mut self, id: u8, key: SecretSlice<u8>) -> Result<(), BadKey> {
        if key.expose_secret().len() < SECRET_BYTES_MIN {
            return Err(BadKey::TooShort);
        }
        self.keys.insert(id, key);
        Ok(())
    }

    /// The number of the key that makes MACs.
    pub const fn current(&self) -> u8 {
        self.current
    }

    /// The MAC of `text` under the key with this number, for one purpose and one salt; `None` if no key has this
    /// number.
    pub(crate) fn mac(
        &self,
        id: u8,
        purpose: &str,
        salt: &[u8],
        text: &[u8],
    ) -> Option<Hmac<Sha256>> {
        let key = self.keys.get(&id)?.expose_secret();
        let mut derive = Hmac::<Sha256>::new_from_slice(key).ok()?;
        // Each part is preceded by its length, so that two different pairs of parts never give the same bytes.
        for part in [purpose.as_bytes(), salt] {
            derive.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            derive.update(part);
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&derive.finalize().into_bytes()).ok()?;
        mac.update(text);
        Some(mac)
    }
}
