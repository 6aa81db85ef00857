//! The part of a payment that says which period it pays for, and when it is to be collected.

use serde::{Deserialize, Serialize};

use super::PaymentStatus;
use crate::plans::BillingCycle;
use crate::values::as_text::named_enum;
use crate::values::clock::Timestamp;
use crate::values::decimal::Amount;

named_enum! {
    /// The purpose of a payment.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum PaymentKind {
        /// The first period of a subscription.
        Initial = "initial",
        /// A later period.
        Renewal = "renewal",
        /// A change of the plan or the quantity within a period.
        Proration = "proration",
    }
}

/// The period that a payment pays for, and when it is to be collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The purpose of the payment.
    pub kind: PaymentKind,
    /// The start of the period that it pays for.
    pub period_start: Timestamp,
    /// The end of that period; `None` if it has none.
    pub period_end: Option<Timestamp>,
    /// From when on the payment is to be collected.
    pub due_at: Timestamp,
    /// The number of the attempt to collect it, from 1.
    pub attempt: u32,
    /// When a failed payment is to be collected again; `None` if it is not.
    pub next_attempt_at: Option<Timestamp>,
    /// The number of attempts that were made by the schedule of retries. Not shown.
    pub retries: u32,
    /// The price of the whole period, before credit. Not shown.
    pub value: Amount,
    /// The billing cycle of the period. Not shown.
    pub cycle: BillingCycle,
}

impl Asked {
    /// The start of the period, if no other payment may ask for it: for a proration several may.
    pub fn whole_period(&self) -> Option<Timestamp> {
        (self.kind != PaymentKind::Proration).then_some(self.period_start)
    }
}

impl super::Payment {
    /// From when on the payment is to be collected; `None` if it pays for no period.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.asked.as_ref().map(|asked| asked.due_at)
    }

    /// The number of the attempt to collect it, from 1; `None` if it pays for no period.
    pub fn attempt(&self) -> Option<u32> {
        self.asked.as_ref().map(|asked| asked.attempt)
    }

    /// When a failed payment is to be collected again.
    pub fn next_attempt_at(&self) -> Option<Timestamp> {
        self.asked.as_ref().and_then(|asked| asked.next_attempt_at)
    }

    /// When something is to be done about the payment: collecting it while it is pending or processing, retrying
    /// it while it has failed. `None` for all other payments, and for those that pay for no period.
    pub fn action_at(&self) -> Option<Timestamp> {
        let asked = self.asked.as_ref()?;
        match self.status {
            PaymentStatus::Pending | PaymentStatus::Processing => Some(asked.due_at),
            PaymentStatus::Failed => asked.next_attempt_at,
            PaymentStatus::Succeeded
            | PaymentStatus::Canceled
            | PaymentStatus::PartiallyRefunded
            | PaymentStatus::Refunded
            | PaymentStatus::Disputed => None,
        }
    }

    /// The start of the period, if no other payment may ask for it unless this one is canceled.
    pub(crate) fn whole_period(&self) -> Option<Timestamp> {
        self.asked.as_ref().and_then(|asked| asked.whole_period())
    }

    /// The start of the period that no other payment of the subscription may ask for: that of an initial or a
    /// renewal payment which is not canceled.
    pub fn claimed_period(&self) -> Option<Timestamp> {
        self.whole_period().filter(|_| self.status != PaymentStatus::Canceled)
    }

    /// True if the payment asks for a period and can still be canceled: it is pending or has failed.
    pub fn is_open(&self) -> bool {
        self.asked.is_some()
            && matches!(self.status, PaymentStatus::Pending | PaymentStatus::Failed)
    }

    /// True if collecting the payment has failed and has not succeeded since.
    pub fn is_behind(&self) -> bool {
        let Some(asked) = &self.asked else { return false };
        match self.status {
            PaymentStatus::Failed => true,
            PaymentStatus::Pending | PaymentStatus::Processing => asked.attempt > 1,
            PaymentStatus::Succeeded
            | PaymentStatus::Canceled
            | PaymentStatus::PartiallyRefunded
            | PaymentStatus::Refunded
            | PaymentStatus::Disputed => false,
        }
    }
}
