//! Signed tokens in compact form (JWS): parsed strictly, then verified with a key.
//!
//! The crate `jsonwebtoken` is used only for signatures and key formats. The header and the claims are parsed here,
//! because the crate parses them leniently: it accepts an unknown header field and an `nbf` in the future, accepts a
//! token for a minute after its expiry, and takes the time from the machine instead of the service's clock. The key
//! determines the algorithm; a token whose header names another algorithm is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{DecodingKey, EncodingKey, crypto};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{DependencyFailed, Error};
use crate::values::input::object;

/// A signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Ed25519.
    EdDsa,
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// HMAC with SHA-256: the same secret signs and verifies.
    Hs256,
    /// RSA with SHA-256, PKCS #1.
    Rs256,
    /// RSA with SHA-256, PSS.
    Ps256,
}

impl Algorithm {
    /// The name of the algorithm in a token's header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
        }
    }

    pub(super) const fn of_crate(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
            Self::Hs256 => jsonwebtoken::Algorithm::HS256,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Ps256 => jsonwebtoken::Algorithm::PS256,
        }
    }
}

/// Header fields by which a token could choose the key or the way it is verified. A token with one of them is refused.
const FORBIDDEN: [&str; 7] = ["jwk", "jku", "x5u", "x5c", "crit", "b64", "zip"];

/// Maximum length of a key id in bytes. A token with a longer key id is refused.
const KEY_ID_BYTES_MAX: usize = 128;

/// A parsed token. Nothing in it may be trusted before [`Compact::verify`] has returned the claims.
#[derive(Debug)]
pub(crate) struct Compact<'a> {
    message: &'a str,
    claims: &'a str,
    signature: &'a str,
    algorithm: String,
    pub(crate) token_type: Option<String>,
    pub(crate) key_id: Option<String>,
    /// The names of all header fields.
    pub(crate) header_fields: Vec<String>,
}

impl<'a> Compact<'a> {
    /// Parses a token. `None` if the token is longer than `bytes_max` bytes, is malformed, or has one of the
    /// [`FORBIDDEN`] header fields, such as one that contains a key.
    pub(crate) fn parse(token: &'a str, bytes_max: usize) -> Option<Self> {
        if token.len() > bytes_max {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        if claims.contains('.') {
            return None;
        }
        let header = URL_SAFE_NO_PAD.decode(header).ok()?;
        let fields = object(&header).ok()?;
        if fields.iter().any(|(name, _)| FORBIDDEN.contains(&&**name)) {
            return None;
        }
        let text = |name: &str| {
            let found = fields.iter().find(|(field, _)| field == name);
            let read = |raw: &RawValue| serde_json::from_str::<String>(raw.get());
            found.map(|(_, raw)| read(raw)).transpose().ok()
        };
        let key_id = text("kid")?;
        let sound = |id: &String| {
            (1..=KEY_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
        };
        if !key_id.as_ref().is_none_or(sound) {
            return None;
        }
        Some(Self {
            message,
            claims,
            signature,
            algorithm: text("alg")??,
            token_type: text("typ")?,
            key_id,
            header_fields: fields.iter().map(|(name, _)| name.to_string()).collect(),
        })
    }

    /// True unless the type in the header (`typ`) says that the token is of another kind than an identity token, such as
    /// a logout token or an access token. The provider signs all of them with the same keys.
    pub(crate) fn may_name_a_person(&self) -> bool {
        self.token_type.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case("JWT"))
    }

    /// What is signed. It names the token: some algorithms have several signatures for one token, and from one of them
    /// anybody can make another.
    pub(crate) const fn message(&self) -> &'a str {
        self.message
    }

    /// The claims, if `key` verifies the signature of the token; otherwise `None`.
    pub(crate) fn verify(&self, key: &VerifyingKey) -> Option<Vec<u8>> {
        if self.algorithm != key.algorithm.as_str() {
            return None;
        }
        let message = self.message.as_bytes();
        let algorithm = key.algorithm.of_crate();
        let is_signed = crypto::verify(self.signature, message, &key.key, algorithm).ok()?;
        if is_signed { URL_SAFE_NO_PAD.decode(self.claims).ok() } else { None }
    }
}

/// Parses a JSON object without duplicate fields.
///
/// Serde alone would also accept a struct as an array of its fields' values, and would ignore duplicates of a field
/// that is not used.
pub(crate) fn read_object<T: DeserializeOwned>(json: &[u8]) -> Option<T> {
    object(json).ok()?;
    serde_json::from_slice(json).ok()
}

/// A key that verifies tokens of one algorithm.
#[derive(Clone)]
pub(crate) struct VerifyingKey {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl VerifyingKey {
    /// Parses a public key of a JWK set. `None` if the key cannot be read, is not for signatures, or has an algorithm
    /// that is not `allowed`.
    pub(crate) fn from_jwk(jwk: &Jwk, allowed: &[Algorithm]) -> Option<Self> {
        use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, KeyOperations, PublicKeyUse};
        let for_signatures =
            matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
        let operations = jwk.common.key_operations.as_ref();
        if !for_signatures || !operations.is_none_or(|all| all.contains(&KeyOperations::Verify)) {
            return None;
        }
        // A key that names its algorithm is used for that algorithm. Any other key is used for the first algorithm that
        // is listed below for its type: RS256 for RSA.
        let named = jwk.common.key_algorithm.map(|algorithm| algorithm.to_string());
        let by_type: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                &[Algorithm::EdDsa]
            }
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                &[Algorithm::Es256]
            }
            AlgorithmParameters::RSA(_) => &[Algorithm::Rs256, Algorithm::Ps256],
            // Refused: other curves; shared secrets, because a published key set must not contain any; and key types
            // that a later version of the library adds.
            AlgorithmParameters::EllipticCurve(_)
            | AlgorithmParameters::OctetKeyPair(_)
            | AlgorithmParameters::OctetKey(_)
            | _ => &[],
        };
        let fits = |algorithm: &&Algorithm| {
            named.as_deref().is_none_or(|named| named == algorithm.as_str())
        };
        let algorithm = *by_type.iter().find(fits).filter(|found| allowed.contains(found))?;
        DecodingKey::from_jwk(jwk).ok().map(|key| Self { algorithm, key })
    }

    /// A key that verifies HS256 tokens with a shared secret.
    pub(crate) fn shared(secret: &[u8]) -> Self {
        Self { algorithm: Algorithm::Hs256, key: DecodingKey::from_secret(secret) }
    }
}

impl std::fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerifyingKey({})", self.algorithm.as_str())
    }
}

/// Signs a token that has this header and these claims, and returns the token in compact form.
pub(crate) fn sign(
    header: &impl serde::Serialize,
    claims: &impl serde::Serialize,
    key: &EncodingKey,
    algorithm: Algorithm,
) -> Result<String, SigningFailed> {
    let part = |json: serde_json::Result<Vec<u8>>| {
        json.map(|json| URL_SAFE_NO_PAD.encode(json)).map_err(|e| SigningFailed(e.into()))
    };
    let header = part(serde_json::to_vec(header))?;
    let claims = part(serde_json::to_vec(claims))?;
    let message = format!("{header}.{claims}");
    let signature = crypto::sign(message.as_bytes(), key, algorithm.of_crate())
        .map_err(|e| SigningFailed(e.into()))?;
    Ok(format!("{message}.{signature}"))
}

/// A token could not be signed.
#[derive(Debug, thiserror::Error)]
#[error("the signing key failed")]
pub struct SigningFailed(#[source] Box<dyn std::error::Error + Send + Sync>);

impl From<SigningFailed> for Error {
    fn from(error: SigningFailed) -> Self {
        DependencyFailed::Signing(error.into()).into()
    }
}
