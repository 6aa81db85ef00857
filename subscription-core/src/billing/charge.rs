//! The amounts of billing: what a period and a change of plan cost. Only this module computes amounts; all other code
//! copies the lines that it returns.
//!
//! Each product is rounded once, half to even, at the digits of the currency.

#![warn(clippy::arithmetic_side_effects)]

use rust_decimal::Decimal;

use super::outcome::excess;
use crate::payments::{Line, LineKind};
use crate::subscriptions::{Discount, Subscription, Terms};
use crate::values::{Amount, Currency, Timestamp};

/// The price of a whole period, and the discount that reduces it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Price {
    /// Price times quantity.
    gross: Amount,
    reduction: Amount,
    currency: Currency,
    /// The discount of the subscription once the period has begun. If it reduces the price of this period, its `used`
    /// includes this period.
    discount: Option<Discount>,
}

impl Price {
    /// The price of a period at these terms without a discount; `None` if it has too many digits for an amount.
    pub(super) fn of(terms: &Terms) -> Option<Self> {
        let Terms { price, quantity, currency, .. } = *terms;
        let gross = scaled(price.times(quantity.get())?, 1, 1, currency)?;
        let reduction = Amount::ZERO.with_digits(currency.digits());
        Some(Self { gross, reduction, currency, discount: None })
    }

    /// The price of a new period. A discount that has no periods left is dropped. If the discount reduces the price,
    /// the period counts as one of the discount's periods.
    pub(super) fn of_new_period(terms: &Terms, discount: Option<Discount>) -> Option<Self> {
        let price = Self::of(terms)?;
        let Some(discount) = discount.filter(|it| it.periods_left() != Some(0)) else {
            return Some(price);
        };
        let reduction = discount.off.of(price.gross, price.currency);
        let applied = !reduction.is_zero();
        let used = discount.used.saturating_add(applied.into());
        Some(Self { reduction, discount: Some(Discount { used, applied, ..discount }), ..price })
    }

    /// The price of the running period at these terms, less the discount if the discount applies to the running period.
    pub(super) fn of_running_period(terms: &Terms, discount: Option<Discount>) -> Option<Self> {
        let price = Self::of(terms)?;
        let applied = discount.filter(|it| it.applied);
        let reduction =
            applied.map_or(price.reduction, |it| it.off.of(price.gross, price.currency));
        Some(Self { reduction, discount, ..price })
    }

    /// The value of the whole period: its price less the discount.
    pub(super) fn value(self) -> Amount {
        excess(self.gross, self.reduction)
    }

    /// True if the running period is free because of its discount.
    pub(super) fn is_free_by_discount(self) -> bool {
        !self.reduction.is_zero() && self.value().is_zero()
    }

    fn zero(self) -> Amount {
        Amount::ZERO.with_digits(self.currency.digits())
    }
}

/// The rest of the running period: the seconds that are left, and the seconds of the whole period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    left: u64,
    whole: u64,
    /// The value of the whole period, as it was paid.
    paid: Amount,
}

impl Rest {
    /// The rest of the running period at a moment; `None` if the period has no end.
    pub(super) fn at(at: Timestamp, subscription: &Subscription, paid: Amount) -> Option<Self> {
        let (start, end) = subscription.current_period_start().zip(subscription.renews_at)?;
        let whole = end.since(start).as_secs();
        Some(Self { left: end.since(at).as_secs().min(whole), whole, paid })
    }

    /// The part of `value`, the price of a whole period, that pays for this rest of the period.
    fn part(self, value: Amount, currency: Currency) -> Option<Amount> {
        scaled(value, self.left, self.whole, currency)
    }
}

/// An amount to pay, and the lines that add up to it.
#[derive(Debug, Clone)]
pub(super) struct Charge {
    pub(super) lines: Vec<Line>,
    /// The value of a whole period: the price less the discount, before credit is used.
    pub(super) value: Amount,
    /// The amount to pay.
    pub(super) amount: Amount,
    /// The credit of the subscription after this charge.
    pub(super) credit_after: Amount,
    /// The discount of the subscription after this charge.
    pub(super) discount: Option<Discount>,
}

impl Charge {
    /// The charge for a whole period.
    pub(super) fn of_period(price: Price, credit: Amount) -> Self {
        let value = price.value();
        let (amount, credit_after) = after_credit(value, credit);
        let balance = excess(value, amount);
        let lines = lines(LineKind::Period, price.gross, price.reduction, price.zero(), balance);
        Self { lines, value, amount, credit_after, discount: price.discount }
    }

    /// The charge of a change within the running period: the rest of the period at the new price, less the unused part
    /// of the old price. `None` if the credit would have too many digits.
    pub(super) fn of_change(price: Price, rest: Option<Rest>, credit: Amount) -> Option<Self> {
        let part = |value| rest.and_then(|rest| rest.part(value, price.currency));
        let gross = part(price.gross).unwrap_or(price.zero());
        let net = part(price.value()).unwrap_or(price.zero());
        Self::settled(price, LineKind::Change, (gross, net), rest, credit)
    }

    /// The charge of a change that starts a new period: the whole new period, less the unused part of the old one.
    /// `None` if the credit would have too many digits.
    pub(super) fn of_restart(price: Price, rest: Option<Rest>, credit: Amount) -> Option<Self> {
        Self::settled(price, LineKind::Period, (price.gross, price.value()), rest, credit)
    }

    /// No charge: nothing is paid or credited for the running period.
    pub(super) fn none(price: Price, credit: Amount) -> Self {
        Self {
            lines: Vec::new(),
            value: price.value(),
            amount: price.zero(),
            credit_after: credit,
            discount: price.discount,
        }
    }

    fn settled(
        price: Price,
        kind: LineKind,
        (gross, net): (Amount, Amount),
        rest: Option<Rest>,
        credit: Amount,
    ) -> Option<Self> {
        let unused = rest.and_then(|rest| rest.part(rest.paid, price.currency));
        let unused = unused.unwrap_or(price.zero());
        let due = excess(net, unused);
        let (amount, left) = after_credit(due, credit);
        let given = excess(unused, net);
        let credit_after = left.value().checked_add(given.value())?.try_into().ok()?;
        let lines = lines(kind, gross, excess(gross, net), unused, excess(due, amount));
        Some(Self { lines, value: price.value(), amount, credit_after, discount: price.discount })
    }
}

/// The lines of a charge. Lines that would subtract 0 are left out.
fn lines(
    kind: LineKind,
    gross: Amount,
    discount: Amount,
    unused: Amount,
    balance: Amount,
) -> Vec<Line> {
    let off =
        [(LineKind::Discount, discount), (LineKind::Unused, unused), (LineKind::Balance, balance)];
    let off = off.into_iter().filter(|(_, amount)| !amount.is_zero());
    let all = std::iter::once((kind, gross)).chain(off);
    all.map(|(kind, amount)| Line { kind, amount }).collect()
}

/// The part of a value that the credit does not cover, and the rest of the credit.
fn after_credit(value: Amount, credit: Amount) -> (Amount, Amount) {
    let used = value.value().min(credit.value());
    if used.is_zero() {
        return (value, credit);
    }
    // Both differences are exact, and neither is negative.
    let less = |amount: Amount| Amount::try_from(amount.value().checked_sub(used)?).ok();
    less(value).zip(less(credit)).unwrap_or((value, credit))
}

/// The value of a whole period, if a part of it costs `amount`. `part` and `whole` are the lengths of the part and of
/// the whole period in seconds.
pub(super) fn whole_of(
    amount: Amount,
    part: u64,
    whole: u64,
    currency: Currency,
) -> Option<Amount> {
    scaled(amount, whole, part, currency)
}

/// `value` times `times`, divided by `by`, rounded half to even at the digits of the currency. `None` if `by` is 0,
/// or if the result has too many digits for an amount.
fn scaled(value: Amount, times: u64, by: u64, currency: Currency) -> Option<Amount> {
    let digits = currency.digits();
    let mut exact = value.value();
    exact.rescale(Amount::FRACTION_DIGITS_MAX);
    // A value has at most 21 digits and a time in seconds at most 12, so their product fits into 128 bits.
    let dividend = exact.mantissa().checked_mul(times.into())?;
    let units = 10_i128.checked_pow(Amount::FRACTION_DIGITS_MAX.checked_sub(digits)?)?;
    let divisor = i128::from(by).checked_mul(units)?;
    let down = dividend.checked_div(divisor)?;
    let left = dividend.checked_rem(divisor)?;
    // A remainder (`left`) of more than half of the divisor rounds the result up. A remainder of exactly half does so
    // only if the result is then even.
    let is_up = left.checked_mul(2)?.checked_add(down & 1)? > divisor;
    let rounded = down.checked_add(is_up.into())?;
    Decimal::try_from_i128_with_scale(rounded, digits).ok()?.try_into().ok()
}
