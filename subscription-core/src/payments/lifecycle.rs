//! The states of a payment and the transitions between them.

use crate::values::states::{self, reads_and_writes_as_state, row};
use crate::values::{InvalidTransition, InvalidValue, Row};

#[doc = include_str!("transitions.md")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaymentStatus {
    /// Requested and not yet paid.
    Pending,
    /// In progress at the payment provider.
    Processing,
    /// Paid.
    Succeeded,
    /// Declined; it may be retried.
    Failed,
    /// Abandoned before it was paid.
    Canceled,
    /// Paid, then refunded in part.
    PartiallyRefunded,
    /// Paid, then refunded in full.
    Refunded,
    /// Paid, then claimed back by the payer's bank (a chargeback).
    Disputed,
}

use PaymentStatus::{
    Canceled, Disputed, Failed, PartiallyRefunded, Pending, Processing, Refunded, Succeeded,
};

static TABLE: [Row<PaymentStatus>; 8] = [
    row(
        Pending,
        "pending",
        &["open", "requires_action"],
        &[Processing, Succeeded, Failed, Canceled],
    ),
    row(Processing, "processing", &[], &[Succeeded, Failed, Canceled]),
    row(
        Succeeded,
        "succeeded",
        &["paid", "success", "completed", "settled", "captured"],
        &[PartiallyRefunded, Refunded, Disputed, Failed],
    ),
    row(Failed, "failed", &["declined", "error"], &[Pending, Processing, Succeeded, Canceled]),
    row(Canceled, "canceled", &["void", "voided", "cancelled"], &[]),
    row(PartiallyRefunded, "partially_refunded", &[], &[Refunded, Disputed]),
    row(Refunded, "refunded", &[], &[]),
    row(Disputed, "disputed", &["chargeback"], &[Succeeded, PartiallyRefunded, Refunded]),
];

reads_and_writes_as_state!(PaymentStatus);

impl PaymentStatus {
    /// True if the payment was paid, even if it was refunded or disputed since.
    pub fn is_settled(self) -> bool {
        match self {
            Succeeded | PartiallyRefunded | Refunded | Disputed => true,
            Pending | Processing | Failed | Canceled => false,
        }
    }

    /// Checks the transition to another state; to stay in the same state is always allowed.
    pub fn step(self, to: Self) -> Result<(), InvalidTransition> {
        if self == to || self.next().contains(&to) {
            return Ok(());
        }
        Err(InvalidTransition {
            record: "payment",
            from: self.as_str(),
            to: to.as_str(),
            allowed: self.next().iter().map(|next| next.as_str()).collect(),
        })
    }
}

#[cfg(test)]
#[test]
fn the_table_is_in_order_and_documented() {
    states::check_table(&TABLE, include_str!("transitions.md"));
}
