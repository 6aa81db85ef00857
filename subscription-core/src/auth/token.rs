//! The access tokens that this service issues: short-lived, parsed strictly, without personal data.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::AuthSettings;
use super::jws::{Compact, read_object};
use super::keys::KeyRing;
use super::secret_cache::{SecretCache, hash};
use crate::accounts::Session;
use crate::error::Error;
use crate::values::id::TokenId;
use crate::values::{Randomness, SessionId, Slug, Timestamp, UserId};

/// The value of the header field `typ` that distinguishes access tokens (RFC 9068) from other JWTs.
const TOKEN_TYPE: &str = "at+jwt";

/// Maximum length of an access token in bytes. A longer token is refused before it is decoded.
const TOKEN_BYTES_MAX: usize = 4_096;

/// Maximum number of verified tokens cached.
const SIGNED_MAX: usize = 10_000;

/// Accepted difference between two clocks, in seconds.
pub(crate) const LEEWAY_SECONDS: u64 = 30;

/// The claims of an access token, all of them required.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessClaims {
    /// The issuer.
    pub iss: String,
    /// The audience.
    pub aud: String,
    /// The user.
    pub sub: UserId,
    /// The client that the session belongs to.
    pub client_id: Slug,
    /// The session.
    pub sid: SessionId,
    /// The id of the token.
    pub jti: TokenId,
    /// When the token was issued, in seconds since 1970.
    pub iat: u64,
    /// When the token expires, in seconds since 1970.
    pub exp: u64,
    /// When the person proved who they are, in seconds since 1970.
    pub auth_time: u64,
    /// The generation of the session when the token was issued: 1 at sign-in, and 1 more with each refresh.
    #[serde(rename = "gen")]
    pub generation: u32,
}

impl AccessClaims {
    /// True if the token has not expired.
    pub(crate) fn is_current(&self, now: Timestamp) -> bool {
        seconds(now) < self.exp.saturating_add(LEEWAY_SECONDS)
    }
}

/// Issues and verifies access tokens.
#[derive(Debug)]
pub(crate) struct AccessTokens {
    pub(crate) keys: KeyRing,
    /// The claims of tokens whose signatures were verified. They are cached because a verification costs as much as all
    /// the rest of a request. Whether a token has expired is not cached, but checked at each use.
    signed: SecretCache<Arc<AccessClaims>>,
}

pub(super) fn seconds(at: Timestamp) -> u64 {
    at.micros().unsigned_abs() / 1_000_000
}

impl AccessTokens {
    pub(crate) fn new(keys: KeyRing) -> Self {
        Self { keys, signed: SecretCache::of(SIGNED_MAX) }
    }

    /// A new token for a session.
    pub(crate) fn issue(
        &self,
        session: &Session,
        settings: &AuthSettings,
        now: Timestamp,
        ids: &dyn Randomness,
    ) -> Result<SecretString, Error> {
        let claims = AccessClaims {
            iss: settings.issuer.clone(),
            aud: settings.audience.clone(),
            sub: session.user_id,
            client_id: session.client_id.clone(),
            sid: session.id,
            jti: TokenId::new(now, ids)?,
            iat: seconds(now),
            exp: seconds(now.saturating_add(settings.access_lifetime)),
            auth_time: seconds(session.auth_time),
            generation: session.generation,
        };
        Ok(self.keys.sign(TOKEN_TYPE, &claims)?.into())
    }

    /// The claims of a token, if this service issued it. The token may have expired.
    pub(crate) fn verify(
        &self,
        token: &SecretString,
        settings: &AuthSettings,
    ) -> Option<Arc<AccessClaims>> {
        // `iat` is not checked: it may be in the future, because the clock of the instance that signed the token may be
        // ahead.
        let is_ours = |claims: &Arc<AccessClaims>| {
            claims.iss == settings.issuer && claims.aud == settings.audience
        };
        self.read(token).filter(is_ours)
    }

    fn read(&self, token: &SecretString) -> Option<Arc<AccessClaims>> {
        // The length is checked first, because a longer token takes longer to hash.
        if token.expose_secret().len() > TOKEN_BYTES_MAX {
            return None;
        }
        let hash = hash(token);
        if let Some(claims) = self.signed.get(&hash) {
            return Some(claims);
        }
        let claims = Arc::new(self.check(token.expose_secret())?);
        self.signed.put(hash, Arc::clone(&claims));
        Some(claims)
    }

    fn check(&self, token: &str) -> Option<AccessClaims> {
        let compact = Compact::parse(token, TOKEN_BYTES_MAX)?;
        // The header must have exactly the fields `alg`, `typ` and `kid`.
        if compact.token_type.as_deref() != Some(TOKEN_TYPE) || compact.header_fields.len() != 3 {
            return None;
        }
        let key = self.keys.checking(compact.key_id.as_deref()?)?;
        read_object(&compact.verify(key)?)
    }
}
