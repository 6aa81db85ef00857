//! The reduction of a price by a discount.

use std::str::FromStr;

use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Serialize};

use crate::values::{Amount, Currency, InvalidValue};

/// A percentage: 0.01 to 100, with at most two digits after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Amount")]
pub struct Percent(Amount);

impl Percent {
    /// The percentage as a number, for calculations.
    pub const fn value(self) -> Decimal {
        self.0.value()
    }
}

impl TryFrom<Amount> for Percent {
    type Error = InvalidValue;

    fn try_from(amount: Amount) -> Result<Self, InvalidValue> {
        let is_in_range = !amount.is_zero() && amount.value() <= Decimal::ONE_HUNDRED;
        if is_in_range && amount.fraction_digits() <= 2 {
            return Ok(Self(amount));
        }
        let message = "must be from 0.01 to 100, with at most two digits after the point";
        Err(InvalidValue::out_of_range(message))
    }
}

impl FromStr for Percent {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        text.parse::<Amount>()?.try_into()
    }
}

/// The reduction of the price of each period by a discount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// A percentage of price times quantity.
    Percent(Percent),
    /// An amount, whatever the quantity.
    Amount(Amount),
}

impl Reduction {
    /// The amount taken off `gross`, the price of a whole period; it is at most `gross`. A percentage is rounded half
    /// to even at the digits of the currency.
    pub fn of(self, gross: Amount, currency: Currency) -> Amount {
        let digits = currency.digits();
        let off = match self {
            Self::Amount(amount) => amount.value(),
            Self::Percent(percent) => {
                // The calculation is exact: `gross` has at most 21 digits and `percent` at most 5, so their product
                // fits into a `Decimal`, even with two more digits after the point.
                let hundredths = gross.value().saturating_mul(percent.value());
                let exact = hundredths.saturating_mul(Decimal::new(1, 2));
                exact.round_dp_with_strategy(digits, RoundingStrategy::MidpointNearestEven)
            }
        };
        let off = Amount::try_from(off.min(gross.value())).unwrap_or(gross);
        off.with_digits(digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off(reduction: Reduction, gross: &str, currency: &str) -> String {
        reduction.of(gross.parse().unwrap(), currency.parse().unwrap()).to_string()
    }

    #[test]
    fn a_reduction_is_rounded_once_and_is_at_most_the_price() {
        let percent = |text: &str| Reduction::Percent(text.parse().unwrap());
        let amount = |text: &str| Reduction::Amount(text.parse().unwrap());
        for (reduction, gross, currency, expected) in [
            (percent("33.33"), "1000", "JPY", "333"),
            (percent("12.5"), "100", "JPY", "12"),
            (percent("37.5"), "100", "JPY", "38"),
            (percent("50"), "1", "JPY", "0"),
            (percent("15"), "4.550", "BHD", "0.682"),
            (percent("0.01"), "999999999999999.99", "USD", "100000000000.00"),
            (percent("100"), "19.99", "USD", "19.99"),
            (amount("5"), "12.00", "USD", "5.00"),
            (amount("25.00"), "10.00", "USD", "10.00"),
        ] {
            assert_eq!(off(reduction, gross, currency), expected, "{reduction:?} of {gross}");
        }
    }

    #[test]
    fn a_percentage_has_a_range_and_two_digits() {
        for text in ["0", "0.00", "100.001", "100.01", "1e9", "-1", "0.005", "101"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
        for text in ["0.01", "100", "100.00", "33.33"] {
            assert!(text.parse::<Percent>().is_ok(), "{text}");
        }
    }
}
