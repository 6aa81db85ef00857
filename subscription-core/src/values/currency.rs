//! Currencies of ISO 4217.

use std::fmt;
use std::str::FromStr;

use crate::values::as_text::written_as_text;
use crate::values::decimal::Amount;
use crate::values::faults::{Fault, InvalidValue};

/// A currency for payments: a code of ISO 4217 that is in use and has a smallest unit.
///
/// It is read in upper or lower case and written in upper case. Codes without a smallest unit (`XAU` for
/// gold, `XXX` for none) are refused, as are codes that were withdrawn (`HRK`, `BGN`).
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

/// Codes that the crate `iso_currency` has, although ISO 4217 has withdrawn them.
const WITHDRAWN: [&str; 9] = ["ANG", "BGN", "CUC", "HRK", "SLL", "USS", "VEF", "XEU", "ZWL"];

impl Currency {
    /// The code of three letters, in upper case.
    pub fn code(self) -> &'static str {
        self.code.code()
    }

    /// The largest number of digits after the point that an amount in this currency may have.
    pub const fn digits(self) -> u32 {
        self.digits as u32
    }

    /// Checks that `amount` has at most [`digits`](Self::digits) digits after the point. The fault names `field`.
    pub(crate) fn check_digits(self, amount: Amount, field: &'static str) -> Result<(), Fault> {
        let digits = self.digits();
        if amount.fraction_digits() > digits {
            let message = format!("must have at most {digits} digits after the point in {self}");
            return Err(InvalidValue::out_of_range(message).at(field));
        }
        Ok(())
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
                let message = "must be the ISO 4217 code of a currency in use, such as USD";
                InvalidValue::not_allowed(message)
            })
    }
}

written_as_text!(Currency, |currency| currency.code());

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
