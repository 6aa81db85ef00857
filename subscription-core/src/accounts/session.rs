//! Users and their sessions, as they are stored.

use std::net::IpAddr;
use std::str::FromStr;

use crate::values::clock::Timestamp;
use crate::values::faults::{InvalidValue, named};
use crate::values::id::{SessionId, UserId};
use crate::values::text::{Email, Slug, Text};
use crate::values::version::Version;

/// A person with an account, found by their identity at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Names the user for ever.
    pub id: UserId,
    /// The provider, and its name for the person; unique.
    pub identity: IdentityKey,
    /// The address that the provider has verified, as of the last sign-in; unique.
    pub email: Email,
    /// The account is being deleted: nothing new is accepted for it, and its calls are refused.
    pub closing: bool,
    /// When the account was made.
    pub created_at: Timestamp,
    /// When the record was last written: at each sign-in, and when all sessions are ended.
    pub updated_at: Timestamp,
    /// How often it has been written.
    pub version: Version,
}

/// A person's identity at a provider.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityKey {
    /// The provider.
    pub issuer: Text<1, 255>,
    /// The provider's name for the person.
    pub subject: Text<1, 255>,
}

impl std::fmt::Debug for IdentityKey {
    /// Hides the person: a subject may be an address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IdentityKey({}, …)", self.issuer)
    }
}

/// The origin of a sign-in, as far as it is known.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The address.
    pub ip: Option<IpAddr>,
    /// The program.
    pub user_agent: Option<Text<1, 512>>,
}

impl std::fmt::Debug for Origin {
    /// Hides the person: addresses do not belong in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Origin(…)")
    }
}

/// A user's session with one client, from sign-in to its end.
///
/// It contains no token: the refresh token is derived from the salt and the generation with a key that
/// only the server has.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// Names the session for ever.
    pub id: SessionId,
    /// The user.
    pub user_id: UserId,
    /// The client.
    pub client_id: Slug,
    /// The identity provider.
    pub issuer: Text<1, 255>,
    /// A hash of the identity token that opened it.
    pub opened_with: [u8; 32],
    /// The server key that its refresh tokens are made with.
    pub key_id: u8,
    /// The salt of its refresh tokens.
    pub salt: [u8; 16],
    /// How often it has been refreshed.
    pub generation: u32,
    /// When the generation began.
    pub rotated_at: Timestamp,
    /// True if a token of the current generation was used.
    pub successor_used: bool,
    /// When the person proved who they are.
    pub auth_time: Timestamp,
    /// When a token of it was last used, to a few minutes.
    pub last_seen_at: Timestamp,
    /// When it expires in any case.
    pub expires_at: Timestamp,
    /// When it expires unless it is refreshed.
    pub idle_expires_at: Timestamp,
    /// When and why it was revoked.
    pub revoked: Option<Revocation>,
    /// Where the sign-in came from.
    pub origin: Origin,
    /// When it began.
    pub created_at: Timestamp,
    /// When the record was last written.
    pub updated_at: Timestamp,
    /// How often it has been written.
    pub version: Version,
}

impl std::fmt::Debug for Session {
    /// Shows what tells sessions apart, and nothing to make or guess tokens with.
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
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: RevocationReason,
}

/// The reason why a session was revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevocationReason {
    /// The user logged out.
    Logout,
    /// The user revoked all sessions, or all others.
    RevokeAll,
    /// A refresh token was used twice: somebody else may have it too.
    RefreshReuse,
    /// The user opened more sessions than the limit.
    SessionLimit,
}

impl RevocationReason {
    /// Every reason.
    pub const ALL: [Self; 4] =
        [Self::Logout, Self::RevokeAll, Self::RefreshReuse, Self::SessionLimit];

    /// The reason's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Logout => "logout",
            Self::RevokeAll => "revoke_all",
            Self::RefreshReuse => "refresh_reuse",
            Self::SessionLimit => "session_limit",
        }
    }
}

impl FromStr for RevocationReason {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        named(Self::ALL, Self::as_str, text)
    }
}

impl Session {
    /// True if it has expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at || now >= self.idle_expires_at
    }

    /// When it ends or ended, by revocation or by expiry.
    pub fn ended_at(&self) -> Timestamp {
        let by_itself = self.expires_at.min(self.idle_expires_at);
        self.revoked.map_or(by_itself, |revocation| revocation.at.min(by_itself))
    }

    /// True if its tokens are accepted.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && !self.has_expired(now)
    }
}
