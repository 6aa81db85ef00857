//! The states of a payment and the moves between them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::values::faults::InvalidValue;
use crate::values::states::{self, InvalidTransition, Row, reads_and_writes_as_state};

#[doc = include_str!("transitions.md")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaymentStatus {
    /// Asked for.
    Pending,
    /// Under way at the provider.
    Processing,
    /// Paid.
    Succeeded,
    /// Refused; it may be tried again.
    Failed,
    /// Given up before it was paid.
    Canceled,
    /// Paid, and a part of it given back.
    PartiallyRefunded,
    /// Paid, and all of it given back.
    Refunded,
    /// Paid, and claimed back by the payer's bank.
    Disputed,
}

use PaymentStatus::{
    Canceled, Disputed, Failed, PartiallyRefunded, Pending, Processing, Refunded, Succeeded,
};

static TABLE: [Row<PaymentStatus>; 8] = [
    Row {
        state: Pending,
        name: "pending",
        aliases: &["open", "requires_action"],
        next: &[Processing, Succeeded, Failed, Canceled],
    },
    Row {
        state: Processing,
        name: "processing",
        aliases: &[],
        next: &[Succeeded, Failed, Canceled],
    },
    Row {
        state: Succeeded,
        name: "succeeded",
        aliases: &["paid", "success", "completed", "settled", "captured"],
        next: &[PartiallyRefunded, Refunded, Disputed, Failed],
    },
    Row {
        state: Failed,
        name: "failed",
        aliases: &["declined", "error"],
        next: &[Pending, Processing, Succeeded, Canceled],
    },
    Row { state: Canceled, name: "canceled", aliases: &["void", "voided", "cancelled"], next: &[] },
    Row {
        state: PartiallyRefunded,
        name: "partially_refunded",
        aliases: &[],
        next: &[Refunded, Disputed],
    },
    Row { state: Refunded, name: "refunded", aliases: &[], next: &[] },
    Row {
        state: Disputed,
        name: "disputed",
        aliases: &["chargeback"],
        next: &[Succeeded, PartiallyRefunded, Refunded],
    },
];

reads_and_writes_as_state!(PaymentStatus);

impl PaymentStatus {
    /// True if money has changed hands.
    pub fn is_settled(self) -> bool {
        match self {
            Succeeded | PartiallyRefunded | Refunded | Disputed => true,
            Pending | Processing | Failed | Canceled => false,
        }
    }

    /// Checks the step to another state; the same state again is no step.
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
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_the_enum() {
        for (nth, row) in TABLE.iter().enumerate() {
            assert_eq!(row.state as usize, nth, "{}", row.name);
        }
    }

    #[test]
    fn the_documentation_shows_the_table() {
        let documented = include_str!("transitions.md");

        assert!(documented.contains(&states::markdown(&TABLE)), "{}", states::markdown(&TABLE));
    }

    #[test]
    fn every_name_and_alias_is_read_in_any_case() {
        for row in &TABLE {
            for given in std::iter::once(&row.name).chain(row.aliases) {
                assert_eq!(given.parse(), Ok(row.state), "{given}");
                assert_eq!(given.to_uppercase().parse(), Ok(row.state), "{given}");
            }
            assert_eq!(row.state.to_string(), row.name);
        }
        assert!("lost".parse::<PaymentStatus>().is_err());
    }
}
