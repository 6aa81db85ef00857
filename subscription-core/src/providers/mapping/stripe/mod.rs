//! Stripe: its webhooks and the mapping of its objects.

mod invoice;
pub(crate) mod requests;
mod subscription;
mod webhook;

use serde_json::Value;

use super::finding::{Finding, FoundObject, Unmapped};
use super::object::ObjectKind;
use super::read::JsonPath;
use crate::providers::PauseMeans;

pub(crate) use webhook::webhook;

/// Maps an object as the API returns it.
pub(crate) fn map(
    kind: ObjectKind,
    object: &Value,
    pause: PauseMeans,
) -> Result<Finding, Unmapped> {
    match kind {
        ObjectKind::Subscription => {
            subscription::subscription(object, pause).map(Finding::Subscription)
        }
        ObjectKind::Invoice => invoice::invoice(object).map(Finding::Invoice),
        ObjectKind::Customer
        | ObjectKind::Order
        | ObjectKind::CheckoutSession
        | ObjectKind::PaymentIntent => Err(Unmapped::NotASubscription),
    }
}

/// The fields that subscriptions and invoices share.
fn object(root: &JsonPath<'_>) -> Result<FoundObject, Unmapped> {
    Ok(FoundObject {
        id: root.field("id").id()?,
        live: root.field("livemode").flag()?,
        customer: root.field("customer").optional(JsonPath::id)?,
        user_id: root.field("metadata").field("user_id").parsed().ok(),
        email: root.field("customer_email").parsed().ok(),
    })
}
