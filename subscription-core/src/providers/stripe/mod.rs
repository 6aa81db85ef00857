//! Stripe: its webhooks and the mapping of its objects.

mod invoice;
pub(super) mod requests;
mod subscription;
mod webhook;

use serde_json::Value;

use super::finding::{Finding, FoundObject, Unmapped};
use super::object::{ObjectId, ObjectKind};
use super::read::Place;
use super::source::PauseMeans;
use crate::values::id::UserId;
use crate::values::text::Email;

pub(super) use webhook::webhook;

/// Maps an object as the API returns it.
pub(super) fn map(
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

/// The subscription of a checkout session, and the user whom the checkout was made for.
pub(super) fn session(value: &Value) -> Result<(ObjectId, Option<UserId>), Unmapped> {
    let session = Place::root(value);
    let subscription = session.field("subscription").present().ok_or(Unmapped::NotASubscription)?;
    Ok((subscription.id()?, session.field("client_reference_id").parsed().ok()))
}

/// The invoice of an invoice payment.
pub(super) fn invoice_of(value: &Value) -> Result<ObjectId, Unmapped> {
    Place::root(value).field("invoice").id()
}

/// The payment intent of a refund or a dispute.
pub(super) fn intent_of(value: &Value) -> Result<ObjectId, Unmapped> {
    let intent = Place::root(value).field("payment_intent").present();
    intent.ok_or(Unmapped::NotASubscription)?.id()
}

/// The e-mail address of a customer.
pub(super) fn email_of(value: &Value) -> Option<Email> {
    Place::root(value).field("email").parsed().ok()
}

/// The fields that subscriptions and invoices share.
fn object(root: &Place<'_>) -> Result<FoundObject, Unmapped> {
    Ok(FoundObject {
        id: root.field("id").id()?,
        live: root.field("livemode").flag()?,
        customer: root.field("customer").optional(Place::id)?,
        user_id: root.field("metadata").field("user_id").parsed().ok(),
        email: root.field("customer_email").parsed().ok(),
    })
}
