//! The JSON of a payment.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::Payment;

impl Serialize for Payment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Payment", 17)?;
        fields.serialize_field("id", &self.id)?;
        fields.serialize_field("subscription_id", &self.subscription_id)?;
        fields.serialize_field("amount", &self.amount)?;
        fields.serialize_field("currency", &self.currency)?;
        fields.serialize_field("external_payment_id", &self.external_payment_id)?;
        fields.serialize_field("status", &self.status)?;
        fields.serialize_field("kind", &self.kind())?;
        fields.serialize_field("period_start", &self.period_start())?;
        fields.serialize_field("period_end", &self.period_end())?;
        fields.serialize_field("charge_key", &self.charge_key())?;
        fields.serialize_field("due_at", &self.due_at())?;
        fields.serialize_field("attempt", &self.attempt())?;
        fields.serialize_field("next_attempt_at", &self.next_attempt_at())?;
        fields.serialize_field("metadata", &self.metadata)?;
        fields.serialize_field("created_at", &self.created_at)?;
        fields.serialize_field("updated_at", &self.updated_at)?;
        fields.serialize_field("version", &self.version)?;
        fields.end()
    }
}
