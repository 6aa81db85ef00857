//! Refresh tokens: made from the session's row, checked against it, stored nowhere.
//!
//! A token is the session's id and generation under a MAC whose key is derived from a server key and
//! a salt in the row. So the current token can be made again when an answer was lost, and the rows
//! alone forge nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use sha2::Sha256;
use uuid::Uuid;

use super::keys::{BadKey, SECRET_BYTES_MIN};
use super::session::Session;
use crate::clock::Timestamp;
use crate::id::SessionId;

const PREFIX: &str = "srt_";
const FORMAT: u8 = 1;
/// Format, key id, session, generation.
const HEAD_BYTES: usize = 1 + 1 + 16 + 4;
const MAC_BYTES: usize = 32;

/// The server's secret keys, by number: one makes MACs, several check them.
///
/// They protect refresh tokens and the stored hashes of client keys. Whoever has the database but not
/// these can neither forge nor guess any of them.
#[derive(Debug, Clone)]
pub struct ServerKeys {
    current: u8,
    keys: BTreeMap<u8, SecretSlice<u8>>,
}

impl ServerKeys {
    /// One key of at least 32 bytes.
    pub fn new(id: u8, key: SecretSlice<u8>) -> Result<Self, BadKey> {
        let mut keys = Self { current: id, keys: BTreeMap::new() };
        keys.insert(id, key)?;
        Ok(keys)
    }

    /// Also checks with an older key.
    pub fn and_checks(mut self, id: u8, key: SecretSlice<u8>) -> Result<Self, BadKey> {
        if self.keys.contains_key(&id) {
            return Err(BadKey::Repeated);
        }
        self.insert(id, key)?;
        Ok(self)
    }

    fn insert(&mut self, id: u8, key: SecretSlice<u8>) -> Result<(), BadKey> {
        if key.expose_secret().len() < SECRET_BYTES_MIN {
            return Err(BadKey::TooShort);
        }
        self.keys.insert(id, key);
        Ok(())
    }

    /// The number of the key that makes MACs.
    pub const fn current(&self) -> u8 {
        self.current
    }

    /// A MAC over `parts`, for one purpose only.
    pub(crate) fn mac(
        &self,
        id: u8,
        purpose: &str,
        salt: &[u8],
        text: &[u8],
    ) -> Option<Hmac<Sha256>> {
        let key = self.keys.get(&id)?.expose_secret();
        let mut derive = Hmac::<Sha256>::new_from_slice(key).ok()?;
        // Each part is led by its length, so that no two sets of parts are the same bytes.
        for part in [purpose.as_bytes(), salt] {
            derive.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            derive.update(part);
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&derive.finalize().into_bytes()).ok()?;
        mac.update(text);
        Some(mac)
    }
}

/// What a refresh token says; not to be believed before [`RefreshToken::is_genuine`].
#[derive(Clone, Copy)]
pub(crate) struct RefreshToken {
    key_id: u8,
    pub(crate) session: SessionId,
    pub(crate) generation: u32,
    mac: [u8; MAC_BYTES],
}

impl RefreshToken {
    /// Takes a token apart; `None` if it is none.
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

    /// The token of a session's present generation.
    pub(crate) fn of(session: &Session, keys: &ServerKeys) -> Option<SecretString> {
        let head = head(session.key_id, session.id, session.generation);
        let mac = keys.mac(session.key_id, "refresh token", &session.salt, &head)?;
        let bytes = [&head[..], &mac.finalize().into_bytes()].concat();
        Some(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)).into())
    }

    /// True if we made it for this session.
    ///
    /// The current token is of the key that the row names; those before it may be of an older one.
    pub(crate) fn is_genuine(&self, session: &Session, keys: &ServerKeys) -> bool {
        let head = head(self.key_id, self.session, self.generation);
        let mac = keys.mac(self.key_id, "refresh token", &session.salt, &head);
        let key_fits = self.key_id == session.key_id || self.generation != session.generation;
        // Compared in constant time.
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

/// How long a refresh token that was replaced is still met with patience; both may be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshWindows {
    /// The one before the current is taken for so long after the rotation: two tabs refresh at once.
    pub overlap: Duration,
    /// The one before the current is taken for so long if nobody has used its successor: the answer
    /// was lost.
    pub lost_answer: Duration,
}

impl Default for RefreshWindows {
    fn default() -> Self {
        Self { overlap: Duration::from_secs(30), lost_answer: Duration::from_mins(10) }
    }
}

/// What to do for a genuine refresh token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// The next generation, and new tokens.
    Rotate,
    /// The current refresh token again, and a fresh access token.
    Repeat,
}

/// Why a genuine refresh token is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefreshRefused {
    /// Its session was ended.
    Revoked,
    /// Its session has ended by itself.
    Expired,
    /// It is of a generation to come: the rows are older than the token.
    Ahead,
    /// It was used before: somebody else has it too.
    Reused,
}

/// Decides on a genuine refresh token of `generation`, presented at `now`.
pub(crate) fn decide(
    session: &Session,
    generation: u32,
    now: Timestamp,
    windows: RefreshWindows,
) -> Result<Refresh, RefreshRefused> {
    if session.revoked.is_some() {
        return Err(RefreshRefused::Revoked);
    }
    if session.has_expired(now) {
        return Err(RefreshRefused::Expired);
    }
    if generation > session.generation {
        return Err(RefreshRefused::Ahead);
    }
    if generation == session.generation {
        return Ok(Refresh::Rotate);
    }
    let rotated_within =
        |window: Duration| !window.is_zero() && now < session.rotated_at.saturating_add(window);
    let just_before = generation.checked_add(1) == Some(session.generation);
    let lost = !session.successor_used && rotated_within(windows.lost_answer);
    if just_before && (rotated_within(windows.overlap) || lost) {
        Ok(Refresh::Repeat)
    } else {
        Err(RefreshRefused::Reused)
    }
}
