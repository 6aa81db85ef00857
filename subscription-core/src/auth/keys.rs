//! The keys of the access tokens that this service issues: one key signs, several verify.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jsonwebtoken::EncodingKey;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse, ThumbprintHash};
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::Sha256;

use super::jws::{self, Algorithm, SigningFailed, VerifyingKey};
use crate::server_keys::{BadKey, SECRET_BYTES_MIN};

/// The prefix of every PKCS #8 document of an Ed25519 key (RFC 8410); the 32 bytes of the key follow.
const ED25519_PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A private key that signs access tokens, with its public counterpart.
#[derive(Clone)]
pub struct SigningKey {
    id: String,
    algorithm: Algorithm,
    key: EncodingKey,
    checks: VerifyingKey,
    public: Option<Jwk>,
}

impl SigningKey {
    /// An Ed25519 key from its 32 secret bytes.
    pub fn ed25519(seed: &SecretSlice<u8>) -> Result<Self, BadKey> {
        if seed.expose_secret().len() != 32 {
            return Err(BadKey::Unreadable);
        }
        let document = [&ED25519_PKCS8[..], seed.expose_secret()].concat();
        Self::of_pair(EncodingKey::from_ed_der(&document), Algorithm::EdDsa)
    }

    /// An Ed25519 or P-256 key from a PKCS #8 document in PEM. Text before and after the document is ignored.
    pub fn from_pem(pem: &[u8]) -> Result<Self, BadKey> {
        let text = String::from_utf8_lossy(pem);
        let parts = text.split("-----").skip_while(|part| *part != "BEGIN PRIVATE KEY");
        let [_, base64, "END PRIVATE KEY", ..] = *parts.collect::<Vec<_>>() else {
            return Err(BadKey::Unreadable);
        };
        let base64: String = base64.split_ascii_whitespace().collect();
        let document = STANDARD.decode(base64).map_err(|_| BadKey::Unreadable)?;
        // The document names its algorithm, so at most one of these two attempts succeeds.
        Self::of_pair(EncodingKey::from_ed_der(&document), Algorithm::EdDsa)
            .or_else(|_| Self::of_pair(EncodingKey::from_ec_der(&document), Algorithm::Es256))
    }

    /// A shared secret of at least 32 bytes, for one process that both signs and verifies.
    pub fn hs256(secret: &SecretSlice<u8>) -> Result<Self, BadKey> {
        let secret = secret.expose_secret();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(BadKey::TooShort);
        }
        // The key id is public. It is an HMAC with the secret as its key, and does not reveal the secret.
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| BadKey::TooShort)?;
        mac.update(b"key id");
        let id = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        Ok(Self {
            id,
            algorithm: Algorithm::Hs256,
            key: EncodingKey::from_secret(secret),
            checks: VerifyingKey::shared(secret),
            public: None,
        })
    }

    fn of_pair(key: EncodingKey, algorithm: Algorithm) -> Result<Self, BadKey> {
        let mut jwk =
            Jwk::from_encoding_key(&key, algorithm.of_crate()).map_err(|_| BadKey::Unreadable)?;
        let id = jwk.thumbprint(ThumbprintHash::SHA256).map_err(|_| BadKey::Unreadable)?;
        jwk.common.key_id = Some(id.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        let checks = VerifyingKey::from_jwk(&jwk, &[algorithm]).ok_or(BadKey::Unreadable)?;
        Ok(Self { id, algorithm, key, checks, public: Some(jwk) })
    }

    /// The id of the key in a token's header. The same key always has the same id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The algorithm that the key signs with.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({} {})", self.algorithm.as_str(), self.id)
    }
}

/// The keys of the access tokens that this service issues.
///
/// To rotate the key, build a ring that signs with the new key and still verifies with the old key. Remove the old key
/// when the last token that it signed has expired.
#[derive(Debug, Clone)]
pub struct KeyRing {
    signing: SigningKey,
    retired: BTreeMap<String, SigningKey>,
}

impl KeyRing {
    /// A ring that signs and verifies with one key.
    pub const fn new(signing: SigningKey) -> Self {
        Self { signing, retired: BTreeMap::new() }
    }

    /// Adds an old key, which no longer signs but still verifies the tokens that it has signed.
    pub fn and_checks(mut self, retired: SigningKey) -> Result<Self, BadKey> {
        if (retired.algorithm == Algorithm::Hs256) != (self.signing.algorithm == Algorithm::Hs256) {
            return Err(BadKey::Mixed);
        }
        if retired.id == self.signing.id || self.retired.contains_key(&retired.id) {
            return Err(BadKey::Repeated);
        }
        self.retired.insert(retired.id.clone(), retired);
        Ok(self)
    }

    /// The public keys as a JWK set. A shared secret is left out.
    pub fn public_keys(&self) -> serde_json::Value {
        let keys = std::iter::once(&self.signing).chain(self.retired.values());
        serde_json::json!({ "keys": keys.filter_map(|key| key.public.as_ref()).collect::<Vec<_>>() })
    }

    pub(crate) fn checking(&self, id: &str) -> Option<&VerifyingKey> {
        if self.signing.id == id {
            return Some(&self.signing.checks);
        }
        self.retired.get(id).map(|key| &key.checks)
    }

    pub(crate) fn sign(
        &self,
        token_type: &str,
        claims: &impl serde::Serialize,
    ) -> Result<String, SigningFailed> {
        let SigningKey { id, algorithm, key, .. } = &self.signing;
        let header = serde_json::json!({ "alg": algorithm.as_str(), "typ": token_type, "kid": id });
        jws::sign(&header, claims, key, *algorithm)
    }
}
