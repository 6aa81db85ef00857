//! The amounts of billing, computed without its rules: the lines of a period and of a change of plan, from the record
//! before the step.

use rust_decimal::{Decimal, RoundingStrategy};
use subscription_core::plans::Reduction;
use subscription_core::subscriptions::Terms;
use subscription_core::{
    BillingState, Discount, Line, LineKind, NewDiscount, Quote, Subscription, Timestamp,
};

/// A line: its kind and its amount.
pub type Row = (LineKind, Decimal);

/// An amount with its lines, and the state of the subscription after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charged {
    pub lines: Vec<Row>,
    /// The value of the period: after the discount, before the balance.
    pub value: Decimal,
    pub amount: Decimal,
    pub credit: Decimal,
    pub discount: Option<Discount>,
    /// True if a change of plan starts a new period.
    pub restarts: bool,
}

/// The price of a whole period, the amount that the discount takes off it, and the discount afterwards.
#[derive(Debug, Clone, Copy)]
struct Price {
    gross: Decimal,
    reduction: Decimal,
    discount: Option<Discount>,
}

impl Price {
    /// The price of a new period. A discount with no period left is dropped. The period is counted as used if the
    /// discount reduces it.
    fn of_new_period(terms: &Terms, discount: Option<Discount>) -> Self {
        let left = discount.filter(|it| it.periods.is_none_or(|periods| it.used < periods));
        let gross = gross(terms);
        let reduction = left.map_or(Decimal::ZERO, |it| reduction(it.off, gross, digits(terms)));
        let applied = !reduction.is_zero();
        let counted = |it: Discount| Discount { used: it.used + u32::from(applied), applied, ..it };
        Self { gross, reduction, discount: left.map(counted) }
    }

    /// The price of the running period at these terms, reduced if the discount has reduced the period.
    fn of_running_period(terms: &Terms, discount: Option<Discount>) -> Self {
        let gross = gross(terms);
        let applied = discount.filter(|it| it.applied);
        let reduction = applied.map_or(Decimal::ZERO, |it| reduction(it.off, gross, digits(terms)));
        Self { gross, reduction, discount }
    }

    fn value(self) -> Decimal {
        self.gross - self.reduction
    }
}

/// Price times quantity.
pub fn gross(terms: &Terms) -> Decimal {
    terms.price.value() * Decimal::from(terms.quantity.get())
}

fn digits(terms: &Terms) -> u32 {
    terms.currency.digits()
}

/// The amount that a discount takes off the price of a whole period.
pub fn reduction(off: Reduction, gross: Decimal, digits: u32) -> Decimal {
    match off {
        Reduction::Amount(amount) => amount.value().min(gross),
        Reduction::Percent(percent) => {
            rounded(gross * percent.value() / Decimal::ONE_HUNDRED, digits)
        }
    }
}

fn rounded(exact: Decimal, digits: u32) -> Decimal {
    exact.round_dp_with_strategy(digits, RoundingStrategy::MidpointNearestEven)
}

/// The discount of a new subscription before its first period.
pub fn unused(discount: Discount) -> Discount {
    Discount { used: 0, applied: false, ..discount }
}

/// True if the discount makes a period at these terms free.
pub fn is_free_by(discount: Discount, terms: &Terms) -> bool {
    let gross = gross(terms);
    !gross.is_zero() && reduction(discount.off, gross, digits(terms)) == gross
}

/// The charge for a new period. `discount` and `credit` are those before it.
pub fn of_period(terms: &Terms, discount: Option<Discount>, credit: Decimal) -> Charged {
    let price = Price::of_new_period(terms, discount);
    charged(price, LineKind::Period, (price.gross, price.value()), Decimal::ZERO, credit)
}

/// The charge for the period that starts after `before`, at its terms.
pub fn of_next_period(before: &Subscription) -> Option<Charged> {
    Some(of_period(&before.terms()?, before.discount(), credit(before)))
}

/// The charge of a change of plan that settles the running period of `before` at a moment.
pub fn of_change(before: &Subscription, new: &Terms, at: Timestamp) -> Option<Charged> {
    let old = before.terms()?;
    let paid = before.billing.as_deref()?.period_value.value();
    let discount = before.discount().filter(|_| keeps_discount(&old, new));
    let running = Price::of_running_period(new, discount);
    let is_free =
        paid.is_zero() && !before.discount().is_some_and(|it| it.applied && is_free_by(it, &old));
    let restarts = old.billing_cycle != new.billing_cycle
        || before.renews_at.is_none()
        || is_free && !running.value().is_zero();
    let rest = |value| rest(before, value, at, digits(new));
    let (price, kind, parts) = if restarts {
        let price = Price::of_new_period(new, discount);
        (price, LineKind::Period, (price.gross, price.value()))
    } else {
        (running, LineKind::Change, (rest(running.gross), rest(running.value())))
    };
    let charged = charged(price, kind, parts, rest(paid), credit(before));
    Some(Charged { restarts, ..charged })
}

/// True if a discount stays after a change of the terms.
pub fn keeps_discount(old: &Terms, new: &Terms) -> bool {
    let of = |terms: &Terms| (terms.subscription_plan_id, terms.billing_cycle, terms.currency);
    of(old) == of(new)
}

pub fn credit(subscription: &Subscription) -> Decimal {
    subscription.credit().unwrap_or_default().value()
}

/// The part of the value of a period that pays for its rest.
fn rest(before: &Subscription, value: Decimal, at: Timestamp, digits: u32) -> Decimal {
    let Some((start, end)) = before.current_period_start().zip(before.renews_at) else {
        return Decimal::ZERO;
    };
    let seconds = |from: Timestamp| Decimal::from(end.since(from).as_secs());
    rounded(value * seconds(at) / seconds(start), digits)
}

/// A charge with its lines. `net` is the part of `gross` that the discount leaves.
fn charged(
    price: Price,
    kind: LineKind,
    (gross, net): (Decimal, Decimal),
    unused: Decimal,
    credit: Decimal,
) -> Charged {
    let due = (net - unused).max(Decimal::ZERO);
    let balance = due.min(credit);
    let given = (unused - net).max(Decimal::ZERO);
    let off = [
        (LineKind::Discount, gross - net),
        (LineKind::Unused, unused),
        (LineKind::Balance, balance),
    ];
    let off = off.into_iter().filter(|(_, amount)| !amount.is_zero());
    Charged {
        lines: std::iter::once((kind, gross)).chain(off).collect(),
        value: price.value(),
        amount: due - balance,
        credit: credit - balance + given,
        discount: price.discount,
        restarts: false,
    }
}

/// Lines as rows.
pub fn rows(lines: &[Line]) -> Vec<Row> {
    lines.iter().map(|line| (line.kind, line.amount.value())).collect()
}

/// The amount of the line of this kind, or 0.
pub fn line(lines: &[Row], kind: LineKind) -> Decimal {
    lines.iter().find(|(of, _)| *of == kind).map_or(Decimal::ZERO, |(_, amount)| *amount)
}

/// The sum of lines.
pub fn sum(lines: &[Row]) -> Decimal {
    let signed = |(kind, amount): &Row| match kind {
        LineKind::Period | LineKind::Change => *amount,
        LineKind::Discount | LineKind::Unused | LineKind::Balance => -*amount,
    };
    lines.iter().map(signed).sum()
}

/// True if the lines of a quote add up to the amount due, less the credit that the change adds.
pub fn adds_up(quote: &Quote) -> bool {
    let added = quote.credit_after.value() - quote.credit_before.value();
    let expected = quote.amount_due.value() - added.max(Decimal::ZERO);
    quote.lines.is_empty() || sum(&rows(&quote.lines)) == expected
}

/// The reduction by the discount that a payment with these lines must name; `None` if no line is of a discount.
pub fn off_by(lines: &[Row], discount: Option<Discount>) -> Option<Reduction> {
    discount.filter(|_| !line(lines, LineKind::Discount).is_zero()).map(|it| it.off)
}

/// A percentage for a number of periods, or for ever.
pub fn percent(percent: &str, periods: Option<u32>) -> NewDiscount {
    NewDiscount { off: Reduction::Percent(percent.parse().unwrap()), periods }
}

/// An amount for a number of periods, or for ever.
pub fn amount(amount: &str, periods: Option<u32>) -> NewDiscount {
    NewDiscount { off: Reduction::Amount(amount.parse().unwrap()), periods }
}

/// Sets the value of the running period as if it had cost its full price.
pub fn forget_reduction(billing: &mut BillingState, terms: &Terms) {
    if let Ok(gross) = gross(terms).try_into() {
        billing.period_value = gross;
    }
}
