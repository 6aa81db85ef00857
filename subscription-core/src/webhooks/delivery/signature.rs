//! Secrets of endpoints, and the signatures of deliveries as Standard Webhooks 1.0.0 defines them.
//!
//! A secret is derived from a server key and is never stored. So nobody can sign with the contents of the database
//! alone.

use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use crate::server_keys::ServerKeys;
use crate::values::{InvalidValue, Timestamp};
use crate::webhooks::{Endpoint, EndpointId, SecretState};

/// The recommended tolerance of receivers: the largest difference, in both directions, between the time of a delivery
/// and the receiver's clock.
pub const TOLERANCE: Duration = Duration::from_mins(5);

const PREFIX: &str = "whsec_";
const VERSION: &str = "v1,";

/// The secret of an endpoint, which signs its deliveries. Its text is `whsec_` followed by base64; the prefix may be
/// missing when the text is parsed.
#[derive(Debug, Clone)]
pub struct Secret(SecretSlice<u8>);

impl Secret {
    /// The text of the secret: `whsec_` followed by base64.
    pub fn expose(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(self.0.expose_secret()))
    }

    /// The signature, in base64, of a delivery with this id and time.
    fn signature(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret()).ok()?;
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        Some(STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl FromStr for Secret {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text));
        let bytes = bytes.ok().filter(|bytes| !bytes.is_empty());
        let bytes =
            bytes.ok_or_else(|| InvalidValue::bad_format("must be whsec_ followed by base64"))?;
        Ok(Self(bytes.into()))
    }
}

/// The secret with the number `generation` of an endpoint; `None` if there is no server key with the number `key_id`.
pub fn secret(
    keys: &ServerKeys,
    key_id: u8,
    salt: &[u8; 16],
    endpoint: EndpointId,
    generation: u32,
) -> Option<Secret> {
    let text = [endpoint.uuid().as_bytes().as_slice(), &generation.to_be_bytes()].concat();
    let mac = keys.mac(key_id, "webhook secret", salt, &text)?;
    Some(Secret(mac.finalize().into_bytes().to_vec().into()))
}

/// The current secret of an endpoint; `None` if its server key is missing or was replaced by another key.
pub(crate) fn current_secret(keys: &ServerKeys, endpoint: &Endpoint) -> Option<Secret> {
    let SecretState { key_id, salt, generation, check: expected, .. } = &endpoint.secret;
    let found = secret(keys, *key_id, salt, endpoint.id, *generation);
    found.filter(|found| check(found) == *expected)
}

/// The first 8 bytes of a hash of a secret. They are stored with the endpoint, and show whether the server key is
/// still the one from which the secret was derived.
pub fn check(secret: &Secret) -> [u8; 8] {
    let hash: [u8; 32] = Sha256::digest(secret.0.expose_secret()).into();
    hash.first_chunk().copied().unwrap_or_default()
}

/// The value of the header `webhook-signature`: one signature by each of the secrets, in the order of `secrets`. The
/// newest secret must be the first one.
pub fn sign(secrets: &[Secret], id: &str, unix_seconds: i64, body: &[u8]) -> String {
    let timestamp = unix_seconds.to_string();
    let signatures = secrets.iter().filter_map(|secret| secret.signature(id, &timestamp, body));
    signatures.map(|text| format!("{VERSION}{text}")).collect::<Vec<_>>().join(" ")
}

/// The headers of a delivery that are needed to verify it. The value of a missing header is an empty text.
#[derive(Debug, Clone, Copy)]
pub struct SignatureHeaders<'a> {
    /// The header `webhook-id`.
    pub id: &'a str,
    /// The header `webhook-timestamp`.
    pub timestamp: &'a str,
    /// The header `webhook-signature`.
    pub signature: &'a str,
}

/// The reason why a receiver must not trust a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// One of the three headers is missing or empty.
    #[error("webhook-id, webhook-timestamp or webhook-signature is missing")]
    HeaderMissing,
    /// The time is not a whole number of seconds since 1970.
    #[error("webhook-timestamp is not a number of seconds")]
    BadTimestamp,
    /// The delivery was signed too long ago. An attacker may have recorded it and sent it again.
    #[error("the delivery was signed too long ago")]
    TooOld,
    /// The delivery was signed in the future: one of the two clocks is wrong.
    #[error("the delivery was signed in the future")]
    TooNew,
    /// No signature in the header was made with one of the secrets over this id, time and body.
    #[error("no signature is right")]
    WrongSignature,
}

/// Verifies that a delivery was signed with one of the secrets, within `tolerance` of `now`. Receivers call this.
///
/// The body must be the bytes that were received. JSON that is parsed and written again has different bytes.
///
/// ```
/// use subscription_core::Timestamp;
/// use subscription_core::webhooks::{Secret, SignatureHeaders, TOLERANCE, verify};
///
/// let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?;
/// let headers = SignatureHeaders {
///     id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
///     timestamp: "1614265330",
///     signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
/// };
/// let body = br#"{"test": 2432232314}"#;
/// let now: Timestamp = "2021-02-25T15:02:11Z".parse()?; // with SystemClock: SystemClock.now()
///
/// verify(&[secret], &headers, body, now, TOLERANCE)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(
    secrets: &[Secret],
    headers: &SignatureHeaders<'_>,
    body: &[u8],
    now: Timestamp,
    tolerance: Duration,
) -> Result<(), Refused> {
    let SignatureHeaders { id, timestamp, signature } = *headers;
    if [id, timestamp, signature].iter().any(|text| text.is_empty()) {
        return Err(Refused::HeaderMissing);
    }
    let digits = timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = timestamp.parse::<i64>().ok().filter(|_| digits);
    let micros = seconds.and_then(|seconds| seconds.checked_mul(1_000_000));
    let micros = micros.ok_or(Refused::BadTimestamp)?;
    if u128::from(micros.abs_diff(now.micros())) > tolerance.as_micros() {
        return Err(if micros < now.micros() { Refused::TooOld } else { Refused::TooNew });
    }
    let mut right = Choice::from(0);
    for secret in secrets {
        let expected = secret.signature(id, timestamp, body).ok_or(Refused::WrongSignature)?;
        for given in signature.split(' ').filter_map(|text| text.strip_prefix(VERSION)) {
            right |= expected.as_bytes().ct_eq(given.as_bytes());
        }
    }
    if right.into() { Ok(()) } else { Err(Refused::WrongSignature) }
}
