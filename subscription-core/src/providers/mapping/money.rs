//! Amounts of money. Providers send an amount as a whole number of smallest units, such as cents.
//!
//! The provider determines how many digits of this number are after the point, which is not always the number in ISO
//! 4217. Nothing is rounded.

use rust_decimal::Decimal;

use super::finding::Unmapped;
use super::read::JsonPath;
use crate::values::{Amount, Currency};

/// The currencies that Stripe counts in whole units.
const STRIPE_0: [&str; 15] = [
    "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF",
    "XOF", "XPF",
];
/// The currencies that Stripe counts in thousandths.
const STRIPE_3: [&str; 5] = ["BHD", "JOD", "KWD", "OMR", "TND"];

/// An amount of Stripe. ISK and UGX have no digits after the point, but Stripe sends them with two zeros.
pub(crate) fn stripe(units: i64, currency: Currency) -> Option<Amount> {
    let digits = match currency.code() {
        code if STRIPE_0.contains(&code) => 0,
        code if STRIPE_3.contains(&code) => 3,
        _ => 2,
    };
    amount(units, digits, currency)
}

/// An amount of Lemon Squeezy, with as many digits after the point as ISO 4217 defines for the currency. If the
/// currency does not have 2 digits, the amount must equal the formatted text (`¥1,000`), because the provider does not
/// say how many digits it uses.
pub(crate) fn lemon_squeezy(
    units: &JsonPath<'_>,
    currency: Currency,
    formatted: &JsonPath<'_>,
) -> Result<Amount, Unmapped> {
    let amount =
        amount(units.integer()?, currency.digits(), currency).ok_or_else(|| units.unreadable())?;
    if currency.digits() != 2 {
        let number = |c: &char| c.is_ascii_digit() || *c == '.';
        let shown: String = formatted.text()?.chars().filter(number).collect();
        if shown.parse::<Decimal>().ok() != Some(amount.value()) {
            return Err(Unmapped::CurrencyUnverified);
        }
    }
    Ok(amount)
}

/// The amount with as many digits after the point as the currency has; `None` if the value has more digits, is negative
/// or is too large.
fn amount(units: i64, digits: u32, currency: Currency) -> Option<Amount> {
    let mut value = Decimal::try_new(units, digits).ok()?;
    value.rescale(currency.digits());
    let exact = value == Decimal::try_new(units, digits).ok()?;
    exact.then(|| value.try_into().ok()).flatten()
}
