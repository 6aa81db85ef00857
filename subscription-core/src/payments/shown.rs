//! The JSON of a payment.

use super::Payment;

crate::serialize_members! {
    Payment: payment;
    id, subscription_id, amount, currency, external_payment_id, status, kind(), period_start(), period_end(),
    charge_key(), due_at(), attempt(), next_attempt_at(), metadata, created_at, updated_at, version,
}
