//! Rules of uniqueness: values that no two records may share.

use std::fmt;

use crate::accounts::IdentityKey;
use crate::values::{Email, ExternalId, Slug, SubscriptionId, Timestamp};

/// A rule of uniqueness: a field, or a pair of fields, in which no two records may have the same value. All stores
/// enforce the same rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unique {
    /// [`Plan::slug`](crate::plans::Plan::slug).
    PlanSlug,
    /// [`Subscription::external_subscription_id`](crate::subscriptions::Subscription::external_subscription_id), where set.
    ExternalSubscription,
    /// [`Payment::external_payment_id`](crate::payments::Payment::external_payment_id), where set.
    ExternalPayment,
    /// The subscription and the [claimed period](crate::payments::Payment::claimed_period) of a payment, if it claims
    /// one.
    PaymentPeriod,
    /// [`Subscription::live_key`](crate::subscriptions::Subscription::live_key), where set.
    LiveSubscription,
    /// [`User::identity`](crate::accounts::User::identity).
    UserIdentity,
    /// [`User::email`](crate::accounts::User::email), compared by its [key](crate::Email::key).
    UserEmail,
}

impl fmt::Display for Unique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PlanSlug => "slug",
            Self::ExternalSubscription => "external_subscription_id",
            Self::ExternalPayment => "external_payment_id",
            Self::PaymentPeriod => "period",
            Self::LiveSubscription => "live subscription",
            Self::UserIdentity => "identity",
            Self::UserEmail => "email",
        })
    }
}

/// A value that at most one record has, and by which the record is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UniqueValue<'a> {
    /// [`Plan::slug`](crate::plans::Plan::slug).
    PlanSlug(&'a Slug),
    /// [`Subscription::external_subscription_id`](crate::subscriptions::Subscription::external_subscription_id).
    ExternalSubscription(&'a ExternalId),
    /// [`Payment::external_payment_id`](crate::payments::Payment::external_payment_id).
    ExternalPayment(&'a ExternalId),
    /// [`Subscription::live_key`](crate::subscriptions::Subscription::live_key).
    LiveKey(&'a str),
    /// [`Payment::subscription_id`](crate::payments::Payment::subscription_id) and [`Payment::claimed_period`](crate::payments::Payment::claimed_period).
    PaymentPeriod(SubscriptionId, Timestamp),
    /// [`User::identity`](crate::accounts::User::identity).
    UserIdentity(&'a IdentityKey),
    /// [`User::email`](crate::accounts::User::email), compared by its [key](Email::key).
    UserEmail(&'a Email),
}

impl UniqueValue<'_> {
    /// The rule that makes the value unique.
    pub const fn rule(self) -> Unique {
        match self {
            Self::PlanSlug(_) => Unique::PlanSlug,
            Self::ExternalSubscription(_) => Unique::ExternalSubscription,
            Self::ExternalPayment(_) => Unique::ExternalPayment,
            Self::LiveKey(_) => Unique::LiveSubscription,
            Self::PaymentPeriod(..) => Unique::PaymentPeriod,
            Self::UserIdentity(_) => Unique::UserIdentity,
            Self::UserEmail(_) => Unique::UserEmail,
        }
    }
}
