//! Payments: what was asked for a subscription, and what became of it.

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

/// Money asked for a subscription.
///
/// Its JSON is what a caller is shown. Read back from there it lacks `settled`: a store must not keep
/// it so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// Names the payment for ever.
    pub id: PaymentId,
    /// The subscription that it pays for, which may have been deleted since.
    pub subscription_id: SubscriptionId,
    /// How much; more than nothing, with no more digits than its currency has.
    pub amount: Amount,
    /// In what.
    pub currency: Currency,
    /// Its id at the payment provider; unique where set.
    pub external_payment_id: Option<ExternalId>,
    /// Its status.
    pub status: PaymentStatus,
    /// The caller's own texts.
    pub metadata: Option<Metadata>,
    /// When the record was made.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// How often it has been written.
    pub version: Version,
    /// Money has changed hands once, whatever became of it: what for and how much is history.
    #[serde(skip)]
    pub settled: bool,
}

/// Why a payment cannot be changed as asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PaymentRefused {
    /// Its fields do not go together.
    #[error(transparent)]
    Invalid(#[from] Faults),
    /// The lifecycle does not allow the step.
    #[error(transparent)]
    Transition(#[from] InvalidTransition),
    /// Money has changed hands: what for and how much is history.
    #[error("the payment is settled: its {} cannot change", fields.join(", "))]
    Settled {
        /// The fields that were to change.
        fields: Vec<&'static str>,
    },
}

impl Payment {
    /// A new payment as asked for.
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

/// An amount is more than nothing.
fn check_amount(amount: Amount) -> Result<(), Fault> {
    if amount.value().is_zero() {
        let refused = InvalidValue::new(FaultCode::OutOfRange, "must be more than 0");
        return Err(refused.at("amount"));
    }
    Ok(())
}

/// An amount has no more digits than its currency.
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
