//! The types and ids of objects at a payment provider, and the lists of such objects.

use serde::{Deserialize, Serialize};

use crate::values::as_text::named_enum;
use crate::values::text::checked_texts;
use crate::values::{InvalidValue, Timestamp};

named_enum! {
    /// A payment provider that can be followed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ProviderKind {
        /// Stripe.
        Stripe = "stripe",
        /// Lemon Squeezy.
        LemonSqueezy = "lemon_squeezy",
    }
}

named_enum! {
    /// The type of an object at a provider.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ObjectKind {
        /// A customer, who may have several subscriptions.
        Customer = "customer",
        /// A subscription.
        Subscription = "subscription",
        /// An invoice of a subscription.
        Invoice = "invoice",
        /// An order (Lemon Squeezy): the purchase of a product.
        Order = "order",
        /// A checkout session (Stripe). It resolves to its subscription.
        CheckoutSession = "checkout_session",
        /// A payment intent (Stripe), also for charges, refunds and disputes. It resolves to its invoice.
        PaymentIntent = "payment_intent",
    }
}

checked_texts! {
    /// The id of an object at a provider: 1 to 255 letters, digits and underscores, so that it is safe in a path.
    ObjectId: object_id;
}

fn object_id(text: &str) -> Result<&str, InvalidValue> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if (1..=255).contains(&text.len()) && text.bytes().all(allowed) {
        Ok(text)
    } else {
        Err(InvalidValue::bad_format("must be 1 to 255 letters, digits and underscores"))
    }
}

/// An object at a provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The type of the object.
    pub kind: ObjectKind,
    /// The id of the object at the provider.
    pub id: ObjectId,
}

impl ObjectRef {
    /// True if the state of the object is copied to our records. A checkout session or a payment intent only leads to
    /// such an object.
    pub(crate) const fn is_followed(&self) -> bool {
        matches!(self.kind, ObjectKind::Subscription | ObjectKind::Invoice | ObjectKind::Order)
    }
}

/// A list of objects at a provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ObjectList {
    /// All subscriptions, also those that have ended.
    Subscriptions,
    /// The invoices that were created at this moment or later.
    Invoices(Timestamp),
    /// The orders (Lemon Squeezy) that were created at this moment or later.
    Orders(Timestamp),
    /// The refunds (Stripe) that were created at this moment or later.
    Refunds(Timestamp),
    /// The disputes (Stripe) that were created at this moment or later.
    Disputes(Timestamp),
    /// The invoice payments of a payment intent (Stripe), which name the invoice.
    InvoicePaymentsOf(ObjectId),
    /// The checkout sessions of a subscription (Stripe).
    SessionsOf(ObjectId),
}
