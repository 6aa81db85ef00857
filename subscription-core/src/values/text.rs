//! Checked text: names, slugs, URLs, e-mail addresses.
//!
//! Each type trims its text and checks it once, when it is parsed. Lengths count characters, not bytes.

use std::str::FromStr;

use email_address::{EmailAddress, Options};
use url::Url;

use crate::values::as_text::{hidden_in_logs, written_as_text};
use crate::values::faults::{FaultCode, InvalidValue};

/// Checks that a text has `min` to `max` characters and no control characters. `lines` allows `\n` and `\t`.
pub(crate) fn checked(
    text: &str,
    min: usize,
    max: usize,
    lines: bool,
) -> Result<&str, InvalidValue> {
    // A character has at most four bytes. So a text of more than four times `max` bytes is too long, and its characters
    // need not be counted.
    let characters =
        if text.len() > max.saturating_mul(4) { max + 1 } else { text.chars().count() };
    if characters < min {
        let message =
            format!("must have at least {min} character(s), not counting blanks at either end");
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

/// Implements `as_str`, `AsRef`, `Display`, `Debug` and serde for a type that wraps a `Box<str>` and implements
/// `FromStr`.
macro_rules! reads_and_writes_as_text {
    ($name:ty $(, for $($generics:tt)*)?) => {
        impl $(<$($generics)*>)? $name {
            /// The text as a plain `str`.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl $(<$($generics)*>)? AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl $(<$($generics)*>)? std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }

        $crate::values::as_text::written_as_text!($name, |text| &text.0 $(, for $($generics)*)?);
    };
}

/// Defines types that wrap a checked text. Each definition names the function that checks the text.
macro_rules! checked_texts {
    ($($(#[$doc:meta])* $name:ident: $check:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl std::str::FromStr for $name {
            type Err = $crate::values::faults::InvalidValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $check(text).map(|text| Self(text.into()))
            }
        }

        $crate::values::text::reads_and_writes_as_text!($name);
    )+};
}

/// Text of `MIN` to `MAX` characters, without control characters. Blanks at its ends are removed.
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

/// A description of at most 4,000 characters, which may have several lines.
pub type Description = Text<0, 4_000, true>;

/// The id of a product, a variant, a subscription or a payment in another system.
pub type ExternalId = Text<1, 255>;

checked_texts! {
    /// A name for use in URL paths: 1 to 64 characters of `a-z`, `0-9` and `-`, with no dash at either end.
    Slug: slug;
    /// An absolute http or https URL of at most 2,048 characters, stored as it was sent.
    Href: href;
    /// An absolute https URL of at most 2,048 characters, stored as it was sent.
    HttpsUrl: https_url;
}

fn slug(text: &str) -> Result<&str, InvalidValue> {
    let text = checked(text.trim(), 1, 64, false)?;
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.bytes().all(allowed) && !text.starts_with('-') && !text.ends_with('-') {
        Ok(text)
    } else {
        Err(InvalidValue::bad_format("must have only a-z, 0-9 and -, and no dash at either end"))
    }
}

fn href(text: &str) -> Result<&str, InvalidValue> {
    let text = checked(text.trim(), 1, 2_048, false)?;
    let with_host = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    // `Url::parse` would correct blanks, `https:host`, too many slashes and backslashes. It would accept quotes and
    // angle brackets, which end an HTML attribute. The text is put into links as it is, so the text itself must be
    // correct.
    let (scheme, rest) = text.split_once(':').unwrap_or_default();
    let corrected = |c: char| c.is_whitespace() || matches!(c, '\\' | '"' | '<' | '>');
    let authority = rest.strip_prefix("//").is_some_and(|host| !host.starts_with('/'));
    let spelled_out = !scheme.is_empty() && authority && !text.contains(corrected);
    if spelled_out && Url::parse(text).is_ok_and(|url| with_host(&url)) {
        Ok(text)
    } else {
        let message = "must be an absolute http or https URL such as https://example.com/plans";
        Err(InvalidValue::bad_format(message))
    }
}

fn https_url(text: &str) -> Result<&str, InvalidValue> {
    let refused = "must be an absolute https URL such as https://example.com/billing";
    let scheme = |text: &str| text.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let url = href(text).ok().filter(|url| scheme(url) == "https");
    url.ok_or_else(|| InvalidValue::bad_format(refused))
}

/// An e-mail address whose form was checked.
///
/// Its domain is kept in its ASCII form (UTS 46): so two domains that look the same differ, and every mail program sends
/// to the one that was meant. The part before the `@` must be ASCII. It is kept as it was sent, and compared in lower
/// case, as is the whole [key](Email::key).
///
/// ```
/// use subscription_core::Email;
///
/// let email: Email = "Ada@Bücher.example".parse()?;
/// assert_eq!(email.to_string(), "Ada@xn--bcher-kva.example");
/// assert_eq!(email, "ada@xn--bcher-kva.example".parse()?);
/// # Ok::<(), subscription_core::InvalidValue>(())
/// ```
#[derive(Clone)]
pub struct Email {
    text: Box<str>,
    key: Box<str>,
}

impl Email {
    /// The address, with its domain in ASCII.
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
        let bad_format =
            || InvalidValue::bad_format("must be an e-mail address such as ada@example.com");
        let text = checked(text.trim(), 1, 254, false)?;
        let (local, domain) = text.rsplit_once('@').ok_or_else(bad_format)?;
        let domain = idna::domain_to_ascii_strict(domain).map_err(|_| bad_format())?;
        let text = format!("{local}@{domain}");
        let key = text.to_ascii_lowercase();
        let options =
            Options::default().with_required_tld().without_domain_literal().without_display_text();
        let quoted = local.contains('"');
        if !local.is_ascii() || quoted || EmailAddress::parse_with_options(&key, options).is_err() {
            return Err(bad_format());
        }
        // The ASCII form of a domain may be longer than the domain itself.
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

written_as_text!(Email, |email| &email.text);

hidden_in_logs! { Email }

pub(crate) use {checked_texts, reads_and_writes_as_text};
