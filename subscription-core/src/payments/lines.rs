//! The lines of an amount, and what they were computed from.

use serde::{Deserialize, Serialize};

use crate::plans::Reduction;
use crate::values::as_text::named_enum;
use crate::values::{Amount, PlanId};

named_enum! {
    /// The meaning of a line. Each line adds to the amount, or is taken off it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LineKind {
        /// Added: the price of a whole period.
        Period = "period",
        /// Added: the part of the new price that pays for the rest of the running period.
        Change = "change",
        /// Taken off: the reduction by the discount.
        Discount = "discount",
        /// Taken off: the unused part of what was paid for the running period.
        Unused = "unused",
        /// Taken off: the part that the credit of the subscription pays.
        Balance = "balance",
    }
}

/// A line of an amount: a part that is added to the amount or taken off it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The meaning of the line.
    pub kind: LineKind,
    /// The amount, which is never negative.
    pub amount: Amount,
}

/// The inputs from which the amount of a payment was computed, with its lines. It is stored with the payment and never
/// changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// The plan of the period.
    pub plan: PlanId,
    /// The price of one unit.
    pub price: Amount,
    /// The number of units.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub quantity: u32,
    /// The reduction of a whole period by the discount, if there is a `discount` line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discount: Option<Reduction>,
    /// The lines; empty if the only line is a `period` line with `price` as its amount.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lines: Vec<Line>,
}

impl Basis {
    /// The inputs of an amount that consists of these lines.
    pub fn new(
        plan: PlanId,
        price: Amount,
        quantity: u32,
        discount: Option<Reduction>,
        lines: Vec<Line>,
    ) -> Self {
        let mut basis = Self { plan, price, quantity, discount, lines: Vec::new() };
        if basis.lines() != lines {
            basis.lines = lines;
        }
        basis
    }

    /// The lines, which add up to the amount.
    pub fn lines(&self) -> Vec<Line> {
        if self.lines.is_empty() {
            return vec![Line { kind: LineKind::Period, amount: self.price }];
        }
        self.lines.clone()
    }
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(quantity: &u32) -> bool {
    *quantity == 1
}
