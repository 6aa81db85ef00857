//! The prices that the account sells.

use subscription_core::providers::ProviderKind;

/// A price (Stripe) or variant (Lemon Squeezy).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// The slug of our plan.
    pub slug: &'static str,
    /// The amount of one unit in the smallest unit of the currency.
    pub amount: i64,
    /// The currency in capital letters.
    pub currency: &'static str,
    /// The number of digits after the decimal point of the currency.
    pub digits: u32,
    /// The number of months in a period. 0 if the price is paid once.
    pub months: u32,
}

const fn price(
    slug: &'static str,
    amount: i64,
    currency: &'static str,
    digits: u32,
    months: u32,
) -> Price {
    Price { slug, amount, currency, digits, months }
}

/// All prices. Our service has a plan for each price except the last.
pub const PRICES: [Price; 5] = [
    price("monthly", 1_999, "USD", 2, 1),
    price("yearly", 19_900, "USD", 2, 12),
    price("monthly-yen", 500, "JPY", 0, 1),
    price("once", 4_900, "USD", 2, 0),
    price("unknown", 700, "EUR", 2, 1),
];

/// The index of the price that is paid once.
pub const ONE_TIME: usize = 3;

/// The index of the price for which our service has no plan.
pub const UNKNOWN: usize = 4;

impl Price {
    fn place(&self) -> usize {
        PRICES.iter().position(|price| price.slug == self.slug).unwrap_or_default()
    }

    /// The id of the price or variant.
    pub fn id(&self, kind: ProviderKind) -> String {
        match kind {
            ProviderKind::Stripe => format!("price_{}", self.slug.replace('-', "_")),
            ProviderKind::LemonSqueezy => (100 + self.place()).to_string(),
        }
    }

    /// The id of the product.
    pub fn product(&self, kind: ProviderKind) -> String {
        match kind {
            ProviderKind::Stripe => format!("prod_{}", self.slug.replace('-', "_")),
            ProviderKind::LemonSqueezy => (10 + self.place()).to_string(),
        }
    }

    /// An amount of this currency as a decimal number.
    pub fn decimal(&self, amount: i64) -> String {
        match self.digits {
            0 => amount.to_string(),
            _ => format!("{}.{:02}", amount / 100, amount % 100),
        }
    }
}
