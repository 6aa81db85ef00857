//! The part of a payment that says which period it pays for, and when it is to be collected.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Basis, Line, PaymentStatus};
use crate::plans::BillingCycle;
use crate::values::as_text::named_enum;
use crate::values::{Amount, Timestamp};

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

/// The period that a payment pays for, and when it is to be collected. A field marked *not shown* is not part of the
/// API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedPayment {
    /// The purpose of the payment.
    pub kind: PaymentKind,
    /// The start of the period that the payment pays for.
    pub period_start: Timestamp,
    /// The end of the period that the payment pays for; `None` if the period has no end.
    pub period_end: Option<Timestamp>,
    /// The earliest moment at which the payment is to be collected.
    pub due_at: Timestamp,
    /// The number of the present attempt to collect the payment, from 1.
    pub attempt: u32,
    /// When a failed payment is to be collected again; `None` if it is not to be collected again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// The number of attempts that were made by the schedule of retries. Not shown.
    pub retries: u32,
    /// The price of the whole period, before credit; 0 if a caller created the payment, because the price is not
    /// known then. Not shown.
    pub value: Amount,
    /// The billing cycle of the period. Not shown.
    pub cycle: BillingCycle,
    /// True if a payment provider collects the payment. Then this service neither collects nor retries the payment,
    /// and another payment may be for the same period. Not shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mirrored: bool,
    /// True if the clock created the payment: its [charge key](super::Payment::charge_key) is derived from its period.
    /// Not shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_clock: bool,
    /// The inputs from which the amount was computed; `None` if the service did not compute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

impl RequestedPayment {
    /// The start of the period, if no other payment may be for the same period. `None` for a proration and for a
    /// payment of a provider: several of these may be for one period.
    pub fn whole_period(&self) -> Option<Timestamp> {
        (self.kind != PaymentKind::Proration && !self.mirrored).then_some(self.period_start)
    }
}

impl super::Payment {
    /// The period and the attempts of a payment that this service requests or retries: it pays for a period, and no
    /// provider collects it. `None` for any other payment.
    pub fn to_collect(&self) -> Option<&RequestedPayment> {
        self.asked.as_deref().filter(|asked| !asked.mirrored)
    }

    /// True if the payment pays for a period, and a provider collects it.
    pub fn is_mirrored(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.mirrored)
    }

    /// The key under which the payment is charged: `{charge_key}/{attempt}` is the idempotency key of an attempt at the
    /// payment gateway. `None` if the payment pays for no period, or if a provider collects it.
    ///
    /// If the clock requested the payment, the key is derived from the subscription, the kind and the start of the
    /// period (for a proration, the moment of the change). After a backup was restored, the clock may request the
    /// payment again. It then uses the same key, so the gateway does not charge again, but returns its first result.
    /// For any other payment, the key is the id of the payment.
    pub fn charge_key(&self) -> Option<Uuid> {
        let asked = self.to_collect()?;
        if !asked.by_clock {
            return Some(self.id.uuid());
        }
        let name = format!("{} {}", asked.kind, asked.period_start);
        Some(Uuid::new_v5(&self.subscription_id.uuid(), name.as_bytes()))
    }

    /// The lines that add up to the amount; `None` if the service did not compute the amount.
    pub fn lines(&self) -> Option<Vec<Line>> {
        Some(self.asked.as_ref()?.basis.as_ref()?.lines())
    }

    /// The purpose of the payment; `None` if it pays for no period.
    pub fn kind(&self) -> Option<PaymentKind> {
        self.asked.as_ref().map(|asked| asked.kind)
    }

    /// The start of the period that the payment pays for; `None` if it pays for no period.
    pub fn period_start(&self) -> Option<Timestamp> {
        self.asked.as_ref().map(|asked| asked.period_start)
    }

    /// The end of the period that the payment pays for; `None` if the period has no end, or if the payment pays for no
    /// period.
    pub fn period_end(&self) -> Option<Timestamp> {
        self.asked.as_ref().and_then(|asked| asked.period_end)
    }

    /// The earliest moment at which the payment is to be collected; `None` if it pays for no period, or if a provider
    /// collects it.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.to_collect().map(|asked| asked.due_at)
    }

    /// The number of the present attempt to collect the payment, from 1; `None` if the payment pays for no period, or
    /// if a provider collects it.
    pub fn attempt(&self) -> Option<u32> {
        self.to_collect().map(|asked| asked.attempt)
    }

    /// When a failed payment is to be collected again; `None` if it is not to be collected again.
    pub fn next_attempt_at(&self) -> Option<Timestamp> {
        self.to_collect().and_then(|asked| asked.next_attempt_at)
    }

    /// The time of the next action on the payment: it is collected while it is pending or processing, and retried while
    /// it has failed. `None` in every other status, for a payment that pays for no period, and for a payment that a
    /// provider collects.
    pub fn action_at(&self) -> Option<Timestamp> {
        let asked = self.to_collect()?;
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

    /// The start of the period, if the period may have only one payment that is not cancelled.
    pub(crate) fn whole_period(&self) -> Option<Timestamp> {
        self.asked.as_ref().and_then(|asked| asked.whole_period())
    }

    /// The start of the period that no other payment of the subscription may be for. `None` for a proration, for a
    /// cancelled payment and for a payment of a provider.
    pub fn claimed_period(&self) -> Option<Timestamp> {
        self.whole_period().filter(|_| self.status != PaymentStatus::Canceled)
    }

    /// True if the payment can still be cancelled: it is pending or has failed. False if it pays for no period, or if a
    /// provider collects it.
    pub fn is_open(&self) -> bool {
        self.to_collect().is_some()
            && matches!(self.status, PaymentStatus::Pending | PaymentStatus::Failed)
    }

    /// True if the payment is neither paid nor cancelled. False if it pays for no period, or if a provider collects it.
    pub fn is_unpaid(&self) -> bool {
        self.is_open() || self.to_collect().is_some() && self.status == PaymentStatus::Processing
    }

    /// True if an attempt to collect the payment has failed, and the payment was neither paid nor cancelled since then.
    /// False if it pays for no period, or if a provider collects it.
    pub fn is_behind(&self) -> bool {
        let Some(asked) = self.to_collect() else { return false };
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
