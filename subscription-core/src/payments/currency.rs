//! Currencies of ISO 4217.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::values::faults::{FaultCode, InvalidValue};

/// A currency that can be paid in: a code of ISO 4217 that is in use and has a smallest unit.
///
/// It is read in any case and written in upper case. Metals, test codes and the like (`XAU`, `XXX`)
/// have no smallest unit and are refused, as are codes that were withdrawn (`HRK`, `BGN`).
///
/// ```
/// use subscription_core::Currency;
///
/// let yen: Currency = "jpy".parse()?;
/// assert_eq!(yen.to_string(), "JPY");
/// assert_eq!(yen.digits(), 0);
/// # Ok::<(), subscription_core::InvalidValue>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency {
    code: iso_currency::Currency,
    digits: u16,
}

/// Codes that the crate still knows, but ISO 4217 has withdrawn.
const WITHDRAWN: [&str; 9] = ["ANG", "BGN", "CUC", "HRK", "SLL", "USS", "VEF", "XEU", "ZWL"];

impl Currency {
    /// The three letters.
    pub fn code(self) -> &'static str {
        self.code.code()
    }

    /// How many digits after the point an amount may have.
    pub const fn digits(self) -> u32 {
        self.digits as u32
    }
}

impl FromStr for Currency {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let code = text.trim().to_ascii_uppercase();
        iso_currency::Currency::from_code(&code)
            .filter(|code| !WITHDRAWN.contains(&code.code()))
            .and_then(|code| Some(Self { code, digits: code.exponent()? }))
            .ok_or_else(|| {
                InvalidValue::new(
                    FaultCode::NotAllowedValue,
                    "must be the ISO 4217 code of a currency in use, such as USD",
                )
            })
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_iso_4217() {
        for (code, digits) in [
            ("USD", 2),
            ("eur", 2),
            ("Jpy", 0),
            ("ISK", 0),
            ("KRW", 0),
            ("BHD", 3),
            ("KWD", 3),
            ("CLF", 4),
            ("HUF", 2),
            ("MGA", 2),
        ] {
            let currency: Currency = code.parse().unwrap();

            assert_eq!(currency.digits(), digits, "{code}");
            assert_eq!(currency.to_string(), code.to_uppercase());
            assert_eq!(format!("{currency:?}"), code.to_uppercase());
        }
    }

    #[test]
    fn refuses_what_cannot_be_paid_in() {
        for code in ["", "US", "USDX", "ABC", "U$D", "ＵＳＤ", "XAU", "XXX", "XTS", "BGN", "HRK"]
        {
            let refused = code.parse::<Currency>().unwrap_err();

            assert_eq!(refused.code(), FaultCode::NotAllowedValue, "{code}");
        }
    }
}
