//! Signed cursors: a cursor is the position in a list after which the next page begins.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::Sha256;
use subscription_core::UserId;
use subscription_core::store::Position;

use super::query::Query;
use crate::api::{ApiError, Refusal};

/// The length of the truncated signature, in bytes.
const MAC_BYTES: usize = 16;

/// Writes and reads the cursors of one list for one client, and for one user if the list belongs to a user. A cursor
/// is valid only with the filters of the request that it was made for.
pub(crate) struct Cursors<'a> {
    pub(crate) key: &'a SecretSlice<u8>,
    pub(crate) list: &'static str,
    pub(crate) client: &'a str,
    pub(crate) user: Option<UserId>,
    /// The variable of the path. It distinguishes lists with the same pattern.
    pub(crate) variable: Option<(&'a str, &'a str)>,
}

impl Cursors<'_> {
    fn mac(&self, position: &[u8], query: &Query) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.expose_secret()).ok()?;
        let filters: Vec<_> = query.filters().into_iter().chain(self.variable).collect();
        let bound = match self.user {
            Some(user) => serde_json::to_vec(&(self.list, self.client, user, filters)),
            None => serde_json::to_vec(&(self.list, self.client, filters)),
        };
        let bound = bound.ok()?;
        mac.update(&u64::try_from(bound.len()).ok()?.to_be_bytes());
        mac.update(&bound);
        mac.update(position);
        Some(mac)
    }

    /// The cursor of a position.
    pub(crate) fn write(&self, position: &Position, query: &Query) -> Result<String, ApiError> {
        let write = || {
            let position = serde_json::to_vec(position).ok()?;
            let mac = self.mac(&position, query)?.finalize().into_bytes();
            let mac = mac.first_chunk::<MAC_BYTES>()?;
            Some(URL_SAFE_NO_PAD.encode([&mac[..], &position].concat()))
        };
        write().ok_or_else(|| ApiError::unforeseen("a cursor could not be written"))
    }

    /// The position of the cursor in the query, if there is one.
    pub(crate) fn after(&self, query: &Query) -> Result<Option<Position>, ApiError> {
        let Some(cursor) = query.value("cursor") else { return Ok(None) };
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
            let (mac, position) = bytes.split_first_chunk::<MAC_BYTES>()?;
            // A position is not secret. But a forged position could bypass the checks of a future store.
            self.mac(position, query)?.verify_truncated_left(mac).ok()?;
            serde_json::from_slice(position).ok()
        };
        read().map(Some).ok_or_else(|| Refusal::CursorInvalid.into())
    }
}
