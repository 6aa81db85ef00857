//! Reads the webhooks and objects of each kind of provider: Stripe and Lemon Squeezy.

pub(crate) mod finding;
pub(crate) mod lemon_squeezy;
pub(crate) mod money;
pub(crate) mod object;
pub(crate) mod read;
pub(crate) mod stripe;

use serde_json::Value;

use self::finding::{Finding, Unmapped, Webhook};
use self::object::{ObjectId, ObjectKind, ProviderKind};
use self::read::JsonPath;
use crate::providers::PauseMeans;
use crate::values::{Email, UserId};

/// Reads a webhook whose signature is valid.
#[doc(hidden)]
pub fn webhook(provider: ProviderKind, body: &[u8]) -> Webhook {
    match provider {
        ProviderKind::Stripe => stripe::webhook(body),
        ProviderKind::LemonSqueezy => lemon_squeezy::webhook(body),
    }
}

/// Maps an object as [`ProviderApi`](super::ProviderApi) returns it.
#[doc(hidden)]
pub fn map(
    provider: ProviderKind,
    kind: ObjectKind,
    object: &Value,
    pause: PauseMeans,
) -> Result<Finding, Unmapped> {
    match provider {
        ProviderKind::Stripe => stripe::map(kind, object, pause),
        ProviderKind::LemonSqueezy => lemon_squeezy::map(kind, object, pause),
    }
}

/// The subscription of a checkout session (Stripe), and the user whom the checkout was made for.
#[doc(hidden)]
pub fn session(value: &Value) -> Result<(ObjectId, Option<UserId>), Unmapped> {
    let session = JsonPath::root(value);
    let subscription = session.field("subscription").present().ok_or(Unmapped::NotASubscription)?;
    Ok((subscription.id()?, session.field("client_reference_id").parsed().ok()))
}

/// The invoice of an invoice payment (Stripe).
#[doc(hidden)]
pub fn invoice_of(value: &Value) -> Result<ObjectId, Unmapped> {
    JsonPath::root(value).field("invoice").id()
}

/// The payment intent of a refund or a dispute (Stripe).
#[doc(hidden)]
pub fn intent_of(value: &Value) -> Result<ObjectId, Unmapped> {
    let intent = JsonPath::root(value).field("payment_intent").present();
    intent.ok_or(Unmapped::NotASubscription)?.id()
}

/// The e-mail address of a customer (Stripe).
#[doc(hidden)]
pub fn email_of(value: &Value) -> Option<Email> {
    JsonPath::root(value).field("email").parsed().ok()
}
