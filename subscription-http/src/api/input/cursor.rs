//! Signed cursors: a cursor is the position in a list after which the next page begins.
//!
//! A cursor is valid only for the list that it was made for, with the same filters, and for the same client; in a list
//! under `/me`, for the same user, with any client.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::ExposeSecret as _;
use sha2::Sha256;
use subscription_core::store::{Page, Position};

use crate::api::{ApiError, Call, Refusal};

/// The length of the truncated signature, in bytes.
const MAC_BYTES: usize = 16;

impl Call {
    /// The signature of a position in the requested list; `None` if the request has neither a user nor a client.
    fn cursor_mac(&self, position: &[u8]) -> Option<Hmac<Sha256>> {
        let key = self.state.cursor_key.expose_secret();
        let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
        let owner = self.owner().ok()?;
        // The variable of the path distinguishes lists with the same pattern.
        let variable = self.variable.iter().map(|(name, value)| (*name, value.as_str()));
        let filters: Vec<_> = self.query.filters().into_iter().chain(variable).collect();
        let bound = serde_json::to_vec(&(self.pattern, owner, filters)).ok()?;
        mac.update(&u64::try_from(bound.len()).ok()?.to_be_bytes());
        mac.update(&bound);
        mac.update(position);
        Some(mac)
    }

    /// The cursor of the next page; `None` if this is the last page.
    pub(crate) fn next_cursor<T>(&self, page: &Page<T>) -> Result<Option<String>, ApiError> {
        let Some(position) = &page.next else { return Ok(None) };
        let write = || {
            let position = serde_json::to_vec(position).ok()?;
            let mac = self.cursor_mac(&position)?.finalize().into_bytes();
            let mac = mac.first_chunk::<MAC_BYTES>()?;
            Some(URL_SAFE_NO_PAD.encode([&mac[..], &position].concat()))
        };
        write().map(Some).ok_or_else(|| ApiError::unforeseen("a cursor could not be written"))
    }

    /// The position that the cursor of the query names; `None` if the query has no cursor.
    pub(crate) fn after(&self) -> Result<Option<Position>, ApiError> {
        let Some(cursor) = self.query.value("cursor") else { return Ok(None) };
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
            let (mac, position) = bytes.split_first_chunk::<MAC_BYTES>()?;
            // A position is not secret. But a forged position could bypass the checks of a future store.
            self.cursor_mac(position)?.verify_truncated_left(mac).ok()?;
            serde_json::from_slice(position).ok()
        };
        read().map(Some).ok_or_else(|| Refusal::CursorInvalid.into())
    }
}
