//! The part of a subscription that its billing needs: data only, the rules are elsewhere.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Subscription, SubscriptionStatus};
use crate::plans::BillingCycle;
use crate::values::as_text::named_enum;
use crate::values::decimal::whole_number;
use crate::values::{Amount, Currency, FaultCode, HttpsUrl, InvalidValue, PlanId, Timestamp};

named_enum! {
    /// The manager of a subscription, which moves it from status to status and from period to period.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ManagedBy {
        /// The callers of the service, by updates.
        #[default]
        Caller = "caller",
        /// The service itself, by the clock.
        Clock = "clock",
        /// A payment provider, whose state is copied.
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

    /// The quantity, if it lies in the range.
    pub fn new(number: u64) -> Result<Self, InvalidValue> {
        match u32::try_from(number) {
            Ok(number @ 1..=Self::MAX) => Ok(Self(number)),
            _ => Err(InvalidValue::new(
                FaultCode::OutOfRange,
                format!("must be from 1 to {}", Self::MAX),
            )),
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

/// The price of a subscription, and the moments at which its billing acts.
///
/// Its JSON is the one that stores keep, not the one that the API returns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BillingState {
    /// The price of one unit for one billing cycle, from the next period on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Amount>,
    /// The currency of price and credit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<Currency>,
    /// The amount that is owed to the subscriber; the next periods use it.
    pub credit: Amount,
    /// When the free trial ends, or ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_ends_at: Option<Timestamp>,
    /// When a paused subscription resumes by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes_at: Option<Timestamp>,
    /// The start of the running period, or of the trial, if the clock began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_period_start: Option<Timestamp>,
    /// Since when a payment has failed without a later success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past_due_since: Option<Timestamp>,
    /// When the clock must look at the subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_action_at: Option<Timestamp>,
    /// The change that happens at the next renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_change: Option<ScheduledChange>,
    /// Price times quantity of the running period as it was started or last prorated; 0 in a trial. Not shown.
    pub period_value: Amount,
    /// The part of the credit that changes of plan have made of payments. Not shown.
    #[serde(skip_serializing_if = "Amount::is_zero")]
    pub credit_of_changes: Amount,
    /// The moment up to which the running period was paid for by other terms: that of the last change of plan within
    /// it. Not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// The state that a cancellation found, if the subscription is cancelled; resume restores it. A scheduled change stays where it
    /// is, and is hidden. Not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Cancellation>,
    /// When no retry of a failed payment was left. Not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dunning_ended_at: Option<Timestamp>,
    /// When a subscription that waits for its first payment expires. Not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lapses_at: Option<Timestamp>,
    /// The renewal of which the subscriber was reminded. Not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reminded_for: Option<Timestamp>,
    /// The page of the payment provider on which the subscriber manages the subscription, if a provider runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manage_url: Option<HttpsUrl>,
}

/// The state that a cancellation found, and who chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    /// The status before it.
    pub status: SubscriptionStatus,
    /// The end that was set before it, such as that of a fixed term.
    pub ends_at: Option<Timestamp>,
    /// True if the subscriber cancelled, who may undo it.
    pub by_user: bool,
}

impl Cancellation {
    /// The cancellation of a subscription, by an operator.
    pub fn of(subscription: &Subscription) -> Self {
        let Subscription { status, ends_at, .. } = *subscription;
        Self { status, ends_at, by_user: false }
    }

    /// The cancellation, if it is not the usual one: of an active subscription without an end, by an operator.
    pub fn kept(self) -> Option<Self> {
        let is_usual = self.status == SubscriptionStatus::Active && self.ends_at.is_none();
        (self.by_user || !is_usual).then_some(self)
    }
}

/// The terms of a subscription: its plan, and what it pays how often.
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

/// A change that happens at the next renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduledChange {
    /// Another plan, price, cycle or quantity.
    ChangePlan(Terms),
    /// A pause.
    Pause {
        /// When the pause ends by itself.
        resumes_at: Option<Timestamp>,
    },
}

impl Subscription {
    /// The change that happens at the next renewal; `None` while the subscription is cancelled.
    pub fn scheduled_change(&self) -> Option<ScheduledChange> {
        let change = self.billing.as_ref()?.scheduled_change;
        change.filter(|_| self.status != SubscriptionStatus::Cancelled)
    }

    /// The plan that the subscription is scheduled to change to, also if it must be resumed first.
    pub fn scheduled_plan_id(&self) -> Option<PlanId> {
        match self.billing.as_ref()?.scheduled_change? {
            ScheduledChange::ChangePlan(terms) => Some(terms.subscription_plan_id),
            ScheduledChange::Pause { .. } => None,
        }
    }
}

impl BillingState {
    /// Clears all that the clock would still do.
    pub fn stop(&mut self) {
        self.next_action_at = None;
        self.scheduled_change = None;
        self.resumes_at = None;
        self.dunning_ended_at = None;
        self.lapses_at = None;
        self.cancelled = None;
    }

    /// The state of a subscription that is left to its callers: price, credit, trial, the end of a pause and what a
    /// cancellation found stay, and that a cancelled one is behind.
    #[must_use]
    pub fn released(self) -> Self {
        let Self { price, currency, credit, trial_ends_at, resumes_at, mut cancelled, .. } = self;
        if let Some(found) = cancelled.as_mut().filter(|_| self.past_due_since.is_some()) {
            found.status = SubscriptionStatus::PastDue;
        }
        Self { price, currency, credit, trial_ends_at, resumes_at, cancelled, ..Self::default() }
    }

    /// The state in its box, or `None` if nothing of it is set.
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
                // The state that a cancellation found is kept for a subscription without billing too.
                let is_empty = billing.cancelled.is_some()
                    && BillingState { cancelled: None, ..BillingState::clone(billing) }.kept().is_none();
                (!is_empty).then_some(billing.credit)
            }
        }
    };
}

of_billing! {
    /// The price of one unit for one billing cycle, from the next period on.
    price: Amount;
    /// The currency of price and credit.
    currency: Currency;
    /// When the free trial ends, or ended.
    trial_ends_at: Timestamp;
    /// When a paused subscription resumes by itself.
    resumes_at: Timestamp;
    /// Since when a payment has failed without a later success.
    past_due_since: Timestamp;
    /// When the clock must look at the subscription.
    next_action_at: Timestamp;
}
