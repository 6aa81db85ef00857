//! Refresh tokens: derived from the session's row, verified against it, stored nowhere.
//!
//! A token has the session's id and generation, and a MAC over them. The key of the MAC is derived from a server key
//! and a salt in the row. So the current token can be derived again when a response was lost, and the rows alone are
//! not enough to forge a token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac as _;
use secrecy::{ExposeSecret as _, SecretString};
use uuid::Uuid;

use crate::accounts::Session;
use crate::server_keys::ServerKeys;
use crate::values::SessionId;

const PREFIX: &str = "srt_";
const FORMAT: u8 = 1;
/// The number of bytes before the MAC: format, key id, session, generation.
const HEAD_BYTES: usize = 1 + 1 + 16 + 4;
const MAC_BYTES: usize = 32;

/// A parsed refresh token. It must not be trusted before [`RefreshToken::is_genuine`] has returned true.
#[derive(Clone, Copy)]
pub(crate) struct RefreshToken {
    key_id: u8,
    pub(crate) session: SessionId,
    pub(crate) generation: u32,
    mac: [u8; MAC_BYTES],
}

impl RefreshToken {
    /// Parses a token; `None` if it is malformed.
    pub(crate) fn parse(token: &SecretString) -> Option<Self> {
        let text = token.expose_secret().strip_prefix(PREFIX)?;
        let bytes = URL_SAFE_NO_PAD.decode(text.get(..128).unwrap_or(text)).ok()?;
        let (head, mac) = bytes.split_at_checked(HEAD_BYTES)?;
        let mac = <[u8; MAC_BYTES]>::try_from(mac).ok()?;
        let (&[format, key_id], rest) = head.split_first_chunk()?;
        let (session, generation) = rest.split_first_chunk::<16>()?;
        let generation = u32::from_be_bytes(generation.try_into().ok()?);
        let session = SessionId::from(Uuid::from_bytes(*session));
        (format == FORMAT).then_some(Self { key_id, session, generation, mac })
    }

    /// The refresh token of a session's current generation. `None` if `keys` no longer has the server key of the
    /// session.
    pub(crate) fn of(session: &Session, keys: &ServerKeys) -> Option<SecretString> {
        let head = head(session.key_id, session.id, session.generation);
        let mac = keys.mac(session.key_id, "refresh token", &session.salt, &head)?;
        let bytes = [&head[..], &mac.finalize().into_bytes()].concat();
        Some(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)).into())
    }

    /// True if this service issued the token for this session.
    ///
    /// A token of the current generation must use the server key that the row names. A token of an earlier generation
    /// may use an older key.
    pub(crate) fn is_genuine(&self, session: &Session, keys: &ServerKeys) -> bool {
        let head = head(self.key_id, self.session, self.generation);
        let mac = keys.mac(self.key_id, "refresh token", &session.salt, &head);
        let key_fits = self.key_id == session.key_id || self.generation != session.generation;
        // `verify_slice` compares the MACs in constant time, so the time does not help to guess the right MAC.
        key_fits
            && self.session == session.id
            && mac.is_some_and(|mac| mac.verify_slice(&self.mac).is_ok())
    }
}

fn head(key_id: u8, session: SessionId, generation: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let bytes = [FORMAT, key_id].into_iter();
    let bytes = bytes.chain(session.uuid().into_bytes()).chain(generation.to_be_bytes());
    head.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    head
}
