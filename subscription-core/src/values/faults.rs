//! Faults: everything that is wrong with an input, collected.
//!
//! A value that cannot be parsed is an [`InvalidValue`]; with the name of its field it is a [`Fault`]. An
//! input is read to its end before it is refused, so that a caller can correct all of it at once.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// The stable name of what is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultCode {
    /// The field must be there and is not.
    Required,
    /// No such field can be set.
    UnknownField,
    /// A string where a number belongs, and the like.
    WrongType,
    /// Fewer characters than allowed.
    TooShort,
    /// More characters or more elements than allowed.
    TooLong,
    /// A number or a time outside its range.
    OutOfRange,
    /// The text is not of the form that the field asks for.
    BadFormat,
    /// The value is not one of those allowed here.
    NotAllowedValue,
    /// NUL or another control character.
    ControlCharacter,
    /// The field cannot be null.
    NullNotAllowed,
    /// The record that the field names does not exist.
    UnknownReference,
}

impl FaultCode {
    /// Every code, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Required,
        Self::UnknownField,
        Self::WrongType,
        Self::TooShort,
        Self::TooLong,
        Self::OutOfRange,
        Self::BadFormat,
        Self::NotAllowedValue,
        Self::ControlCharacter,
        Self::NullNotAllowed,
        Self::UnknownReference,
    ];

    /// The code as it is written in an answer.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::UnknownField => "unknown_field",
            Self::WrongType => "wrong_type",
            Self::TooShort => "too_short",
            Self::TooLong => "too_long",
            Self::OutOfRange => "out_of_range",
            Self::BadFormat => "bad_format",
            Self::NotAllowedValue => "not_allowed_value",
            Self::ControlCharacter => "control_character",
            Self::NullNotAllowed => "null_not_allowed",
            Self::UnknownReference => "unknown_reference",
        }
    }
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The reason why a value was refused, without the field that it was for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidValue {
    code: FaultCode,
    message: Cow<'static, str>,
}

impl InvalidValue {
    /// Refuses a value; the message goes on from the field's name: "must be …".
    pub fn new(code: FaultCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// The kind of fault.
    pub const fn code(&self) -> FaultCode {
        self.code
    }

    /// Says which field the value was for.
    #[must_use]
    pub fn at(self, field: impl Into<Cow<'static, str>>) -> Fault {
        Fault { field: field.into(), code: self.code, message: self.message }
    }
}

/// The one of `all` that is called `text`.
pub(crate) fn named<T: Copy, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
    text: &str,
) -> Result<T, InvalidValue> {
    all.into_iter().find(|value| name(*value) == text).ok_or_else(|| {
        let message = format!("must be one of {}", all.map(name).join(", "));
        InvalidValue::new(FaultCode::NotAllowedValue, message)
    })
}

/// A fault of one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The field's name; an element of a list is `variants[2]`, the input as a whole is empty.
    pub field: Cow<'static, str>,
    /// The kind of fault.
    pub code: FaultCode,
    /// A sentence for a person, without the field's name: "must be …".
    pub message: Cow<'static, str>,
}

/// All that is wrong with an input; never empty once it is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// The faults, in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }

    /// Adds a fault.
    pub fn push(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    /// Turns to an error if there are any.
    pub fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, Fault { field, message, .. }) in self.iter().enumerate() {
            let separator = if nth == 0 { "" } else { "; " };
            let field = if field.is_empty() { "the input" } else { field };
            write!(f, "{separator}{field} {message}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
