//! E-mail addresses in the form in which lists of users compare and sort them.

use std::borrow::Borrow;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::as_text::hidden_in_logs;
use super::faults::InvalidValue;
use super::text::{Email, checked};

/// The [key](Email::key) of an e-mail address. Keys are sorted byte by byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EmailKey(Box<str>);

impl EmailKey {
    /// The key as a plain `str`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Email> for EmailKey {
    fn from(email: &Email) -> Self {
        Self(email.key().into())
    }
}

/// Allows an ordered map to find a key by a plain `str`.
impl Borrow<str> for EmailKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The beginning of an e-mail address: 3 to 254 ASCII characters without blanks, compared with the
/// [key](Email::key) of an address.
#[derive(Clone, PartialEq, Eq)]
pub struct EmailPrefix(Box<str>);

hidden_in_logs! { EmailKey EmailPrefix }

impl EmailPrefix {
    /// The prefix in lower case, like the keys of addresses.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The smallest text that comes after every text with this prefix, in byte order.
    pub fn end(&self) -> String {
        // The last character is printable ASCII, so the next code is a character too.
        let mut chars = self.0.chars();
        let last = chars.next_back().map_or('\0', |last| char::from(last as u8 + 1));
        chars.chain([last]).collect()
    }
}

impl FromStr for EmailPrefix {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let text = checked(text.trim(), 3, 254, false)?;
        if text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text.to_ascii_lowercase().into()))
        } else {
            let message = "must be the beginning of an e-mail address, in ASCII and without blanks";
            Err(InvalidValue::bad_format(message))
        }
    }
}
