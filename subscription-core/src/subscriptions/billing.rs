//! The fields of a subscription that its billing needs. The rules of billing are in `crate::billing`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Discount, Subscription, SubscriptionStatus};
use crate::plans::BillingCycle;
use crate::values::as_text::named_enum;
use crate::values::decimal::whole_number;
use crate::values::{Amount, Currency, HttpsUrl, InvalidValue, PlanId, Timestamp};

named_enum! {
    /// The party that changes the status of a subscription and starts its periods.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ManagedBy {
        /// The callers of the service, by updates.
        #[default]
        Caller = "caller",
        /// The service itself, as time passes: it starts, renews and ends the subscription.
        Clock = "clock",
        /// A payment provider. The subscription is a copy of the state at the provider.
        Provider = "provider",
    }
}

/// The number of units that a subscription pays for: 1 to 1,000,000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct Quantity(u32);

impl Quantity {
    /// The smallest quantity.
    pub const ONE: Self = Self(1);
    /// The largest quantity.
    pub const MAX: u32 = 1_000_000;
    /// The message for a quantity that makes the price of a period larger than any amount can be.
    pub(crate) const TOO_LARGE: &str =
        "is too large: quantity times price must have at most 15 digits before the point";

    /// The quantity, if it lies in the range.
    pub fn new(number: u64) -> Result<Self, InvalidValue> {
        match u32::try_from(number) {
            Ok(number @ 1..=Self::MAX) => Ok(Self(number)),
            _ => Err(InvalidValue::out_of_range(format!("must be from 1 to {}", Self::MAX))),
        }
    }

    /// The quantity as a plain integer.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<u64> for Quantity {
    type Error = InvalidValue;

    fn try_from(number: u64) -> Result<Self, InvalidValue> {
        Self::new(number)
    }
}

impl FromStr for Quantity {
    type Err = InvalidValue;

    /// Parses the text of a JSON number without fraction and exponent.
    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Self::new(whole_number(text)?.unwrap_or(0))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The price, the credit and the discount of a subscription, and the times that its billing needs.
///
/// Stores write its JSON; the API returns another form. A field marked *not shown* is not part of the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BillingState {
    /// The price of one unit for one billing cycle, used for the next payment unless `scheduled_change` replaces it. The
    /// running period may have had another price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Amount>,
    /// The currency of price and credit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<Currency>,
    /// The amount that is owed to the subscriber as credit. It reduces the payments for the next periods.
    pub credit: Amount,
    /// When the free trial ends, or ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_ends_at: Option<Timestamp>,
    /// When the pause of the subscription ends by itself; `None` if no time is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes_at: Option<Timestamp>,
    /// The start of the running period, or of the trial; `None` unless the clock manages the subscription or a provider
    /// has reported the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_period_start: Option<Timestamp>,
    /// The time since which the subscription has had a failed payment that is not paid yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past_due_since: Option<Timestamp>,
    /// When the next step is due that the service takes by itself, such as a renewal; `None` if no step follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_action_at: Option<Timestamp>,
    /// The change that happens at the next renewal, or, if the change waits for a payment, when that payment is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_change: Option<ScheduledChange>,
    /// The value of the running period: price times quantity less the discount, as computed at the start of the period
    /// or at the last change of plan within the period. Cancelled and refunded payments for the period are subtracted.
    /// 0 in a trial. Not shown.
    pub period_value: Amount,
    /// The part of the credit that comes from changes of plan, which turned paid time into credit. Not shown.
    #[serde(skip_serializing_if = "Amount::is_zero")]
    pub credit_of_changes: Amount,
    /// The discount, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discount: Option<Discount>,
    /// The moment of the last change of plan within the running period. Up to this moment, the period was paid on
    /// other terms. Not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// The state before the cancellation, if the subscription is cancelled; a resume restores it. It is not stored if
    /// an operator cancelled an active subscription without an end: see [`Cancellation::kept`]. A scheduled change
    /// stays stored, but is not returned while the subscription is cancelled. Not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Cancellation>,
    /// The moment at which no retry of a failed payment is left: the subscription then becomes unpaid or expires. Not
    /// shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dunning_ended_at: Option<Timestamp>,
    /// When a subscription that waits for its first payment expires, or a change of plan that waits for its payment is
    /// dropped. Not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lapses_at: Option<Timestamp>,
    /// The time of the renewal that the last reminder to the subscriber was about. Not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reminded_for: Option<Timestamp>,
    /// The page of the payment provider on which the subscriber manages the subscription; `None` if no provider manages
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manage_url: Option<HttpsUrl>,
}

/// The state of a subscription before its cancellation, and who cancelled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    /// The status before the cancellation.
    pub status: SubscriptionStatus,
    /// The end that was set before the cancellation, such as the end of a fixed term; `None` if no end was set.
    pub ends_at: Option<Timestamp>,
    /// True if the subscriber cancelled. The subscriber may then undo the cancellation.
    pub by_user: bool,
}

impl Cancellation {
    /// The present state of a subscription, for a cancellation by an operator.
    pub fn of(subscription: &Subscription) -> Self {
        let Subscription { status, ends_at, .. } = *subscription;
        Self { status, ends_at, by_user: false }
    }

    /// The cancellation, if it must be stored. The usual cancellation is not stored (`None`): an operator cancelled
    /// an active subscription without an end.
    pub fn kept(self) -> Option<Self> {
        let is_usual = self.status == SubscriptionStatus::Active && self.ends_at.is_none();
        (self.by_user || !is_usual).then_some(self)
    }
}

/// The terms of a subscription: its plan, its price and quantity, and how often it is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The plan.
    pub subscription_plan_id: PlanId,
    /// The billing cycle.
    pub billing_cycle: BillingCycle,
    /// The price of one unit.
    pub price: Amount,
    /// The currency of the price.
    pub currency: Currency,
    /// The quantity.
    pub quantity: Quantity,
}

/// A change that happens later: at the next renewal, or, if the change waits for a payment, when that payment is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduledChange {
    /// The subscription gets another plan, price, cycle or quantity.
    ChangePlan(Terms),
    /// The subscriber has chosen another plan.
    ByUser {
        /// The terms after the change.
        terms: Terms,
        /// The payment that must be made before the change; `None` if the change happens at the next renewal.
        payment: Option<ChangePayment>,
    },
    /// The subscription pauses.
    Pause {
        /// When the pause ends by itself; `None` if no time is set.
        resumes_at: Option<Timestamp>,
    },
}

/// The payment that a change of plan waits for, and the running period as it is after the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangePayment {
    /// The moment of the change: the start of the time that the payment is for.
    pub at: Timestamp,
    /// True if a new period starts with the change.
    pub starts_period: bool,
    /// The end of the running period after the change.
    pub renews_at: Option<Timestamp>,
    /// The value of the running period after the change: its price less the discount.
    pub value: Amount,
    /// The part of the subscription's credit that is used for the change.
    pub credit: Amount,
}

impl Subscription {
    /// The terms of the next period; `None` if the subscription has no price or no currency.
    pub fn terms(&self) -> Option<Terms> {
        Some(Terms {
            subscription_plan_id: self.subscription_plan_id,
            billing_cycle: self.billing_cycle,
            price: self.price()?,
            currency: self.currency()?,
            quantity: self.quantity,
        })
    }

    /// The change that happens later; `None` while the subscription is cancelled.
    pub fn scheduled_change(&self) -> Option<ScheduledChange> {
        let change = self.billing.as_ref()?.scheduled_change;
        change.filter(|_| self.status != SubscriptionStatus::Cancelled)
    }

    /// The plan that the subscription is scheduled to change to, also while the subscription is cancelled: the change
    /// then happens only if the subscription is resumed.
    pub fn scheduled_plan_id(&self) -> Option<PlanId> {
        match self.billing.as_ref()?.scheduled_change? {
            ScheduledChange::ChangePlan(terms) | ScheduledChange::ByUser { terms, .. } => {
                Some(terms.subscription_plan_id)
            }
            ScheduledChange::Pause { .. } => None,
        }
    }

    /// The payment that a change of plan waits for, also while the subscription is cancelled; `None` if no change
    /// waits.
    pub(crate) fn awaited_payment(&self) -> Option<ChangePayment> {
        let change = self.billing.as_ref()?.scheduled_change;
        let Some(ScheduledChange::ByUser { payment, .. }) = change else { return None };
        payment
    }
}

impl BillingState {
    /// Clears all fields that would make the service change the subscription later.
    pub fn stop(&mut self) {
        self.next_action_at = None;
        self.scheduled_change = None;
        self.resumes_at = None;
        self.dunning_ended_at = None;
        self.lapses_at = None;
        self.cancelled = None;
    }

    /// The billing state of a subscription that the clock or a provider no longer manages. Price, currency, credit,
    /// trial, the end of a pause and the state before a cancellation stay. If a cancelled subscription has a failed
    /// payment that is not paid yet, its status before the cancellation becomes past due.
    #[must_use]
    pub fn released(self) -> Self {
        let Self { price, currency, credit, trial_ends_at, resumes_at, mut cancelled, .. } = self;
        if let Some(found) = cancelled.as_mut().filter(|_| self.past_due_since.is_some()) {
            found.status = SubscriptionStatus::PastDue;
        }
        Self { price, currency, credit, trial_ends_at, resumes_at, cancelled, ..Self::default() }
    }

    /// The state in a box, or `None` if every field has its default.
    pub(crate) fn kept(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl FromStr for BillingState {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

macro_rules! of_billing {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)+) => {
        impl Subscription {
            $($(#[$doc])*
            pub fn $name(&self) -> Option<$type> {
                self.billing.as_ref().and_then(|billing| billing.$name)
            })+

            /// The page of the payment provider on which the subscriber manages the subscription.
            pub fn manage_url(&self) -> Option<&HttpsUrl> {
                self.billing.as_ref().and_then(|billing| billing.manage_url.as_ref())
            }

            /// The amount that is owed to the subscriber; `None` if the subscription has no billing.
            pub fn credit(&self) -> Option<Amount> {
                let billing = self.billing.as_ref()?;
                // A billing state in which only `cancelled` is set does not mean that the subscription is billed, so it
                // has no credit.
                let is_empty = billing.cancelled.is_some()
                    && BillingState { cancelled: None, ..BillingState::clone(billing) }.kept().is_none();
                (!is_empty).then_some(billing.credit)
            }
        }
    };
}

of_billing! {
    /// The price of one unit for one billing cycle, used for the next payment unless `scheduled_change` replaces it. The
    /// running period may have had another price.
    price: Amount;
    /// The currency of price and credit.
    currency: Currency;
    /// The discount.
    discount: Discount;
    /// When the free trial ends, or ended.
    trial_ends_at: Timestamp;
    /// When the pause of the subscription ends by itself; `None` if no time is set.
    resumes_at: Timestamp;
    /// The time since which the subscription has had a failed payment that is not paid yet.
    past_due_since: Timestamp;
    /// When the next step is due that the service takes by itself, such as a renewal; `None` if no step follows.
    next_action_at: Timestamp;
}
