//! Exact numbers: amounts of money digit for digit, and whole numbers in a range.
//!
//! A JSON number is read from its text and written as that text, never through a float. The text is checked
//! before it is parsed, so `1e999999` or a million digits are refused without costly work.

use std::fmt;
use std::str::FromStr;

use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

use crate::values::faults::{FaultCode, InvalidValue};

/// An exact decimal, not negative, of at most 15 digits before the point and 6 after it.
///
/// Two amounts are equal if they have the same digits: `0.1` and `0.10` have the same
/// [value](Amount::value), but are different amounts. In JSON an amount is a number with these digits; a
/// string with a number is accepted too. In a binary format an amount is a string.
///
/// ```
/// use subscription_core::Amount;
///
/// let price: Amount = "0.10".parse()?;
/// assert_eq!(serde_json::to_string(&price)?, "0.10");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Amount(Decimal);

impl Amount {
    /// The amount 0.
    pub const ZERO: Self = Self(Decimal::ZERO);

    const INTEGER_DIGITS_MAX: u32 = 15;
    pub(crate) const FRACTION_DIGITS_MAX: u32 = 6;
    /// The length of the longest text: all digits, the sign and the point.
    const TEXT_MAX: usize = (Self::INTEGER_DIGITS_MAX + Self::FRACTION_DIGITS_MAX) as usize + 2;

    /// The amount as a number, for calculations and comparisons by value.
    pub const fn value(self) -> Decimal {
        self.0
    }

    /// True for 0, with any number of digits.
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    /// The number of digits after the point, including zeros at the end.
    pub const fn fraction_digits(self) -> u32 {
        self.0.scale()
    }

    /// The product of the amount and `number`; `None` if the product has too many digits for an amount.
    pub fn times(self, number: u32) -> Option<Self> {
        self.0.checked_mul(number.into())?.try_into().ok()
    }

    /// This value with at least `digits` digits after the point: zeros are added if necessary. The value stays
    /// unchanged if it would then have too many digits for an amount.
    #[must_use]
    pub fn with_digits(self, digits: u32) -> Self {
        let mut value = self.0;
        value.rescale(digits.max(value.scale()));
        Self::try_from(value).unwrap_or(self)
    }

    fn out_of_range() -> InvalidValue {
        let message =
            "must be a number of at most 15 digits before the point and 6 after it, not negative";
        InvalidValue::out_of_range(message)
    }
}

impl FromStr for Amount {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let bad_format = || {
            let message = "must be a decimal number such as 19.99, without sign or exponent";
            InvalidValue::bad_format(message)
        };
        // A text that is longer than every allowed text is refused before it is parsed.
        if text.len() > Self::TEXT_MAX {
            return Err(Self::out_of_range());
        }
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (integer, fraction) = match unsigned.split_once('.') {
            Some((integer, fraction)) => (integer, Some(fraction)),
            None => (unsigned, None),
        };
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let leading_zero = integer.len() > 1 && integer.starts_with('0');
        if !digits(integer) || leading_zero || !fraction.is_none_or(digits) {
            return Err(bad_format());
        }
        if unsigned.len() != text.len()
            || integer.len() > Self::INTEGER_DIGITS_MAX as usize
            || fraction.is_some_and(|fraction| fraction.len() > Self::FRACTION_DIGITS_MAX as usize)
        {
            return Err(Self::out_of_range());
        }
        Decimal::from_str_exact(text).map(Self).map_err(|_| bad_format())
    }
}

impl TryFrom<Decimal> for Amount {
    type Error = InvalidValue;

    fn try_from(value: Decimal) -> Result<Self, InvalidValue> {
        let scale = value.scale();
        let fits = scale <= Self::FRACTION_DIGITS_MAX
            && !value.is_sign_negative()
            && value.mantissa() < 10_i128.pow(Self::INTEGER_DIGITS_MAX + scale);
        if fits { Ok(Self(value)) } else { Err(Self::out_of_range()) }
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.0.mantissa() == other.0.mantissa() && self.0.scale() == other.0.scale()
    }
}

impl Eq for Amount {}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            RawValue::from_string(self.to_string())
                .map_err(ser::Error::custom)?
                .serialize(serializer)
        } else {
            serializer.collect_str(self)
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let raw = Box::<RawValue>::deserialize(deserializer)?;
            let text = raw.get();
            // Digits need no escapes, so the text between the quotes is the number.
            let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            quoted.unwrap_or(text).parse().map_err(de::Error::custom)
        } else {
            String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
        }
    }
}

/// A whole number from 0 to `MAX`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct Bounded<const MAX: u64>(u64);

impl<const MAX: u64> Bounded<MAX> {
    /// The greatest allowed number.
    pub const MAX: u64 = MAX;

    /// The number, if it lies in the range.
    pub fn new(number: u64) -> Result<Self, InvalidValue> {
        if number <= MAX { Ok(Self(number)) } else { Err(Self::out_of_range()) }
    }

    /// The number as a plain integer.
    pub const fn get(self) -> u64 {
        self.0
    }

    fn out_of_range() -> InvalidValue {
        InvalidValue::out_of_range(format!("must be from 0 to {MAX}"))
    }
}

impl<const MAX: u64> FromStr for Bounded<MAX> {
    type Err = InvalidValue;

    /// Parses the text of a JSON number without fraction and exponent.
    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let number = whole_number(text)?;
        number.and_then(|number| Self::new(number).ok()).ok_or_else(Self::out_of_range)
    }
}

/// Parses the text of a JSON number without fraction and exponent. `None` if the number has a minus sign or does not
/// fit into 64 bits: then it is outside of every allowed range.
pub(crate) fn whole_number(text: &str) -> Result<Option<u64>, InvalidValue> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return Err(InvalidValue::new(FaultCode::WrongType, "must be a whole number"));
    }
    Ok(text.parse().ok())
}

impl<const MAX: u64> TryFrom<u64> for Bounded<MAX> {
    type Error = InvalidValue;

    fn try_from(number: u64) -> Result<Self, InvalidValue> {
        Self::new(number)
    }
}

impl<const MAX: u64> fmt::Display for Bounded<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<const MAX: u64> fmt::Debug for Bounded<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
