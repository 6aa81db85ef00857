//! The inputs that create or change a payment.

use serde::Serialize;

use super::{Currency, PaymentKind, PaymentStatus, check_amount, only_failed};
use crate::values::input::{amount, string};
use crate::values::{
    Amount, ExternalId, FaultCode, Faults, Field, Fields, InputError, InvalidValue, Metadata,
    SubscriptionId, Timestamp,
};

/// The input that creates a payment. Its fields are those of [`Payment`](super::Payment).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the payment")]
pub struct NewPayment {
    pub subscription_id: SubscriptionId,
    pub amount: Amount,
    pub currency: Currency,
    pub external_payment_id: Option<ExternalId>,
    /// The first status, which may be any. If `None`, the payment is pending.
    pub status: Option<PaymentStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// The purpose of the payment, if it is for a period or a change of plan. It requires a `period_start`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<PaymentKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_start: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_end: Option<Timestamp>,
    /// When a payment that has failed is to be collected again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
}

impl NewPayment {
    /// A payment that is pending.
    pub const fn new(subscription_id: SubscriptionId, amount: Amount, currency: Currency) -> Self {
        Self {
            subscription_id,
            amount,
            currency,
            external_payment_id: None,
            status: None,
            metadata: None,
            kind: None,
            period_start: None,
            period_end: None,
            next_attempt_at: None,
        }
    }

    /// Parses a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let subscription_id = fields.required("subscription_id", string);
        let amount = fields.required("amount", amount);
        let currency = fields.required("currency", string);
        let external_payment_id = fields.nullable("external_payment_id", string).or(None);
        let metadata = fields.metadata().or(None);
        let faults_before = fields.faults();
        let status = fields.optional("status", string);
        let kind = fields.nullable("kind", string).or(None);
        let period_start = fields.nullable("period_start", string).or(None);
        let period_end = fields.nullable("period_end", string).or(None);
        let next_attempt_at = fields.nullable("next_attempt_at", string).or(None);
        if fields.faults() == faults_before {
            let period = (kind, period_start, period_end);
            let faults = period_faults(period, status, next_attempt_at);
            faults.iter().for_each(|fault| fields.note(fault.clone()));
        }
        note_amount(&mut fields, amount, currency);
        let payment = (|| {
            let required = Self::new(subscription_id?, amount?, currency?);
            Some(Self {
                external_payment_id,
                status,
                metadata,
                kind,
                period_start,
                period_end,
                next_attempt_at,
                ..required
            })
        })();
        fields.finish(payment)
    }

    /// The faults of the period and of `next_attempt_at`.
    pub(super) fn period_faults(&self) -> Faults {
        let period = (self.kind, self.period_start, self.period_end);
        period_faults(period, self.status, self.next_attempt_at)
    }
}

/// The faults of a period and of `next_attempt_at`: a kind needs a `period_start`, a period needs a kind and must end
/// after its start, and only a failed payment with a kind has a `next_attempt_at`.
pub(super) fn period_faults(
    period: (Option<PaymentKind>, Option<Timestamp>, Option<Timestamp>),
    status: Option<PaymentStatus>,
    next_attempt_at: Option<Timestamp>,
) -> Faults {
    let mut faults = Faults::default();
    let mut fault = |code, field: &'static str, message: &'static str| {
        faults.push(InvalidValue::new(code, message).at(field));
    };
    match period {
        (Some(_), None, _) => {
            fault(FaultCode::Required, "period_start", "is required if kind is sent");
        }
        (None, Some(_), _) | (None, _, Some(_)) => {
            fault(FaultCode::Required, "kind", "is required if a period is sent");
        }
        (Some(_), Some(start), Some(end)) if end <= start => {
            fault(FaultCode::OutOfRange, "period_end", "must be after period_start");
        }
        _ => {}
    }
    let failed = period.0.is_some() && status == Some(PaymentStatus::Failed);
    if next_attempt_at.is_some() && !failed {
        faults.push(only_failed());
    }
    faults
}

/// The input that changes a payment. A field that is `None` or absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the payment")]
pub struct PaymentChanges {
    pub subscription_id: Option<SubscriptionId>,
    pub amount: Option<Amount>,
    pub currency: Option<Currency>,
    pub external_payment_id: Field<ExternalId>,
    /// The new status, if the lifecycle allows the change.
    pub status: Option<PaymentStatus>,
    /// Replaces all of [`Payment::metadata`](super::Payment::metadata).
    pub metadata: Field<Metadata>,
    /// When the failed payment is to be collected again; null means never.
    pub next_attempt_at: Field<Timestamp>,
}

impl PaymentChanges {
    /// A change of the status alone.
    pub fn status(status: PaymentStatus) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// Parses a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let changes = Self {
            subscription_id: fields.optional("subscription_id", string),
            amount: fields.optional("amount", amount),
            currency: fields.optional("currency", string),
            external_payment_id: fields.nullable("external_payment_id", string),
            status: fields.optional("status", string),
            metadata: fields.metadata(),
            next_attempt_at: fields.nullable("next_attempt_at", string),
        };
        note_amount(&mut fields, changes.amount, changes.currency);
        fields.finish(Some(changes))
    }
}

/// Adds the fault of an amount that is 0, or, if the input has the currency too, that has too many digits for the
/// currency.
fn note_amount(fields: &mut Fields<'_>, amount: Option<Amount>, currency: Option<Currency>) {
    let Some(amount) = amount else { return };
    let digits = currency.map_or(Ok(()), |currency| currency.check_digits(amount, "amount"));
    if let Err(fault) = check_amount(amount).and(digits) {
        fields.note(fault);
    }
}
