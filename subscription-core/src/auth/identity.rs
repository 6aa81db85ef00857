//! Identities: the trait for identity providers, and the verifiers that need no network.
//!
//! A person signs in with a token that a provider issued. A verifier returns the identity in the token;
//! the rest of the library trusts nothing else about the person.

use std::fmt;

use async_trait::async_trait;
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use serde::Deserialize;

use super::jws::{Compact, VerifyingKey, read_object};
use super::token::{LEEWAY_SECONDS, seconds};
use crate::accounts::IdentityKey;
use crate::server_keys::{BadKey, SECRET_BYTES_MIN};
use crate::values::{Email, Timestamp};

/// Maximum length of an identity token in bytes. A longer token is refused before it is decoded.
pub(crate) const TOKEN_BYTES_MAX: usize = 16_384;

/// A person as an identity provider describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The provider, and its id for the person.
    pub key: IdentityKey,
    /// The person's address, if the provider sent it.
    pub email: Option<Email>,
    /// True if the provider has verified the address.
    pub email_verified: bool,
}

/// The reason why an identity token was refused.
#[derive(Debug, thiserror::Error)]
pub enum IdentityRefused {
    /// The token was not issued by the provider, is not for this service, or has expired.
    #[error("the identity token was not accepted")]
    Rejected,
    /// The provider cannot be reached.
    #[error("the identity provider cannot be reached")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Verifies identity tokens.
#[async_trait]
pub trait IdentityVerifier: Send + Sync + fmt::Debug {
    /// Verifies a token at `now`. `claimed` is the e-mail address that the caller sent with the token. A caller can
    /// send any address: only [`DevelopmentIdentities`] trusts it.
    async fn verify(
        &self,
        token: &SecretString,
        claimed: &Email,
        now: Timestamp,
    ) -> Result<Identity, IdentityRefused>;

    /// When the provider's keys were last fetched; `None` before, and for a verifier that fetches none.
    fn keys_fetched_at(&self) -> Option<Timestamp> {
        None
    }
}

/// Accepts everybody: a token that is not blank is enough to prove the address that the caller sent with it.
///
/// For development on one's own machine only.
#[derive(Debug, Clone, Copy, Default)]
pub struct DevelopmentIdentities;

#[async_trait]
impl IdentityVerifier for DevelopmentIdentities {
    async fn verify(
        &self,
        token: &SecretString,
        claimed: &Email,
        _: Timestamp,
    ) -> Result<Identity, IdentityRefused> {
        if token.expose_secret().trim().is_empty() {
            return Err(IdentityRefused::Rejected);
        }
        let text = |text: &str| text.parse().map_err(|_| IdentityRefused::Rejected);
        let key = IdentityKey { issuer: text("development")?, subject: text(claimed.key())? };
        Ok(Identity { key, email: Some(claimed.clone()), email_verified: true })
    }
}

/// The issuer and the audience of accepted identity tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// The issuer, exactly as in the claim `iss`.
    pub issuer: String,
    /// The audience that the token must be for, as in the claim `aud`.
    pub audience: String,
}

/// Verifies the identity tokens that a program of yours signs with a shared secret (HS256).
#[derive(Debug)]
pub struct SharedSecretIdentities {
    trust: Trust,
    key: VerifyingKey,
}

impl SharedSecretIdentities {
    /// Accepts the tokens that are signed with `secret`, which must have at least 32 bytes.
    pub fn new(trust: Trust, secret: &SecretSlice<u8>) -> Result<Self, BadKey> {
        let secret = secret.expose_secret();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(BadKey::TooShort);
        }
        Ok(Self { trust, key: VerifyingKey::shared(secret) })
    }
}

#[async_trait]
impl IdentityVerifier for SharedSecretIdentities {
    async fn verify(
        &self,
        token: &SecretString,
        _: &Email,
        now: Timestamp,
    ) -> Result<Identity, IdentityRefused> {
        Compact::parse(token.expose_secret(), TOKEN_BYTES_MAX)
            .filter(Compact::may_name_a_person)
            .and_then(|compact| compact.verify(&self.key))
            .and_then(|claims| self.trust.identity(&claims, now))
            .ok_or(IdentityRefused::Rejected)
    }
}

/// The claims of an identity token that this library reads.
#[derive(Deserialize)]
struct IdentityClaims {
    iss: String,
    aud: Audience,
    sub: String,
    exp: u64,
    iat: Option<u64>,
    nbf: Option<u64>,
    email: Option<String>,
    email_verified: Option<Verified>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Audience {
    fn names(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Several(several) => several.iter().any(|one| one == audience),
        }
    }
}

/// True if a token is valid at `now`. `expires` and `begins` are seconds since 1970; `None` sets no limit. Each limit
/// is extended by [`LEEWAY_SECONDS`], because the clock of the provider may differ.
fn is_valid(expires: Option<u64>, begins: Option<u64>, now: Timestamp) -> bool {
    let now = seconds(now);
    expires.is_none_or(|at| now < at.saturating_add(LEEWAY_SECONDS))
        && begins.is_none_or(|at| at <= now.saturating_add(LEEWAY_SECONDS))
}

/// The claim `email_verified`, which is a boolean. Some providers write it as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Verified {
    Boolean(bool),
    Text(String),
}

impl Trust {
    /// The identity in the claims of a genuine token, if the token is from this issuer, for this audience and valid at
    /// `now`.
    pub(crate) fn identity(&self, claims: &[u8], now: Timestamp) -> Option<Identity> {
        let claims: IdentityClaims = read_object(claims)?;
        let for_us = claims.aud.names(&self.audience);
        let valid = is_valid(Some(claims.exp), claims.iat.max(claims.nbf), now);
        if claims.iss != self.issuer || !for_us || !valid {
            let issuer = claims.iss;
            tracing::info!(issuer, for_us, valid, "identity token rejected: a claim is wrong");
            return None;
        }
        self.named(&claims.sub, claims.email.as_deref(), claims.email_verified.as_ref())
    }

    fn named(
        &self,
        subject: &str,
        email: Option<&str>,
        verified: Option<&Verified>,
    ) -> Option<Identity> {
        let key = IdentityKey {
            issuer: self.issuer.parse().ok()?,
            // Parsing removes blanks at both ends. A subject with such blanks is refused, because the subject without
            // them may be another person.
            subject: subject
                .parse()
                .ok()
                .filter(|text: &crate::Text<1, 255>| text.as_str() == subject)?,
        };
        let email_verified = match verified {
            Some(Verified::Boolean(verified)) => *verified,
            Some(Verified::Text(verified)) => verified == "true",
            None => false,
        };
        Some(Identity { key, email: email.and_then(|email| email.parse().ok()), email_verified })
    }

    /// The identity in the response of an introspection, if the token is active, from this issuer, for this audience
    /// and valid at `now`.
    pub(crate) fn introspected(&self, answer: &[u8], now: Timestamp) -> Option<Identity> {
        #[derive(Deserialize)]
        struct Introspection {
            active: bool,
            iss: Option<String>,
            aud: Option<Audience>,
            sub: Option<String>,
            exp: Option<u64>,
            nbf: Option<u64>,
            email: Option<String>,
            email_verified: Option<Verified>,
        }
        let answer: Introspection = read_object(answer)?;
        let for_us = answer.aud.is_some_and(|audience| audience.names(&self.audience));
        // The response need not name an issuer, because it comes from the endpoint of the issuer. If the response names
        // an issuer, it must be the trusted one.
        let by_issuer = answer.iss.is_none_or(|issuer| issuer == self.issuer);
        let valid = is_valid(answer.exp, answer.nbf, now);
        if !answer.active || !by_issuer || !for_us || !valid {
            return None;
        }
        self.named(&answer.sub?, answer.email.as_deref(), answer.email_verified.as_ref())
    }
}
