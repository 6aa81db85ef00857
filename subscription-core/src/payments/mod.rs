//! Payments for subscriptions, and their status.

mod check;
mod input;
mod lifecycle;
mod lines;
mod observed;
mod requested;
mod shown;

use serde::Deserialize;

pub use input::{NewPayment, PaymentChanges};
pub use lifecycle::PaymentStatus;
pub use lines::{Basis, Line, LineKind};
pub use observed::{ObservedPayment, ObservedPeriod, SettledDiffers};
pub use requested::{PaymentKind, RequestedPayment};

pub use crate::values::currency::Currency;

use crate::plans::BillingCycle;
use crate::values::{
    Amount, ExternalId, Fault, Faults, Field, InvalidTransition, InvalidValue, Metadata, PaymentId,
    SubscriptionId, Timestamp, Version,
};

/// A payment for a subscription.
///
/// Its JSON is the one that the API returns. A store must not store this JSON: it lacks `settled`, and reading it does
/// not restore `asked`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Payment {
    /// The payment's id, which never changes.
    pub id: PaymentId,
    /// The subscription that the payment pays for. It may have been deleted since.
    pub subscription_id: SubscriptionId,
    /// The amount: more than 0, with at most as many digits after the point as the currency has.
    pub amount: Amount,
    /// The currency of the amount.
    pub currency: Currency,
    /// The payment's id at the payment provider; unique where set.
    pub external_payment_id: Option<ExternalId>,
    /// The status of the payment.
    pub status: PaymentStatus,
    /// The keys and texts that the client attached to the record.
    pub metadata: Option<Metadata>,
    /// When the payment was created.
    pub created_at: Timestamp,
    /// When the record was last written.
    pub updated_at: Timestamp,
    /// The number of times that the record was written.
    pub version: Version,
    /// True once the payment was paid, even if it is refunded later. Then its subscription, amount and currency no
    /// longer change.
    #[serde(skip)]
    pub settled: bool,
    /// The period that the payment pays for, and when it is to be collected. `None` if it pays for neither a period
    /// nor a change of plan.
    #[serde(skip)]
    pub asked: Option<Box<RequestedPayment>>,
}

/// The reason why a payment cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PaymentRefused {
    /// The fields contradict each other.
    #[error(transparent)]
    Invalid(#[from] Faults),
    /// The lifecycle does not allow the transition.
    #[error(transparent)]
    Transition(#[from] InvalidTransition),
    /// The payment was paid: its subscription, amount and currency no longer change.
    #[error("the payment is settled: its {} cannot change", fields.join(", "))]
    Settled {
        /// The fields that the input would change.
        fields: Vec<&'static str>,
    },
    /// The payment pays for a period: its subscription, amount and currency cannot change.
    #[error("the payment is for a period: its {} cannot change", fields.join(", "))]
    OfPeriod {
        /// The fields that the input would change.
        fields: Vec<&'static str>,
    },
}

impl Payment {
    /// The new payment that the input describes; `cycle` is the billing cycle of its subscription.
    pub fn create(
        new: NewPayment,
        cycle: BillingCycle,
        id: PaymentId,
        now: Timestamp,
    ) -> Result<Self, Faults> {
        let mut faults = new.period_faults();
        check(new.amount, new.currency).unwrap_or_else(|fault| faults.push(fault));
        faults.into_result()?;
        let status = new.status.unwrap_or(PaymentStatus::Pending);
        let asked = new.kind.zip(new.period_start).map(|(kind, period_start)| RequestedPayment {
            kind,
            period_start,
            period_end: new.period_end,
            due_at: now,
            attempt: 1,
            next_attempt_at: new.next_attempt_at,
            retries: 0,
            // The price of the whole period cannot be taken from the amount: the amount may be reduced by credit, or
            // may be for another plan.
            value: Amount::ZERO,
            cycle,
            mirrored: false,
            by_clock: false,
            basis: None,
        });
        Ok(Self {
            id,
            subscription_id: new.subscription_id,
            amount: new.amount,
            currency: new.currency,
            external_payment_id: new.external_payment_id,
            status,
            metadata: new.metadata,
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
            settled: status.is_settled(),
            asked: asked.map(Box::new),
        })
    }

    /// The payment after `changes`, or `None` if they change nothing.
    pub fn change(
        &self,
        changes: PaymentChanges,
        now: Timestamp,
    ) -> Result<Option<Self>, PaymentRefused> {
        // The amount of a settled payment, or of one for a period, is fixed: it cannot change. The same number written
        // with other digits (19.9 for 19.90) is not a change.
        let is_fixed = self.settled || self.asked.is_some();
        let same = |amount: &Amount| is_fixed && amount.value() == self.amount.value();
        let status = changes.status.unwrap_or(self.status);
        let asked = self.asked_after(status, changes.next_attempt_at)?;
        let next = Self {
            subscription_id: changes.subscription_id.unwrap_or(self.subscription_id),
            amount: changes.amount.filter(|amount| !same(amount)).unwrap_or(self.amount),
            currency: changes.currency.unwrap_or(self.currency),
            external_payment_id: changes.external_payment_id.or(self.external_payment_id.clone()),
            status,
            metadata: changes.metadata.or(self.metadata.clone()),
            settled: self.settled || status.is_settled(),
            asked,
            ..self.clone()
        };
        // A fixed amount is not checked, because it cannot change. With this check, an input with another currency
        // could get the wrong error: that the amount has too many digits, and not that the currency cannot change.
        if !is_fixed {
            check(next.amount, next.currency).map_err(Faults::from)?;
        }
        self.status.step(next.status)?;
        if is_fixed {
            let fields: Vec<_> = [
                ("subscription_id", next.subscription_id != self.subscription_id),
                ("amount", next.amount != self.amount),
                ("currency", next.currency != self.currency),
            ]
            .into_iter()
            .filter_map(|(field, differs)| differs.then_some(field))
            .collect();
            if !fields.is_empty() {
                let of_period = self.asked.is_some();
                return Err(if of_period {
                    PaymentRefused::OfPeriod { fields }
                } else {
                    PaymentRefused::Settled { fields }
                });
            }
        }
        Ok((next != *self).then(|| Self { updated_at: now, version: self.version.next(), ..next }))
    }

    /// The new value of `asked` after a change of the status: only a failed payment has a next attempt.
    fn asked_after(
        &self,
        status: PaymentStatus,
        next_attempt_at: Field<Timestamp>,
    ) -> Result<Option<Box<RequestedPayment>>, Faults> {
        let failed = status == PaymentStatus::Failed;
        let is_allowed = failed && self.to_collect().is_some();
        if !(is_allowed || next_attempt_at.is_absent()) {
            return Err(only_failed().into());
        }
        Ok(self.asked.clone().map(|mut asked| {
            let current = asked.next_attempt_at.filter(|_| self.status == PaymentStatus::Failed);
            asked.next_attempt_at = next_attempt_at.or(current).filter(|_| failed);
            asked
        }))
    }
}

/// Checks that the amount is more than 0.
fn check_amount(amount: Amount) -> Result<(), Fault> {
    if amount.is_zero() {
        let refused = InvalidValue::out_of_range("must be more than 0");
        return Err(refused.at("amount"));
    }
    Ok(())
}

fn check(amount: Amount, currency: Currency) -> Result<(), Fault> {
    check_amount(amount).and_then(|()| currency.check_digits(amount, "amount"))
}

/// The fault of a `next_attempt_at` for a payment that cannot have one.
fn only_failed() -> Fault {
    let message = "is only for a failed payment that has a kind";
    InvalidValue::not_allowed(message).at("next_attempt_at")
}
