//! The query of a list: every parameter known, none ignored, and cursors that fit it.

use std::borrow::Cow;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::Sha256;
use subscription_core::InvalidValue;
use subscription_core::store::{Direction, PageLimit, Position};

use crate::api::error::{ApiError, Refusal};

const MAC_BYTES: usize = 16;

/// How much of the name of a parameter that is refused is told.
const NAME_CHARS_SHOWN: usize = 100;

/// The parameters of a request, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// Parameters that are not what they must be.
fn wrong(parameter: impl Into<String>, message: impl Into<String>) -> ApiError {
    ApiError::Query { parameter: parameter.into(), message: message.into() }
}

impl Query {
    /// Takes the part of a URI after the `?` apart.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let decode = |name: &str, part: &str| {
            let spaced = part.replace('+', " ");
            let text = percent_decode_str(&spaced).decode_utf8().map(Cow::into_owned);
            let text = text.ok().filter(|text| !text.chars().any(char::is_control));
            let shown = || name.chars().take(NAME_CHARS_SHOWN).collect::<String>();
            text.ok_or_else(|| wrong(shown(), "is not valid text"))
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name, name)?, decode(name, value)?))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    /// Refuses every parameter that is not `known`, and repetitions of all but `repeatable`.
    pub(crate) fn expect(&self, known: &[&str], repeatable: &[&str]) -> Result<(), ApiError> {
        for (nth, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let shown: String = name.chars().take(NAME_CHARS_SHOWN).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(wrong(shown, format!("is unknown; there is {known}")));
            }
            let before = self.0.iter().take(nth).any(|(other, _)| other == name);
            if before && !repeatable.contains(&name.as_str()) {
                return Err(wrong(name, "must be given once"));
            }
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// A parameter read as a `T`.
    pub(crate) fn read<T: FromStr<Err = InvalidValue>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, ApiError> {
        let value = self.value(name).map(str::parse).transpose();
        value.map_err(|refused: InvalidValue| wrong(name, refused.to_string()))
    }

    /// All values of a parameter that may be repeated.
    pub(crate) fn read_all<T: FromStr<Err = InvalidValue>>(
        &self,
        name: &str,
    ) -> Result<Vec<T>, ApiError> {
        let values = self.0.iter().filter(|(other, _)| other == name);
        let values = values.map(|(_, value)| value.parse());
        values
            .collect::<Result<_, _>>()
            .map_err(|refused: InvalidValue| wrong(name, refused.to_string()))
    }

    /// A parameter that is `true` or `false`.
    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        let value = self.value(name).map(str::parse).transpose();
        value.map_err(|_| wrong(name, "must be true or false"))
    }

    /// How many records a page is to have.
    pub(crate) fn limit(&self) -> Result<PageLimit, ApiError> {
        let Some(text) = self.value("limit") else { return Ok(PageLimit::default()) };
        let limit = text.parse().ok().and_then(|limit| PageLimit::new(limit).ok());
        limit.ok_or_else(|| wrong("limit", "must be from 1 to 200"))
    }

    /// What is sorted by, and which way; a dash in front goes backwards.
    pub(crate) fn sort<T: Copy>(
        &self,
        orders: &[(&str, T)],
    ) -> Result<Option<(T, Direction)>, ApiError> {
        let Some(text) = self.value("sort") else { return Ok(None) };
        let (name, direction) = match text.strip_prefix('-') {
            Some(name) => (name, Direction::Descending),
            None => (text, Direction::Ascending),
        };
        let order = orders.iter().find(|(other, _)| *other == name);
        order.map(|(_, order)| Some((*order, direction))).ok_or_else(|| {
            let names: Vec<_> = orders.iter().map(|(name, _)| *name).collect();
            wrong(
                "sort",
                format!("must be one of {}, with - in front for descending", names.join(", ")),
            )
        })
    }

    /// The place that a cursor stands for.
    pub(crate) fn after(&self, cursors: &Cursors<'_>) -> Result<Option<Position>, ApiError> {
        self.value("cursor").map(|cursor| cursors.read(cursor, self)).transpose()
    }

    /// What a cursor is bound to: everything but the cursor and the size of the page.
    fn filters(&self) -> Vec<(&str, &str)> {
        let bound = self.0.iter().filter(|(name, _)| name != "cursor" && name != "limit");
        let mut bound: Vec<_> =
            bound.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        bound.sort_unstable();
        bound
    }
}

/// Makes and reads the cursors of one list for one client.
pub(crate) struct Cursors<'a> {
    pub(crate) key: &'a SecretSlice<u8>,
    pub(crate) list: &'static str,
    pub(crate) client: &'a str,
}

impl Cursors<'_> {
    fn mac(&self, position: &[u8], query: &Query) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.expose_secret()).ok()?;
        let bound = serde_json::to_vec(&(self.list, self.client, query.filters())).ok()?;
        mac.update(&u64::try_from(bound.len()).ok()?.to_be_bytes());
        mac.update(&bound);
        mac.update(position);
        Some(mac)
    }

    /// The cursor of a place.
    pub(crate) fn write(&self, position: &Position, query: &Query) -> Result<String, ApiError> {
        let write = || {
            let position = serde_json::to_vec(position).ok()?;
            let mac = self.mac(&position, query)?.finalize().into_bytes();
            let mac = mac.first_chunk::<MAC_BYTES>()?;
            Some(URL_SAFE_NO_PAD.encode([&mac[..], &position].concat()))
        };
        write().ok_or_else(|| ApiError::unforeseen("a cursor could not be written"))
    }

    fn read(&self, cursor: &str, query: &Query) -> Result<Position, ApiError> {
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
            let (mac, position) = bytes.split_first_chunk::<MAC_BYTES>()?;
            // A cursor gives nothing away, but a forged one could skip a check of a store to come.
            self.mac(position, query)?.verify_truncated_left(mac).ok()?;
            serde_json::from_slice(position).ok()
        };
        read().ok_or_else(|| Refusal::CursorInvalid.into())
    }
}
