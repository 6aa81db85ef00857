//! The part of a subscription that its billing needs: data only, the rules are elsewhere.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Subscription, SubscriptionChanges, SubscriptionStatus};
use crate::plans::BillingCycle;
use crate::values::as_text::named_enum;
use crate::values::clock::Timestamp;
use crate::values::currency::Currency;
use crate::values::decimal::Amount;
use crate::values::faults::{Fault, FaultCode, Faults, InvalidValue};
use crate::values::id::PlanId;
use crate::values::input::Field;
use crate::values::text::HttpsUrl;

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
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
            return Err(InvalidValue::new(FaultCode::WrongType, "must be a whole number"));
        }
        // A number that does not fit, or has a sign, is out of range.
        Self::new(text.parse().unwrap_or(0))
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
    /// What the cancellation of a cancelled subscription found; resume restores it. A scheduled change stays where it
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

/// What a cancellation found, and who chose it.
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

fn differs<T: PartialEq>(change: Option<&T>, current: &T) -> bool {
    change.is_some_and(|change| change != current)
}

/// A change of fields that the clock or a provider manages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct Managed {
    /// The manager of the subscription.
    pub by: ManagedBy,
    /// The fields that the input would change.
    pub fields: Vec<&'static str>,
}

impl Managed {
    /// The reason, and what the caller can do instead.
    fn message(&self) -> String {
        let manager = match self.by {
            ManagedBy::Caller => {
                return "callers manage the subscription: set managed_by to clock first".to_owned();
            }
            ManagedBy::Clock => "the clock",
            ManagedBy::Provider => "a payment provider",
        };
        let verbs = self.fields.iter().any(|field| ["status", "ends_at"].contains(field));
        let is_of_plan = |field| ["subscription_plan_id", "billing_cycle"].contains(field);
        let of_plan = !self.fields.is_empty() && self.fields.iter().all(is_of_plan);
        let sets = match self.fields.join(", ") {
            fields if fields.is_empty() => String::new(),
            fields => format!(" and sets its {fields}"),
        };
        let instead = match self.by {
            ManagedBy::Clock if verbs => ": use cancel, pause or resume instead",
            ManagedBy::Clock if of_plan => ": use change-plan instead",
            ManagedBy::Clock => ": set managed_by to caller first",
            ManagedBy::Caller | ManagedBy::Provider => "",
        };
        format!("{manager} manages the subscription{sets}{instead}")
    }
}

impl Subscription {
    /// Refuses changes of the fields that the manager of the subscription sets, unless the manager changes too.
    pub(super) fn check_managed(&self, changes: &SubscriptionChanges) -> Result<(), Managed> {
        let by = self.managed_by;
        if by == ManagedBy::Caller || changes.managed_by.is_some_and(|next| next != by) {
            return Ok(());
        }
        let by_clock = [
            ("status", differs(changes.status.as_ref(), &self.status)),
            (
                "subscription_plan_id",
                differs(changes.subscription_plan_id.as_ref(), &self.subscription_plan_id),
            ),
            ("billing_cycle", differs(changes.billing_cycle.as_ref(), &self.billing_cycle)),
            ("starts_at", differs(changes.starts_at.as_ref(), &self.starts_at)),
            ("renews_at", changes.renews_at.sets(self.renews_at.as_ref())),
            ("ends_at", changes.ends_at.sets(self.ends_at.as_ref())),
            ("currency", changes.currency.sets(self.currency().as_ref())),
        ];
        let external_id = self.external_subscription_id.as_ref();
        let owed = self.credit().unwrap_or_default();
        // A client that sends a record back may write 19.9 for 19.90.
        let same = |one: Amount, other: Amount| one.value() == other.value();
        let by_provider = [
            ("external_subscription_id", changes.external_subscription_id.sets(external_id)),
            (
                "price",
                match changes.price {
                    Field::Value(price) => !self.price().is_some_and(|own| same(own, price)),
                    Field::Absent | Field::Null => changes.price.sets(self.price().as_ref()),
                },
            ),
            ("quantity", differs(changes.quantity.as_ref(), &self.quantity)),
            ("credit", changes.credit.is_some_and(|credit| !same(credit, owed))),
            ("trial_ends_at", changes.trial_ends_at.sets(self.trial_ends_at().as_ref())),
            ("resumes_at", changes.resumes_at.sets(self.resumes_at().as_ref())),
        ];
        let by_provider = by_provider.into_iter().filter(|_| by == ManagedBy::Provider);
        let fields = by_clock.into_iter().chain(by_provider);
        let fields: Vec<_> = fields.filter_map(|(field, set)| set.then_some(field)).collect();
        if fields.is_empty() { Ok(()) } else { Err(Managed { by, fields }) }
    }

    /// The billing state with the fields that a caller may set. A subscription that leaves its provider has only
    /// those; one that stays there keeps the provider's.
    pub(super) fn changed_billing(
        &self,
        changes: &SubscriptionChanges,
    ) -> Option<Box<BillingState>> {
        let mut current = self.billing.as_deref().cloned().unwrap_or_default();
        if self.managed_by == ManagedBy::Provider {
            if changes.managed_by.is_none_or(|next| next == ManagedBy::Provider) {
                return self.billing.clone();
            }
            current = current.released();
        }
        let next = BillingState {
            price: changes.price.or(current.price),
            currency: changes.currency.or(current.currency),
            credit: changes.credit.unwrap_or(current.credit),
            trial_ends_at: changes.trial_ends_at.or(current.trial_ends_at),
            resumes_at: changes.resumes_at.or(current.resumes_at),
            ..current
        };
        next.kept()
    }

    /// Adds the faults of price, credit, quantity and trial.
    pub(super) fn billing_faults(&self, faults: &mut Faults) {
        let Some(billing) = &self.billing else { return };
        if let Some(currency) = billing.currency {
            let price = billing.price.map_or(Ok(()), |price| currency.check_digits(price, "price"));
            let credit = currency.check_digits(billing.credit, "credit");
            [price, credit]
                .into_iter()
                .filter_map(Result::err)
                .for_each(|fault| faults.push(fault));
        }
        if billing.price.is_some_and(|price| price.times(self.quantity.get()).is_none()) {
            let message = "times the price must have at most 15 digits before the point";
            faults.push(InvalidValue::new(FaultCode::OutOfRange, message).at("quantity"));
        }
        if billing.trial_ends_at.is_some_and(|end| end <= self.starts_at) {
            faults.push(trial_before_start());
        }
    }
}

/// The fault of a trial that ends at the start or before it.
pub(super) fn trial_before_start() -> Fault {
    let message = "must be after starts_at";
    InvalidValue::new(FaultCode::OutOfRange, message).at("trial_ends_at")
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
                // What a cancellation found is kept for a subscription without billing too.
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
