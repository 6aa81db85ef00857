//! Checked text: names, slugs, URLs, e-mail addresses.
//!
//! Each is trimmed, then checked once, where it comes in; what holds one need not check again.
//! Lengths count characters, not bytes.

use std::fmt;
use std::str::FromStr;

use email_address::{EmailAddress, Options};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use url::Url;

use crate::values::faults::{FaultCode, InvalidValue};

/// Checks the length and refuses control characters, but for `\n` and `\t` where `lines` are allowed.
pub(crate) fn checked(
    text: &str,
    min: usize,
    max: usize,
    lines: bool,
) -> Result<&str, InvalidValue> {
    // A character has at least one byte and at most four: a text of a megabyte need not be counted.
    let characters =
        if text.len() > max.saturating_mul(4) { max + 1 } else { text.chars().count() };
    if characters < min {
        let message = format!("must have at least {min} character(s) beside blanks");
        Err(InvalidValue::new(FaultCode::TooShort, message))
    } else if characters > max {
        let message = format!("must have at most {max} characters");
        Err(InvalidValue::new(FaultCode::TooLong, message))
    } else if text.chars().any(|c| c.is_control() && !(lines && matches!(c, '\n' | '\t'))) {
        Err(InvalidValue::new(FaultCode::ControlCharacter, "must not have control characters"))
    } else {
        Ok(text)
    }
}

/// Serde, `Display` and `Debug` of a type that wraps a `Box<str>` and implements `FromStr`.
macro_rules! reads_and_writes_as_text {
    ($name:ty $(, for $($generics:tt)*)?) => {
        impl $(<$($generics)*>)? $name {
            /// The bare text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl $(<$($generics)*>)? AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl $(<$($generics)*>)? fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl $(<$($generics)*>)? fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl $(<$($generics)*>)? Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de $(, $($generics)*)?> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

/// Text of `MIN` to `MAX` characters, without control characters, blanks at its ends cut off.
///
/// With `LINES`, line breaks and tabs are allowed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const MIN: usize, const MAX: usize, const LINES: bool = false>(Box<str>);

impl<const MIN: usize, const MAX: usize, const LINES: bool> FromStr for Text<MIN, MAX, LINES> {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        checked(text.trim(), MIN, MAX, LINES).map(|text| Self(text.into()))
    }
}

impl<const MAX: usize, const LINES: bool> Default for Text<0, MAX, LINES> {
    fn default() -> Self {
        Self("".into())
    }
}

reads_and_writes_as_text!(
    Text<MIN, MAX, LINES>, for const MIN: usize, const MAX: usize, const LINES: bool
);

/// The name of a plan or a client.
pub type Name = Text<1, 200>;

/// A few paragraphs for people.
pub type Description = Text<0, 4_000, true>;

/// An id that another system gave: a product, a variant, a subscription or a payment there.
pub type ExternalId = Text<1, 255>;

/// A name for paths: 1 to 64 of `a-z`, `0-9` and `-`, no dash at an end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slug(Box<str>);

impl FromStr for Slug {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let text = checked(text.trim(), 1, 64, false)?;
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if text.bytes().all(allowed) && !text.starts_with('-') && !text.ends_with('-') {
            Ok(Self(text.into()))
        } else {
            Err(InvalidValue::new(
                FaultCode::BadFormat,
                "must be of a-z, 0-9 and -, with no dash at either end",
            ))
        }
    }
}

reads_and_writes_as_text!(Slug);

/// An absolute http or https URL of at most 2,048 characters, stored as it was sent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Href(Box<str>);

impl FromStr for Href {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let text = checked(text.trim(), 1, 2_048, false)?;
        let with_host = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        // The parser mends blanks, `https:host`, slashes that are too many or backslashes, and quotes
        // and brackets that would end an attribute; what is kept here is put into links as it is.
        let (scheme, rest) = text.split_once(':').unwrap_or_default();
        let mended = |c: char| c.is_whitespace() || matches!(c, '\\' | '"' | '<' | '>');
        let authority = rest.strip_prefix("//").is_some_and(|host| !host.starts_with('/'));
        let spelled_out = !scheme.is_empty() && authority && !text.contains(mended);
        if spelled_out && Url::parse(text).is_ok_and(|url| with_host(&url)) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidValue::new(
                FaultCode::BadFormat,
                "must be an absolute http or https URL such as https://example.com/plans",
            ))
        }
    }
}

reads_and_writes_as_text!(Href);

/// One e-mail address, checked for its form.
///
/// It is stored as it was sent, and compared by its [key](Email::key): without case, the domain in its
/// ASCII form. The part before the `@` is ASCII, so that no two addresses merely look alike.
///
/// ```
/// use subscription_core::Email;
///
/// let email: Email = "Ada@Bücher.example".parse()?;
/// assert_eq!(email.to_string(), "Ada@Bücher.example");
/// assert_eq!(email, "ada@xn--bcher-kva.example".parse()?);
/// # Ok::<(), subscription_core::InvalidValue>(())
/// ```
#[derive(Clone)]
pub struct Email {
    text: Box<str>,
    key: Box<str>,
}

impl Email {
    /// The address as it was sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The form by which addresses are compared and looked up.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl FromStr for Email {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let bad_format = || {
            InvalidValue::new(
                FaultCode::BadFormat,
                "must be an e-mail address such as ada@example.com",
            )
        };
        let text = checked(text.trim(), 1, 254, false)?;
        let (local, domain) = text.rsplit_once('@').ok_or_else(bad_format)?;
        let domain = idna::domain_to_ascii_strict(domain).map_err(|_| bad_format())?;
        let key = format!("{}@{domain}", local.to_ascii_lowercase());
        let options =
            Options::default().with_required_tld().without_domain_literal().without_display_text();
        let quoted = local.contains('"');
        if !local.is_ascii() || quoted || EmailAddress::parse_with_options(&key, options).is_err() {
            return Err(bad_format());
        }
        // The ASCII form of a domain may be longer than what was sent.
        checked(&key, 1, 254, false)?;
        Ok(Self { text: text.into(), key: key.into() })
    }
}

impl PartialEq for Email {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Email {}

impl std::hash::Hash for Email {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Email {
    /// Hides the person: addresses do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Email(…)")
    }
}

impl Serialize for Email {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Email {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

pub(crate) use reads_and_writes_as_text;
