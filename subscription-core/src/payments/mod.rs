//! Payments for subscriptions, and their status.

mod check;
mod currency;
mod input;
mod lifecycle;

use serde::{Deserialize, Serialize};

pub use currency::Currency;
pub use input::{NewPayment, PaymentChanges};
pub use lifecycle::PaymentStatus;

use crate::values::clock::Timestamp;
use crate::values::decimal::Amount;
use crate::values::faults::{Fault, FaultCode, Faults, InvalidValue};
use crate::values::id::{PaymentId, SubscriptionId};
use crate::values::metadata::Metadata;
use crate::values::states::InvalidTransition;
use crate::values::text::ExternalId;
use crate::values::version::Version;

/// A payment for a subscription.
///
/// Its JSON is the one that the API returns. It lacks `settled`, so a store must not store this JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// The payment's id, which never changes.
    pub id: PaymentId,
    /// The subscription that it pays for, which may have been deleted since.
    pub subscription_id: SubscriptionId,
    /// The amount: more than 0, with at most as many digits after the point as the currency has.
    pub amount: Amount,
    /// The currency of the amount.
    pub currency: Currency,
    /// Its id at the payment provider; unique where set.
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
    /// True once the payment was paid, even if it is refunded later: its subscription, amount and currency no
    /// longer change.
    #[serde(skip)]
    pub settled: bool,
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
}

impl Payment {
    /// The new payment that the input describes.
    pub fn create(new: NewPayment, id: PaymentId, now: Timestamp) -> Result<Self, Faults> {
        check(new.amount, new.currency)?;
        let status = new.status.unwrap_or(PaymentStatus::Pending);
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
        })
    }

    /// The payment after `changes`, or `None` if they change nothing.
    pub fn change(
        &self,
        changes: PaymentChanges,
        now: Timestamp,
    ) -> Result<Option<Self>, PaymentRefused> {
        // A settled amount written with other digits (19.9 for 19.90) is the same amount.
        let same = |amount: &Amount| self.settled && amount.value() == self.amount.value();
        let status = changes.status.unwrap_or(self.status);
        let next = Self {
            subscription_id: changes.subscription_id.unwrap_or(self.subscription_id),
            amount: changes.amount.filter(|amount| !same(amount)).unwrap_or(self.amount),
            currency: changes.currency.unwrap_or(self.currency),
            external_payment_id: changes.external_payment_id.or(self.external_payment_id.clone()),
            status,
            metadata: changes.metadata.or(self.metadata.clone()),
            settled: self.settled || status.is_settled(),
            ..self.clone()
        };
        // A settled payment cannot change, so there is nothing to check: another currency is refused for
        // that, not because the amount that stays has too many digits for it.
        if !self.settled {
            check(next.amount, next.currency)?;
        }
        self.status.step(next.status)?;
        if self.settled {
            let fields: Vec<_> = [
                ("subscription_id", next.subscription_id != self.subscription_id),
                ("amount", next.amount != self.amount),
                ("currency", next.currency != self.currency),
            ]
            .into_iter()
            .filter_map(|(field, differs)| differs.then_some(field))
            .collect();
            if !fields.is_empty() {
                return Err(PaymentRefused::Settled { fields });
            }
        }
        Ok((next != *self).then(|| Self { updated_at: now, version: self.version.next(), ..next }))
    }
}

/// Checks that the amount is more than 0.
fn check_amount(amount: Amount) -> Result<(), Fault> {
    if amount.value().is_zero() {
        let refused = InvalidValue::new(FaultCode::OutOfRange, "must be more than 0");
        return Err(refused.at("amount"));
    }
    Ok(())
}

/// Checks that the amount has no more digits after the point than its currency.
fn check_digits(amount: Amount, currency: Currency) -> Result<(), Fault> {
    let digits = currency.digits();
    if amount.fraction_digits() > digits {
        let message = format!("must have at most {digits} digits after the point in {currency}");
        return Err(InvalidValue::new(FaultCode::OutOfRange, message).at("amount"));
    }
    Ok(())
}

fn check(amount: Amount, currency: Currency) -> Result<(), Faults> {
    check_amount(amount).and_then(|()| check_digits(amount, currency)).map_err(Faults::from)
}
