//! Taking webhooks in: the signature first, then one document.

use super::facade::Providers;
use crate::error::Error;
use crate::values::text::Slug;

/// The fate of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenIn {
    /// No source has this name.
    UnknownSource,
    /// The signature does not fit: nothing was parsed.
    SignatureInvalid,
    /// Its type is not followed: it was counted, and not stored.
    Unlisted,
    /// It is stored.
    Stored,
    /// It was stored before.
    Known,
}

impl Providers {
    /// Verifies the signature of a webhook over its raw bytes and stores the event. `signatures` are the values of
    /// all headers of the source's [signature header](super::signature_header).
    pub async fn take_in(
        &self,
        source: &Slug,
        signatures: &[&[u8]],
        body: &[u8],
    ) -> Result<TakenIn, Error> {
        let _ = (source, signatures, body);
        Ok(TakenIn::UnknownSource)
    }
}
