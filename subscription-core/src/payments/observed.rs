//! Payments that a payment provider collects: the record is updated to the state that was read at the provider.

use super::{Payment, PaymentChanges, PaymentKind, PaymentStatus, RequestedPayment};
use crate::plans::BillingCycle;
use crate::values::{Amount, Currency, ExternalId, PaymentId, SubscriptionId, Timestamp, Version};

/// The state of a payment at its provider. The fields are those of [`Payment`].
///
/// The amount must be more than 0, with no more digits after the point than its currency has. [`Payment::check`]
/// reports any other amount.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the payment")]
pub struct ObservedPayment {
    pub external_payment_id: ExternalId,
    pub amount: Amount,
    pub currency: Currency,
    pub status: PaymentStatus,
    /// The period that the payment pays for; `None` if the provider names no period.
    pub period: Option<ObservedPeriod>,
}

/// The period that a payment pays for, as its provider reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedPeriod {
    /// The purpose of the payment.
    pub kind: PaymentKind,
    /// The start of the period.
    pub start: Timestamp,
    /// The end of the period; `None` if the period has no end. An end that is not after the start is left out.
    pub end: Option<Timestamp>,
    /// The billing cycle of the period.
    pub cycle: BillingCycle,
    /// The price of the whole period.
    pub value: Amount,
}

impl ObservedPeriod {
    /// The period of a payment that a provider collects.
    fn mirrored(self) -> RequestedPayment {
        RequestedPayment {
            kind: self.kind,
            period_start: self.start,
            period_end: self.end.filter(|end| *end > self.start),
            due_at: self.start,
            attempt: 1,
            next_attempt_at: None,
            retries: 0,
            value: self.value,
            cycle: self.cycle,
            mirrored: true,
            by_clock: false,
            basis: None,
        }
    }
}

/// The amount or the currency of a payment that was paid differs from the observed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the payment is settled, but the provider has another amount or currency for it")]
pub struct SettledDiffers;

impl Payment {
    /// The new payment for a subscription that a provider manages.
    pub fn observe_new(
        observed: ObservedPayment,
        id: PaymentId,
        subscription_id: SubscriptionId,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            subscription_id,
            amount: observed.amount,
            currency: observed.currency,
            external_payment_id: Some(observed.external_payment_id),
            status: observed.status,
            metadata: None,
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
            settled: observed.status.is_settled(),
            asked: observed.period.map(|period| Box::new(period.mirrored())),
        }
    }

    /// The payment in the state that was observed at its provider, which collects it from now on; `None` if
    /// nothing differs. Any status may follow any other. Id, subscription and metadata stay.
    pub fn observe(
        &self,
        observed: ObservedPayment,
        now: Timestamp,
    ) -> Result<Option<Self>, SettledDiffers> {
        // An amount that is only written with other digits (19.9 for 19.90) is the same amount.
        let same_money =
            observed.amount.value() == self.amount.value() && observed.currency == self.currency;
        if self.settled && !same_money {
            return Err(SettledDiffers);
        }
        let next = Self {
            amount: if same_money { self.amount } else { observed.amount },
            currency: observed.currency,
            external_payment_id: Some(observed.external_payment_id),
            status: observed.status,
            settled: self.settled || observed.status.is_settled(),
            asked: observed.period.map(|period| Box::new(period.mirrored())),
            ..self.clone()
        };
        Ok((next != *self).then(|| Self {
            updated_at: now.max(self.updated_at),
            version: self.version.next(),
            ..next
        }))
    }

    /// The names of the fields, apart from the metadata, that `changes` would set to another value.
    pub(crate) fn provider_fields(&self, changes: &PaymentChanges) -> Vec<&'static str> {
        let moves = changes.subscription_id.is_some_and(|id| id != self.subscription_id);
        let external_id = changes.external_payment_id.sets(self.external_payment_id.as_ref());
        let differs = [
            ("subscription_id", moves),
            ("amount", changes.amount.is_some_and(|amount| amount.value() != self.amount.value())),
            ("currency", changes.currency.is_some_and(|currency| currency != self.currency)),
            ("external_payment_id", external_id),
            ("status", changes.status.is_some_and(|status| status != self.status)),
            ("next_attempt_at", changes.next_attempt_at.sets(self.next_attempt_at().as_ref())),
        ];
        differs.into_iter().filter_map(|(field, differs)| differs.then_some(field)).collect()
    }
}
