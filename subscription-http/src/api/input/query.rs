//! The query of a request. An unknown parameter is an error, so that a misspelt filter is not ignored.

use std::borrow::Cow;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use subscription_core::InvalidValue;
use subscription_core::store::{Direction, PageLimit};

use crate::api::ApiError;

/// The maximum number of characters of a refused parameter's name that an error shows.
const NAME_CHARS_SHOWN: usize = 100;

/// The names and values of the query parameters, in their order.
#[derive(Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// The error for a parameter.
fn wrong(parameter: impl Into<String>, message: impl Into<String>) -> ApiError {
    ApiError::Query { parameter: parameter.into(), message: message.into() }
}

impl Query {
    /// Parses the part of a URI after the `?`.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let decode = |name: &str, part: &str| {
            let spaced = part.replace('+', " ");
            let text = percent_decode_str(&spaced).decode_utf8().map(Cow::into_owned);
            let text = text.ok().filter(|text| !text.chars().any(char::is_control));
            let shown = || name.chars().take(NAME_CHARS_SHOWN).collect::<String>();
            text.ok_or_else(|| wrong(shown(), "is not UTF-8, or has a control character"))
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name, name)?, decode(name, value)?))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    /// Refuses parameters that are not in `known`, and repeated parameters that are not in `repeatable`.
    pub(crate) fn expect(&self, known: &[&str], repeatable: &[&str]) -> Result<(), ApiError> {
        for (nth, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let shown: String = name.chars().take(NAME_CHARS_SHOWN).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(wrong(shown, format!("is unknown; the known parameters are: {known}")));
            }
            let before = self.0.iter().take(nth).any(|(other, _)| other == name);
            if before && !repeatable.contains(&name.as_str()) {
                return Err(wrong(name, "must be given once"));
            }
        }
        Ok(())
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter, which must not be empty; `None` if it is not given.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let value = self.value(name);
        if value.is_some_and(str::is_empty) {
            return Err(wrong(name, "must not be empty"));
        }
        Ok(value)
    }

    /// The value of a parameter, parsed as a `T`; `None` if it is not given.
    pub(crate) fn read<T: FromStr<Err = InvalidValue>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, ApiError> {
        let value = self.value(name).map(str::parse).transpose();
        value.map_err(|refused: InvalidValue| wrong(name, refused.to_string()))
    }

    /// The value of a required parameter, parsed as a `T`.
    pub(crate) fn required<T: FromStr<Err = InvalidValue>>(
        &self,
        name: &str,
    ) -> Result<T, ApiError> {
        self.read(name)?.ok_or_else(|| wrong(name, "is required"))
    }

    /// All values of a parameter that may be repeated, each parsed as a `T`.
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

    /// Like [`Query::read_all`], but more than `most` values are an error.
    pub(crate) fn read_few<T: FromStr<Err = InvalidValue>>(
        &self,
        name: &str,
        most: usize,
    ) -> Result<Vec<T>, ApiError> {
        let values = self.read_all(name)?;
        if values.len() > most {
            return Err(wrong(name, format!("must be given at most {most} times")));
        }
        Ok(values)
    }

    /// Refuses a query that has more than one of the parameters in `names`.
    pub(crate) fn expect_one_of(&self, names: &[&str]) -> Result<(), ApiError> {
        let mut given = names.iter().filter(|name| self.value(name).is_some());
        if let (Some(one), Some(other)) = (given.next(), given.next()) {
            return Err(wrong(*other, format!("must not be given together with {one}")));
        }
        Ok(())
    }

    /// The value of a parameter that must be `true` or `false`; `None` if it is not given.
    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        let value = self.value(name).map(str::parse).transpose();
        value.map_err(|_| wrong(name, "must be true or false"))
    }

    /// The value of a parameter that must be one of the names in `values`; `None` if it is not given.
    pub(crate) fn one_of<T: Copy>(
        &self,
        name: &str,
        values: &[(&str, T)],
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.value(name) else { return Ok(None) };
        let value = values.iter().find(|(other, _)| *other == text);
        value.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
            wrong(name, format!("must be {}", names.join(" or ")))
        })
    }

    /// The value of a parameter that must be a whole number from `least` to `most`; `None` if it is not given.
    pub(crate) fn number(
        &self,
        name: &str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.value(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| wrong(name, format!("must be from {least} to {most}")))
    }

    /// The maximum number of records on the page.
    pub(crate) fn limit(&self) -> Result<PageLimit, ApiError> {
        let Some(text) = self.value("limit") else { return Ok(PageLimit::default()) };
        // Text that is not a number gets the same error as a number out of range.
        let limit = PageLimit::new(text.parse().unwrap_or(0));
        limit.map_err(|refused| wrong("limit", refused.to_string()))
    }

    /// The order and its direction; `None` if the query names no order. A dash before the name means descending.
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

    /// The parameters that a cursor is valid for: all except `cursor` and `limit`.
    pub(crate) fn filters(&self) -> Vec<(&str, &str)> {
        let bound = self.0.iter().filter(|(name, _)| name != "cursor" && name != "limit");
        let mut bound: Vec<_> =
            bound.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        bound.sort_unstable();
        bound
    }
}
