//! The state of an object at a provider, as the mapping reads it from the response of the provider's API.
//!
//! The mapping of each provider is pure. A field that is missing and a status that is unknown are
//! [`Unmapped::Unreadable`]: nothing is guessed.

use super::object::{ObjectId, ObjectRef};
use crate::payments::{PaymentKind, PaymentStatus};
use crate::plans::BillingCycle;
use crate::subscriptions::{Quantity, Renewal, SubscriptionStatus};
use crate::values::{Amount, Currency, Email, ExternalId, Href, Timestamp, UserId};

/// The content of a webhook whose signature is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Webhook {
    /// An event of a type that this service does not use.
    Unlisted,
    /// An event that names an object. The state of the object is fetched: the state in the payload is not used.
    Hint(Hint),
    /// An event of a type that this service uses, but whose payload cannot be read.
    Unreadable {
        /// The type of the event, if it could be read.
        event_type: Option<Box<str>>,
        /// The place in the payload that cannot be read.
        path: Box<str>,
    },
    /// An event of a type that this service uses, but about something that has no subscription, such as a charge
    /// without a payment intent.
    NotASubscription {
        /// The type of the event.
        event_type: Box<str>,
        /// The provider's id of the event, if it has one.
        event_id: Option<ObjectId>,
    },
}

/// The part of a webhook that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The type of the event, at most 100 visible ASCII characters.
    pub event_type: Box<str>,
    /// The provider's id of the event, if it has one.
    pub event_id: Option<ObjectId>,
    /// The object that the event is about.
    pub object: ObjectRef,
    /// True for live data, false for test data.
    pub live: bool,
    /// The user whom the checkout was made for (the custom data of Lemon Squeezy; always `None` at Stripe).
    pub user_id: Option<UserId>,
}

/// An object of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A subscription.
    Subscription(FoundSubscription),
    /// An invoice.
    Invoice(FoundInvoice),
    /// An order.
    Order(FoundOrder),
}

impl Finding {
    /// The fields that every object has.
    pub const fn object(&self) -> &FoundObject {
        match self {
            Self::Subscription(subscription) => &subscription.object,
            Self::Invoice(invoice) => &invoice.object,
            Self::Order(order) => &order.object,
        }
    }
}

/// The fields that every object has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObject {
    /// The id of the object at the provider.
    pub id: ObjectId,
    /// True if the object is live data, false if it is test data.
    pub live: bool,
    /// The customer to whom the object belongs.
    pub customer: Option<ObjectId>,
    /// The user whom the metadata of the object names (Stripe); always `None` at Lemon Squeezy.
    pub user_id: Option<UserId>,
    /// The e-mail address of the customer, if the object has it.
    pub email: Option<Email>,
}

/// A subscription at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSubscription {
    /// The fields that every object has.
    pub object: FoundObject,
    /// The external id of our record.
    pub external_id: ExternalId,
    /// The external id that a record may have instead, if a caller made the record (Lemon Squeezy: the number without a
    /// prefix).
    pub former_id: Option<ExternalId>,
    /// The status.
    pub status: SubscriptionStatus,
    /// When the subscription began.
    pub starts_at: Timestamp,
    /// When the trial of the subscription ends.
    pub trial_ends_at: Option<Timestamp>,
    /// When the pause of the subscription ends.
    pub resumes_at: Option<Timestamp>,
    /// The page at which the subscriber manages the subscription.
    pub manage_url: Option<Href>,
    /// The items that the subscription pays for. Only the item whose price or product belongs to a plan is copied to
    /// our record.
    pub items: Vec<FoundItem>,
}

/// One of the items that a subscription pays for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundItem {
    /// The price or variant, and the product.
    pub sold: Sold,
    /// The number of units.
    pub quantity: Quantity,
    /// The price of one unit; `None` if the provider does not say, or if the item has several prices.
    pub price: Option<(Amount, Currency)>,
    /// The billing cycle; `None` if the provider does not report it. Then the billing cycle of the plan is used.
    pub billing_cycle: Option<BillingCycle>,
    /// The start of the running period.
    pub period_start: Option<Timestamp>,
    /// The next renewal.
    pub renews_at: Renewal,
    /// When the subscription ends.
    pub ends_at: Option<Timestamp>,
}

/// The ids by which the provider names what it sells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sold {
    /// The price (Stripe) or variant (Lemon Squeezy).
    pub price: Option<ObjectId>,
    /// The product.
    pub product: Option<ObjectId>,
}

/// An invoice at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundInvoice {
    /// The fields that every object has.
    pub object: FoundObject,
    /// The subscription that the invoice is for.
    pub subscription: ObjectId,
    /// The purpose of the invoice; `None` if no [`PaymentKind`] fits.
    pub kind: Option<PaymentKind>,
    /// The periods that the invoice pays for.
    pub periods: FoundPeriods,
    /// The payments of the invoice.
    pub payments: Vec<FoundPayment>,
    /// When the invoice was paid, if the payments in the provider's list add up to less than was paid; otherwise
    /// `None`. The rest was paid outside of the provider, or the list does not have its payment yet.
    pub unlisted_since: Option<Timestamp>,
}

/// The periods that an invoice pays for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundPeriods {
    /// One period for each line (Stripe): the item sold, the start and the end. Only the line whose item belongs to the
    /// subscription's plan is used.
    Lines(Vec<(Sold, Timestamp, Timestamp)>),
    /// One billing cycle of the subscription from this moment (Lemon Squeezy).
    CycleFrom(Timestamp),
}

/// A payment at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPayment {
    /// The external id of our record.
    pub external_id: ExternalId,
    /// The amount: more than 0.
    pub amount: Amount,
    /// The currency.
    pub currency: Currency,
    /// The status.
    pub status: PaymentStatus,
}

/// An order at a provider (Lemon Squeezy).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundOrder {
    /// The fields that every object has.
    pub object: FoundObject,
    /// The external id of our subscription and of its payment.
    pub external_id: ExternalId,
    /// The variant and the product.
    pub sold: Sold,
    /// When the order was made.
    pub created_at: Timestamp,
    /// The status of the subscription that is created in this service for the order, if the plan of the order is paid
    /// only once.
    pub status: SubscriptionStatus,
    /// The payment of the order; `None` if the amount of the order is 0.
    pub payment: Option<FoundPayment>,
}

/// The reason why an object was not mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmapped {
    /// A field is missing or has an unknown value.
    #[error("the object cannot be read at {path}")]
    Unreadable {
        /// The place in the object, such as `/items/data/0/price/id`.
        path: Box<str>,
    },
    /// The amount differs from the amount in the provider's formatted text (such as `¥1,000`), so it is uncertain how
    /// many decimals the number from the provider includes.
    #[error(
        "the provider's amount and its formatted text differ, so the amount's number of decimals is uncertain"
    )]
    CurrencyUnverified,
    /// The object has no subscription.
    #[error("the object has no subscription")]
    NotASubscription,
    /// The amount is 0.
    #[error("the amount is 0")]
    ZeroAmount,
}
