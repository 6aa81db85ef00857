//! Portal tokens: with such a token, a person calls the paths under `/me` for half an hour, without a session or a
//! client.
//!
//! A token has the user's id, the second of its issue, and whether the user had an account then, and a MAC over them
//! under a server key. It is stored nowhere, so it cannot be revoked: it is valid until it expires, its account is
//! deleted, or its server key is removed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac as _;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use super::Authentication;
use super::token::{LEEWAY_SECONDS, seconds};
use crate::error::{DependencyFailed, Error, Unauthenticated};
use crate::service::found;
use crate::values::UserId;

/// The first byte of the token of a user whose account is elsewhere.
const WITHOUT_ACCOUNT: u8 = 1;
/// The first byte of the token of a user with an account here. The token ends with the account.
const WITH_ACCOUNT: u8 = 2;
/// How long a portal token is valid.
pub const PORTAL_LIFETIME: Duration = Duration::from_mins(30);

/// The person of a portal token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortalUser {
    /// The user.
    pub id: UserId,
    /// True if the user had an account here when the token was issued.
    pub has_account: bool,
}

/// # Portal tokens
impl Authentication {
    /// Issues a portal token for a user, which is valid for [`PORTAL_LIFETIME`]. Each call returns a new token, and
    /// nothing is stored. If the service [checks users](crate::ServiceBuilder::check_users), the user must have an
    /// account; otherwise any id is accepted.
    pub async fn issue_portal_token(&self, user: UserId) -> Result<SecretString, Error> {
        let account = self.open_user(user).await?;
        let has_account = account.is_some();
        if self.service().checks_users() {
            found(Ok(account), "user", user)?;
        }
        let user = PortalUser { id: user, has_account };
        let issued_at = seconds(self.service().now());
        let token = self.portal_token(self.0.server_keys.current(), user, issued_at);
        Ok(token.ok_or(DependencyFailed::ServerKey)?.into())
    }

    /// The user of a portal token that this service issued and that has not expired.
    /// [`expect_portal_user`](Self::expect_portal_user) checks that the account still exists.
    pub fn portal_user(&self, token: &SecretString) -> Result<PortalUser, Unauthenticated> {
        let (user, issued_at) =
            self.read_portal(token.expose_secret()).ok_or(Unauthenticated::TokenInvalid)?;
        let now = seconds(self.service().now());
        // The clock of the instance that issued the token may be a little ahead, so `issued_at` may be after `now`.
        let age = (now + LEEWAY_SECONDS).checked_sub(issued_at);
        let age = age.ok_or(Unauthenticated::TokenInvalid)?;
        if age >= PORTAL_LIFETIME.as_secs() + 2 * LEEWAY_SECONDS {
            return Err(Unauthenticated::TokenExpired);
        }
        Ok(user)
    }

    /// Fails if the account of this user is gone or is being deleted. A user who had none when the token was issued needs
    /// none, unless the service checks users.
    pub async fn expect_portal_user(&self, user: PortalUser) -> Result<(), Error> {
        if user.has_account || self.service().checks_users() {
            self.open_user(user.id).await?.ok_or(Unauthenticated::SessionRevoked)?;
        }
        Ok(())
    }

    /// The portal token of a user, issued at this second of Unix time. `None` if the server has no key with this id.
    fn portal_token(&self, key_id: u8, user: PortalUser, issued_at: u64) -> Option<String> {
        let format = if user.has_account { WITH_ACCOUNT } else { WITHOUT_ACCOUNT };
        let user = user.id.uuid().into_bytes();
        let head = [&[format, key_id], &user[..], &issued_at.to_be_bytes()].concat();
        let mac = self.0.server_keys.mac(key_id, "portal token", &[], &head)?.finalize();
        let token = URL_SAFE_NO_PAD.encode([&head[..], &mac.into_bytes()].concat());
        Some(format!("spt_{token}"))
    }

    /// The user of a token and the second of its issue; `None` if this service did not issue the token.
    fn read_portal(&self, token: &str) -> Option<(PortalUser, u64)> {
        // Every token has 78 characters after its prefix. A text of another length is refused before it is decoded,
        // because a long text takes long to decode.
        let text = token.strip_prefix("spt_").filter(|text| text.len() == 78)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (&[format, key_id], rest) = bytes.split_first_chunk()?;
        let (user, rest) = rest.split_first_chunk()?;
        let id = UserId::from(Uuid::from_bytes(*user));
        // Another format is refused below, because no token has it.
        let user = PortalUser { id, has_account: format == WITH_ACCOUNT };
        let issued_at = u64::from_be_bytes(*rest.first_chunk()?);
        let genuine = self.portal_token(key_id, user, issued_at)?;
        // The comparison takes the same time for every token, so the time does not help to guess the right MAC.
        bool::from(genuine.as_bytes().ct_eq(token.as_bytes())).then_some((user, issued_at))
    }
}
