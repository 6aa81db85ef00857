//! Tokens made by hand, as somebody would make them who has whatever key a test gives them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use subscription_core::Error;

use super::world::{AuthWorld, SIGNING_SEED, web};

pub(crate) const RSA_PEM: &[u8] = include_bytes!("keys/rsa-2048.pem");
pub(crate) const OTHER_RSA_PEM: &[u8] = include_bytes!("keys/rsa-2048-other.pem");
/// A public key of 1,024 bits, and a token that it signed: the crate itself would not.
pub(crate) const SMALL_RSA: &[u8] = include_bytes!("keys/rsa-1024.json");
pub(crate) const P256_PEM: &[u8] = include_bytes!("keys/p256.pem");
pub(crate) const P384_PEM: &[u8] = include_bytes!("keys/p384.pem");
pub(crate) const ED25519_PEM: &[u8] = include_bytes!("keys/ed25519.pem");

/// A key that signs whatever it is given.
pub(crate) struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
}

impl Signer {
    /// The key that signs the access tokens of an [`AuthWorld`].
    pub(crate) fn ours() -> Self {
        Self::ed25519(SIGNING_SEED)
    }

    pub(crate) fn ed25519(seed: [u8; 32]) -> Self {
        let pkcs8 =
            [b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20", &seed[..]];
        Self { key: EncodingKey::from_ed_der(&pkcs8.concat()), algorithm: Algorithm::EdDSA }
    }

    pub(crate) fn hs256(secret: &[u8]) -> Self {
        Self { key: EncodingKey::from_secret(secret), algorithm: Algorithm::HS256 }
    }

    pub(crate) fn pem(pem: &[u8], algorithm: Algorithm) -> Self {
        let key = EncodingKey::from_rsa_pem(pem)
            .or_else(|_| EncodingKey::from_ec_pem(pem))
            .or_else(|_| EncodingKey::from_ed_pem(pem));
        Self { key: key.unwrap(), algorithm }
    }

    /// A token of texts that need not be JSON.
    pub(crate) fn sign(&self, header: &str, claims: &str) -> String {
        self.sign_encoded(&URL_SAFE_NO_PAD.encode(header), &URL_SAFE_NO_PAD.encode(claims))
    }

    /// A token of parts that need not be base64.
    pub(crate) fn sign_encoded(&self, header: &str, claims: &str) -> String {
        let message = format!("{header}.{claims}");
        let signature = crypto::sign(message.as_bytes(), &self.key, self.algorithm).unwrap();
        let token = format!("{message}.{signature}");
        test_support::logs::note(&token);
        token
    }

    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        self.sign(&header.to_string(), &claims.to_string())
    }

    /// The public key as a provider publishes it.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        let mut jwk = json!(Jwk::from_encoding_key(&self.key, self.algorithm).unwrap());
        jwk["kid"] = json!(id);
        jwk
    }
}

/// A part of a token, read.
pub(crate) fn part(token: &str, number: usize) -> Value {
    let part = URL_SAFE_NO_PAD.decode(token.split('.').nth(number).unwrap()).unwrap();
    serde_json::from_slice(&part).unwrap()
}

/// An account with a live session, and its genuine access token taken apart.
pub(crate) struct Target {
    pub(crate) world: AuthWorld,
    pub(crate) token: String,
    pub(crate) header: Value,
    pub(crate) claims: Value,
}

impl Target {
    pub(crate) async fn new() -> Self {
        let world = AuthWorld::new();
        let token = world.sign_up("ada").await.access_token.expose_secret().to_owned();
        let (header, claims) = (part(&token, 0), part(&token, 1));
        Self { world, token, header, claims }
    }

    /// The result for a token: `taken`, or the code of the refusal.
    pub(crate) async fn answer(&self, token: &str) -> &'static str {
        let answer = self.world.auth.authenticate(&web(), &token.into()).await;
        answer.as_ref().map_or_else(Error::code, |_| "taken")
    }

    /// The token signed anew with our own key, after `change` was made to its header.
    pub(crate) fn with_header(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut header = self.header.clone();
        change(&mut header);
        Signer::ours().token(&header, &self.claims)
    }

    /// The token signed anew with our own key, after `change` was made to its claims.
    pub(crate) fn with_claims(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = self.claims.clone();
        change(&mut claims);
        Signer::ours().token(&self.header, &claims)
    }
}
