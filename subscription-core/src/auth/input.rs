//! The request bodies of sign-in, sign-up and refresh.

use secrecy::SecretString;

use super::refresh_token::RefreshToken;
use crate::values::input::string;
use crate::values::{Email, Fields, InputError, InvalidValue, SessionId, Text};

/// The body of a sign-in or sign-up.
#[derive(Debug, Clone)]
pub struct ProofOfIdentity {
    /// The token that an identity provider issued.
    pub access_token: SecretString,
    /// The e-mail address that the caller claims to have.
    pub email: Email,
}

impl ProofOfIdentity {
    /// Parses a JSON object and returns all its faults.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let access_token = fields.required("access_token", secret);
        let email = fields.required("email", string);
        let proof =
            access_token.zip(email).map(|(access_token, email)| Self { access_token, email });
        fields.finish(proof)
    }
}

/// The body of a refresh.
#[derive(Debug, Clone)]
pub struct RefreshRequest {
    /// The session's refresh token.
    pub refresh_token: SecretString,
}

impl RefreshRequest {
    /// Parses a JSON object and returns all its faults.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let refresh_token = fields.required("refresh_token", secret);
        fields.finish(refresh_token.map(|refresh_token| Self { refresh_token }))
    }

    /// The session that the refresh token names; `None` if the token is malformed. This call does not verify the token,
    /// which may be forged.
    pub fn claimed_session(&self) -> Option<SessionId> {
        RefreshToken::parse(&self.refresh_token).map(|token| token.session)
    }
}

fn secret(json: &str) -> Result<SecretString, InvalidValue> {
    string::<Text<1, 16_384>>(json).map(|text| text.as_str().into())
}
