//! Our own access tokens: short-lived, strict, without personal data.

use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::jws::{Compact, read_object};
use super::keys::KeyRing;
use super::secret_cache::{SecretCache, hash};
use crate::accounts::Session;
use crate::error::Error;
use crate::values::id::TokenId;
use crate::values::{Randomness, SessionId, Slug, Timestamp, UserId};

/// The header `typ` that distinguishes our access tokens from every other JWT (RFC 9068).
const TOKEN_TYPE: &str = "at+jwt";

/// Longer tokens are refused before they are decoded.
const TOKEN_BYTES_MAX: usize = 4_096;

/// Maximum number of verified tokens cached.
const SIGNED_MAX: usize = 10_000;

/// Accepted difference between two clocks.
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
    /// When it was issued, in seconds since 1970.
    pub iat: u64,
    /// When it expires, in seconds since 1970.
    pub exp: u64,
    /// When the person proved who they are, in seconds since 1970.
    pub auth_time: u64,
    /// The generation that the session had when the token was issued.
    #[serde(rename = "gen")]
    pub generation: u32,
}

impl AccessClaims {
    /// True if the token has not expired.
    pub(crate) fn is_current(&self, now: Timestamp) -> bool {
        seconds(now) < self.exp.saturating_add(LEEWAY_SECONDS)
    }
}

/// The reason why an access token was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenRefused {
    /// It was not issued by us, or was altered.
    Invalid,
    /// It has expired.
    Expired(Arc<AccessClaims>),
}

/// Issues and verifies access tokens.
#[derive(Debug)]
pub(crate) struct AccessTokens {
    pub(crate) keys: KeyRing,
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) lifetime: Duration,
    pub(crate) signed: Signed,
}

/// The claims of tokens whose signatures were verified: a verification costs as much as all the rest of a
/// request. Only facts that time does not change are cached.
#[derive(Debug)]
pub(crate) struct Signed {
    cache: SecretCache<Arc<AccessClaims>>,
}

impl Default for Signed {
    fn default() -> Self {
        Self { cache: SecretCache::of(SIGNED_MAX) }
    }
}

fn seconds(at: Timestamp) -> u64 {
    at.micros().unsigned_abs() / 1_000_000
}

impl AccessTokens {
    /// A new token for a session.
    pub(crate) fn issue(
        &self,
        session: &Session,
        now: Timestamp,
        ids: &dyn Randomness,
    ) -> Result<SecretString, Error> {
        let claims = AccessClaims {
            iss: self.issuer.clone(),
            aud: self.audience.clone(),
            sub: session.user_id,
            client_id: session.client_id.clone(),
            sid: session.id,
            jti: TokenId::new(now, ids)?,
            iat: seconds(now),
            exp: seconds(now.saturating_add(self.lifetime)),
            auth_time: seconds(session.auth_time),
            generation: session.generation,
        };
        Ok(self.keys.sign(TOKEN_TYPE, &claims)?.into())
    }

    /// The claims of a token, if it is ours and has not expired.
    pub(crate) fn verify(
        &self,
        token: &SecretString,
        now: Timestamp,
    ) -> Result<Arc<AccessClaims>, TokenRefused> {
        let claims = self.read(token).ok_or(TokenRefused::Invalid)?;
        // `iat` may be in the future: another instance signed the token, whose clock is ahead.
        if claims.iss != self.issuer || claims.aud != self.audience {
            return Err(TokenRefused::Invalid);
        }
        if !claims.is_current(now) {
            return Err(TokenRefused::Expired(claims));
        }
        Ok(claims)
    }

    fn read(&self, token: &SecretString) -> Option<Arc<AccessClaims>> {
        // Before anything else is done with it: its hash takes longer, the longer it is.
        if token.expose_secret().len() > TOKEN_BYTES_MAX {
            return None;
        }
        let hash = hash(token);
        if let Some(claims) = self.signed.cache.get(&hash) {
            return Some(claims);
        }
        let claims = Arc::new(self.check(token.expose_secret())?);
        self.signed.cache.put(hash, Arc::clone(&claims));
        Some(claims)
    }

    fn check(&self, token: &str) -> Option<AccessClaims> {
        let compact = Compact::parse(token, TOKEN_BYTES_MAX)?;
        // Exactly `alg`, `typ` and `kid`.
        if compact.token_type.as_deref() != Some(TOKEN_TYPE) || compact.header_fields.len() != 3 {
            return None;
        }
        let key = self.keys.checking(compact.key_id.as_deref()?)?;
        read_object(&compact.verify(key)?)
    }
}
