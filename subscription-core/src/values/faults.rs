//! Faults: the errors in the fields of an input.
//!
//! The error of a value is an [`InvalidValue`]. Together with the name of the field it is a [`Fault`]. An input is read
//! to its end before it is refused, so that the caller sees all faults at once.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::values::named_enum::named_enum;

named_enum! {
    /// The kind of a fault, as a stable name for machines.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FaultCode {
        /// A required field is absent.
        Required = "required",
        /// The input has no field of this name.
        UnknownField = "unknown_field",
        /// The JSON value is of another type: a string in place of a number, for example.
        WrongType = "wrong_type",
        /// The text has fewer characters than allowed.
        TooShort = "too_short",
        /// The value has more characters or elements than allowed.
        TooLong = "too_long",
        /// The number or time lies outside its range.
        OutOfRange = "out_of_range",
        /// The text does not have the form that the field requires.
        BadFormat = "bad_format",
        /// The value is not one of the allowed values.
        NotAllowedValue = "not_allowed_value",
        /// The text has NUL or another control character.
        ControlCharacter = "control_character",
        /// The field cannot be null.
        NullNotAllowed = "null_not_allowed",
        /// The record that the field names does not exist.
        UnknownReference = "unknown_reference",
    }
}

/// The reason why a value was refused, without the name of its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidValue {
    code: FaultCode,
    message: Cow<'static, str>,
}

impl InvalidValue {
    /// A fault whose message follows the field's name in a sentence: "must be …".
    pub fn new(code: FaultCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// A fault of the code [`FaultCode::BadFormat`].
    pub(crate) const fn bad_format(message: &'static str) -> Self {
        Self { code: FaultCode::BadFormat, message: Cow::Borrowed(message) }
    }

    /// A fault of the code [`FaultCode::NotAllowedValue`].
    pub(crate) fn not_allowed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(FaultCode::NotAllowedValue, message)
    }

    /// A fault of the code [`FaultCode::OutOfRange`].
    pub(crate) fn out_of_range(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(FaultCode::OutOfRange, message)
    }

    /// The kind of fault.
    pub const fn code(&self) -> FaultCode {
        self.code
    }

    /// Adds the name of the field.
    #[must_use]
    pub fn at(self, field: impl Into<Cow<'static, str>>) -> Fault {
        Fault { field: field.into(), code: self.code, message: self.message }
    }
}

/// An error in one field of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The field's name: `variants[2]` for an element of a list, `metadata.campaign` for a key of metadata, an empty
    /// text for the whole input.
    pub field: Cow<'static, str>,
    /// The kind of fault.
    pub code: FaultCode,
    /// The rest of a sentence for people, which begins with the field's name: "must be …".
    pub message: Cow<'static, str>,
}

/// All faults of an input. An error has at least one fault.
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

    /// `Ok` if there are no faults.
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
