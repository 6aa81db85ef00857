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
