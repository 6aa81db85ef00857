//! Signatures of webhooks: verified over the bytes of the body, before the body is parsed.

use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

use crate::providers::ProviderKind;
use crate::values::Timestamp;
use crate::values::as_text::hex;

/// The name of the header that has the signature, in lower case.
pub const fn signature_header(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::Stripe => "stripe-signature",
        ProviderKind::LemonSqueezy => "x-signature",
    }
}

/// The largest accepted difference between the time of a signature (Stripe) and the present time, in microseconds.
const SKEW_MAX: u64 = 300_000_000;
/// The largest number of parts in a signature header (Stripe).
const PARTS_MAX: usize = 16;

/// True if one of the secrets made the signature of this body, and if the time of a signature of Stripe is near `now`.
///
/// `header_values` are the values of all headers with the name [`signature_header`]. There must be exactly one.
#[doc(hidden)]
pub fn verify(
    kind: ProviderKind,
    header_values: &[&[u8]],
    body: &[u8],
    secrets: &[SecretString],
    now: Timestamp,
) -> bool {
    let &[header] = header_values else { return false };
    let signed = match kind {
        ProviderKind::Stripe => stripe(header, now),
        ProviderKind::LemonSqueezy => is_mac(header).then(|| (None, vec![header])),
    };
    let Some((time, macs)) = signed else { return false };
    let mut fits = Choice::from(0);
    for secret in secrets {
        let Ok(mut hmac) = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()) else {
            return false;
        };
        if let Some(time) = time {
            hmac.update(time);
            hmac.update(b".");
        }
        hmac.update(body);
        let expected = hex(&hmac.finalize().into_bytes());
        for mac in &macs {
            fits |= expected.as_bytes().ct_eq(mac);
        }
    }
    fits.into()
}

/// The text of the time that was signed with the body (`None` at Lemon Squeezy), and the signatures. The header of
/// Stripe is `t=…,v1=…,v1=…`, and only signatures of version 1 are read.
type Signed<'a> = (Option<&'a [u8]>, Vec<&'a [u8]>);

fn stripe(header: &[u8], now: Timestamp) -> Option<Signed<'_>> {
    let mut time = None;
    let mut macs = Vec::new();
    for (at, part) in header.split(|byte| *byte == b',').enumerate() {
        if at == PARTS_MAX {
            return None;
        }
        if let Some(text) = part.strip_prefix(b"t=") {
            if time.replace(text).is_some() {
                return None;
            }
        } else if let Some(text) = part.strip_prefix(b"v1=") {
            macs.push(Some(text).filter(|text| is_mac(text))?);
        }
    }
    let seconds = std::str::from_utf8(time?).ok()?;
    if !seconds.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let micros = seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?;
    (micros.abs_diff(now.micros()) <= SKEW_MAX).then_some((time, macs))
}

/// True for 64 hexadecimal digits in lower case, as both providers write a signature.
fn is_mac(text: &[u8]) -> bool {
    text.len() == 64 && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
