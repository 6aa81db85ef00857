//! The inputs that create or change a payment.

use serde::Serialize;

use super::{Currency, PaymentStatus, check_amount, check_digits};
use crate::values::decimal::Amount;
use crate::values::id::SubscriptionId;
use crate::values::input::{Field, Fields, InputError, amount, string};
use crate::values::metadata::Metadata;
use crate::values::text::ExternalId;

/// A payment to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewPayment {
    /// See [`Payment::subscription_id`](super::Payment::subscription_id).
    pub subscription_id: SubscriptionId,
    /// See [`Payment::amount`](super::Payment::amount).
    pub amount: Amount,
    /// See [`Payment::currency`](super::Payment::currency).
    pub currency: Currency,
    /// See [`Payment::external_payment_id`](super::Payment::external_payment_id).
    pub external_payment_id: Option<ExternalId>,
    /// Any status may be the first; `None` is pending.
    pub status: Option<PaymentStatus>,
    /// See [`Payment::metadata`](super::Payment::metadata).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

impl NewPayment {
    /// A payment that is pending.
    pub const fn new(subscription_id: SubscriptionId, amount: Amount, currency: Currency) -> Self {
        let (external_payment_id, status, metadata) = (None, None, None);
        Self { subscription_id, amount, currency, external_payment_id, status, metadata }
    }

    /// Reads a JSON object and tells all that is wrong with it.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let subscription_id = fields.required("subscription_id", string);
        let amount = fields.required("amount", amount);
        let currency = fields.required("currency", string);
        let external_payment_id = fields.nullable("external_payment_id", string).or(None);
        let status = fields.optional("status", string);
        let metadata = fields.metadata().or(None);
        note_amount(&mut fields, amount, currency);
        let payment = (|| {
            let required = Self::new(subscription_id?, amount?, currency?);
            Some(Self { external_payment_id, status, metadata, ..required })
        })();
        fields.finish(payment)
    }
}

/// Changes to a payment; what is `None` or absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PaymentChanges {
    /// See [`Payment::subscription_id`](super::Payment::subscription_id).
    pub subscription_id: Option<SubscriptionId>,
    /// See [`Payment::amount`](super::Payment::amount).
    pub amount: Option<Amount>,
    /// See [`Payment::currency`](super::Payment::currency).
    pub currency: Option<Currency>,
    /// See [`Payment::external_payment_id`](super::Payment::external_payment_id).
    pub external_payment_id: Field<ExternalId>,
    /// The next status, as far as the lifecycle allows.
    pub status: Option<PaymentStatus>,
    /// Replaces all of [`Payment::metadata`](super::Payment::metadata).
    pub metadata: Field<Metadata>,
}

impl PaymentChanges {
    /// A change of the status alone.
    pub fn status(status: PaymentStatus) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// Reads a JSON object and tells all that is wrong with it.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let changes = Self {
            subscription_id: fields.optional("subscription_id", string),
            amount: fields.optional("amount", amount),
            currency: fields.optional("currency", string),
            external_payment_id: fields.nullable("external_payment_id", string),
            status: fields.optional("status", string),
            metadata: fields.metadata(),
        };
        note_amount(&mut fields, changes.amount, changes.currency);
        fields.finish(Some(changes))
    }
}

/// Adds the fault of an invalid amount to the other faults of the input, if the input alone shows it.
fn note_amount(fields: &mut Fields<'_>, amount: Option<Amount>, currency: Option<Currency>) {
    let Some(amount) = amount else { return };
    let digits = currency.map_or(Ok(()), |currency| check_digits(amount, currency));
    if let Err(fault) = check_amount(amount).and(digits) {
        fields.note(fault);
    }
}
