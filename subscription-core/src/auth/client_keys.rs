//! The keys of clients: creation, hashing and comparison.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac as _;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use crate::accounts::{Client, ClientKey, ClientKind};
use crate::server_keys::ServerKeys;
use crate::values::{Randomness, RandomnessUnavailable, Slug, Timestamp};

const PREFIX: &str = "sck_";
const SECRET_BYTES: usize = 32;

/// Maximum number of valid keys of a client: the new key and the key that it replaces.
const KEYS_MAX: usize = 2;

impl Client {
    /// Creates a new key for the client. The previous key stays valid; an older key stops working.
    pub(crate) fn add_key(
        &mut self,
        keys: &ServerKeys,
        ids: &dyn Randomness,
        now: Timestamp,
    ) -> Result<SecretString, RandomnessUnavailable> {
        let mut secret = [0; SECRET_BYTES];
        ids.fill(&mut secret)?;
        let key_id = keys.current();
        // The current server key is always in `keys`. If it were missing, the hash would be all zeros, and no secret
        // would match it.
        let hash = hash(keys, key_id, &self.id, &secret).unwrap_or_default();
        self.keys.insert(0, ClientKey { key_id, hash, created_at: now });
        self.keys.truncate(KEYS_MAX);
        Ok(format!("{PREFIX}{}_{}", self.id, URL_SAFE_NO_PAD.encode(secret)).into())
    }

    /// True if `credential` belongs to the client, and the client is neither revoked nor missing from its settings
    /// file.
    pub(crate) fn accepts(&self, credential: &ClientCredential, keys: &ServerKeys) -> bool {
        let known = match (&credential.secret, self.kind) {
            (None, ClientKind::Public) => true,
            (Some(secret), ClientKind::Confidential) => {
                self.keys.iter().fold(false, |known, key| {
                    let hash = hash(keys, key.key_id, &self.id, secret);
                    known | hash.is_some_and(|hash| hash.ct_eq(&key.hash).into())
                })
            }
            (None, ClientKind::Confidential) | (Some(_), ClientKind::Public) => false,
        };
        known && self.is_live()
    }
}

/// A keyed hash of a client's secret; `None` if `keys` has no server key with the number `key_id`.
fn hash(keys: &ServerKeys, key_id: u8, client: &Slug, secret: &[u8]) -> Option<[u8; 32]> {
    let mac = keys.mac(key_id, "client key", client.as_str().as_bytes(), secret)?;
    Some(mac.finalize().into_bytes().into())
}

/// A parsed client credential.
pub(crate) struct ClientCredential {
    pub(crate) id: Slug,
    secret: Option<Vec<u8>>,
}

impl ClientCredential {
    /// Parses a public client's id or a confidential client's key; `None` if the text is neither.
    pub(crate) fn parse(text: &SecretString) -> Option<Self> {
        let text = text.expose_secret();
        let Some(key) = text.strip_prefix(PREFIX) else {
            return Some(Self { id: text.parse().ok()?, secret: None });
        };
        let (id, secret) = key.split_once('_')?;
        let secret = URL_SAFE_NO_PAD.decode(secret).ok()?;
        let whole = secret.len() == SECRET_BYTES;
        Some(Self { id: id.parse().ok()?, secret: whole.then_some(secret) }).filter(|_| whole)
    }

    /// Compares the secret with a hash of zeros, so that a refusal takes as long for an unknown client as for a known
    /// one.
    pub(crate) fn compare_in_vain(&self, keys: &ServerKeys) {
        if let Some(secret) = &self.secret {
            let hash = hash(keys, keys.current(), &self.id, secret);
            std::hint::black_box(hash.is_some_and(|hash| hash.ct_eq(&[0; 32]).into()));
        }
    }
}
