//! Users and their sessions, as they are stored.

use std::net::IpAddr;

use crate::values::as_text::{hidden_in_logs, named_enum};
use crate::values::{Email, SessionId, Slug, Text, Timestamp, UserId, Version};

/// A person with an account, found by their identity at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user's id, which never changes.
    pub id: UserId,
    /// The identity provider, and the provider's id for the person; unique.
    pub identity: IdentityKey,
    /// The e-mail address that the provider has verified, as of the last sign-in; unique.
    pub email: Email,
    /// True while the account is being deleted: requests of the user are refused, and no new records are created for
    /// the user.
    pub closing: bool,
    /// When the account was created.
    pub created_at: Timestamp,
    /// When the record was last written: at each sign-in, and when all sessions are revoked.
    pub updated_at: Timestamp,
    /// The number of times that the record was written.
    pub version: Version,
}

/// A person's identity at a provider.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityKey {
    /// The identity provider.
    pub issuer: Text<1, 255>,
    /// The provider's id for the person.
    pub subject: Text<1, 255>,
}

impl std::fmt::Debug for IdentityKey {
    /// Hides the subject, which may be an e-mail address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IdentityKey({}, …)", self.issuer)
    }
}

/// The origin of a sign-in, as far as it is known.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The IP address.
    pub ip: Option<IpAddr>,
    /// The browser or program, as in the header `User-Agent`.
    pub user_agent: Option<Text<1, 512>>,
}

hidden_in_logs! { Origin }

/// A user's session with one client, from sign-in to its end.
///
/// It contains no token: the refresh token is derived from the salt and the generation with a key that
/// only the server has.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// The session's id, which never changes.
    pub id: SessionId,
    /// The user.
    pub user_id: UserId,
    /// The client.
    pub client_id: Slug,
    /// The identity provider.
    pub issuer: Text<1, 255>,
    /// A hash of the identity token that opened the session.
    pub opened_with: [u8; 32],
    /// The number of the server key that the session's refresh tokens are made with.
    pub key_id: u8,
    /// The salt of the session's refresh tokens.
    pub salt: [u8; 16],
    /// The number of the session's current refresh token: 1 at sign-in, and 1 more with each refresh.
    pub generation: u32,
    /// When the current generation began: at the sign-in, or at the last refresh.
    pub rotated_at: Timestamp,
    /// True if an access token of the current generation was used: then the client has received the new tokens, and the
    /// response to the last refresh was not lost.
    pub successor_used: bool,
    /// When the person proved their identity to open the session.
    pub auth_time: Timestamp,
    /// When a token of the session was last used, accurate to a few minutes.
    pub last_seen_at: Timestamp,
    /// When the session expires, even if it is refreshed.
    pub expires_at: Timestamp,
    /// When the session expires unless it is refreshed before.
    pub idle_expires_at: Timestamp,
    /// When and why the session was revoked; `None` if it was not revoked.
    pub revoked: Option<Revocation>,
    /// The origin of the sign-in.
    pub origin: Origin,
    /// When the session began.
    pub created_at: Timestamp,
    /// When the record was last written.
    pub updated_at: Timestamp,
    /// The number of times that the record was written.
    pub version: Version,
}

impl std::fmt::Debug for Session {
    /// Shows the fields that identify the session, and none that help to forge a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("user_id", &self.user_id)
            .field("client_id", &self.client_id)
            .field("generation", &self.generation)
            .field("revoked", &self.revoked)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// When and why a session was revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revocation {
    /// When the session was revoked.
    pub at: Timestamp,
    /// Why the session was revoked.
    pub reason: RevocationReason,
}

named_enum! {
    /// The reason why a session was revoked.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum RevocationReason {
        /// The user logged out.
        Logout = "logout",
        /// The user revoked all sessions, or all sessions except the current one. Or an operator revoked all sessions
        /// of the user.
        RevokeAll = "revoke_all",
        /// A refresh token was used twice: somebody else may have a copy of the token.
        RefreshReuse = "refresh_reuse",
        /// The user opened more sessions than the limit.
        SessionLimit = "session_limit",
    }
}

impl Session {
    /// True if the session has expired at `now`.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at || now >= self.idle_expires_at
    }

    /// When the session ends or ended, by revocation or by expiry.
    pub fn ended_at(&self) -> Timestamp {
        let expiry = self.expires_at.min(self.idle_expires_at);
        self.revoked.map_or(expiry, |revocation| revocation.at.min(expiry))
    }

    /// True if the tokens of the session are accepted at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && !self.has_expired(now)
    }
}
