//! The inputs that create or change a subscription.

use serde::Serialize;

use super::{
    ManagedBy, NewDiscount, Quantity, SubscriptionStatus, before_start, trial_before_start,
};
use crate::plans::{BillingCycle, Plan};
use crate::values::as_text::must_be_one_of;
use crate::values::input::{amount, boolean, string};
use crate::values::{
    Amount, Currency, ExternalId, Field, Fields, InputError, InvalidValue, Metadata, PlanId,
    Timestamp, UserId,
};

/// The input that creates a subscription. Its fields are those of [`Subscription`](super::Subscription).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the subscription")]
pub struct NewSubscription {
    pub user_id: UserId,
    pub subscription_plan_id: PlanId,
    pub external_subscription_id: Option<ExternalId>,
    /// The billing cycle; if `None`, the plan's.
    pub billing_cycle: Option<BillingCycle>,
    /// The first status, which may be any. If `None`: pending if `starts_at` is in the future, else on trial if there
    /// is a trial, else active.
    pub status: Option<SubscriptionStatus>,
    /// `false` blocks access; with `None`, the status and the time decide whether there is access.
    pub is_active: Option<bool>,
    /// The first renewal. If absent: the end of the trial, else one cycle after the start; for a one-time cycle, none.
    #[serde(skip_serializing_if = "Field::is_absent")]
    pub renews_at: Field<Timestamp>,
    /// The start; now if `None`.
    pub starts_at: Option<Timestamp>,
    pub ends_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// The manager of the subscription. If `None`, it is the caller if there is an `external_subscription_id`; else the
    /// clock if the plan has a currency and billing is enabled; else the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<ManagedBy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity: Option<Quantity>,
    /// The price of one unit. If `None` and the clock manages the subscription, it is the plan's price, provided that
    /// the subscription has the plan's currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Amount>,
    /// The currency. If `None` and the clock manages the subscription, it is the plan's currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<Currency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit: Option<Amount>,
    /// The end of the trial. If both this field and the status are absent, the user's first subscription gets the trial
    /// of the plan; null means no trial.
    #[serde(skip_serializing_if = "Field::is_absent")]
    pub trial_ends_at: Field<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes_at: Option<Timestamp>,
    /// A discount from the first period on. If the input has a status, the running period counts as paid, and the
    /// discount begins with the next period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discount: Option<NewDiscount>,
}

impl NewSubscription {
    /// A subscription of a user to a plan, with the defaults of the plan, from now on.
    pub const fn new(user_id: UserId, subscription_plan_id: PlanId) -> Self {
        Self {
            user_id,
            subscription_plan_id,
            external_subscription_id: None,
            billing_cycle: None,
            status: None,
            is_active: None,
            renews_at: Field::Absent,
            starts_at: None,
            ends_at: None,
            metadata: None,
            managed_by: None,
            quantity: None,
            price: None,
            currency: None,
            credit: None,
            trial_ends_at: Field::Absent,
            resumes_at: None,
            discount: None,
        }
    }

    /// Parses a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let user_id = fields.required("user_id", string);
        let subscription_plan_id = fields.required("subscription_plan_id", string);
        let external_subscription_id = fields.nullable("external_subscription_id", string).or(None);
        let billing_cycle = fields.optional("billing_cycle", string);
        let status = fields.optional("status", string);
        let is_active = fields.optional("is_active", boolean);
        let renews_at = fields.nullable("renews_at", string);
        let starts_at = fields.optional("starts_at", string);
        let ends_at = fields.nullable("ends_at", string).or(None);
        let metadata = fields.metadata().or(None);
        let managed_by = fields.optional("managed_by", managed_by);
        let quantity = fields.optional("quantity", str::parse);
        let price = fields.nullable("price", amount).or(None);
        let currency = fields.nullable("currency", string).or(None);
        let credit = fields.nullable("credit", amount).or(None);
        let trial_ends_at = fields.nullable("trial_ends_at", string);
        let resumes_at = fields.nullable("resumes_at", string).or(None);
        let discount = fields.object("discount", NewDiscount::from_json);
        note_digits(&mut fields, currency, price, credit);
        note_trial(&mut fields, starts_at, trial_ends_at.or(None));
        note_misplaced(&mut fields, starts_at, renews_at.or(None), ends_at);
        let subscription = user_id.zip(subscription_plan_id).map(|(user_id, plan_id)| Self {
            external_subscription_id,
            billing_cycle,
            status,
            is_active,
            renews_at,
            starts_at,
            ends_at,
            metadata,
            managed_by,
            quantity,
            price,
            currency,
            credit,
            trial_ends_at,
            resumes_at,
            discount,
            ..Self::new(user_id, plan_id)
        });
        fields.finish(subscription)
    }
}

/// The input that changes a subscription. A field that is `None` or absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the subscription")]
pub struct SubscriptionChanges {
    pub user_id: Option<UserId>,
    pub subscription_plan_id: Option<PlanId>,
    pub external_subscription_id: Field<ExternalId>,
    /// The billing cycle from now on. If `None`, it is the cycle of the new plan; without a new plan it stays.
    pub billing_cycle: Option<BillingCycle>,
    /// The new status, if the lifecycle allows the change.
    pub status: Option<SubscriptionStatus>,
    /// `false` blocks access, `true` removes the block.
    pub is_active: Option<bool>,
    /// The next renewal. If no period of the schedule starts at this time, periods are counted from this time.
    pub renews_at: Field<Timestamp>,
    pub starts_at: Option<Timestamp>,
    pub ends_at: Field<Timestamp>,
    /// Replaces all of [`Subscription::metadata`](super::Subscription::metadata).
    pub metadata: Field<Metadata>,
    /// The manager of the subscription from now on.
    pub managed_by: Option<ManagedBy>,
    pub quantity: Option<Quantity>,
    pub price: Field<Amount>,
    pub currency: Field<Currency>,
    pub credit: Option<Amount>,
    pub trial_ends_at: Field<Timestamp>,
    pub resumes_at: Field<Timestamp>,
}

impl SubscriptionChanges {
    /// A change of the status alone.
    pub fn status(status: SubscriptionStatus) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// The changes with the billing cycle of the new plan, unless the changes set a billing cycle.
    #[must_use]
    pub(crate) fn with_cycle_of(mut self, new_plan: Option<&Plan>) -> Self {
        self.billing_cycle = self.billing_cycle.or(new_plan.map(|plan| plan.billing_cycle));
        self
    }

    /// Parses a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let changes = Self {
            user_id: fields.optional("user_id", string),
            subscription_plan_id: fields.optional("subscription_plan_id", string),
            external_subscription_id: fields.nullable("external_subscription_id", string),
            billing_cycle: fields.optional("billing_cycle", string),
            status: fields.optional("status", string),
            is_active: fields.optional("is_active", boolean),
            renews_at: fields.nullable("renews_at", string),
            starts_at: fields.optional("starts_at", string),
            ends_at: fields.nullable("ends_at", string),
            metadata: fields.metadata(),
            // `provider` is accepted here, because a caller may send back, as it was read, a subscription that a
            // provider manages.
            managed_by: fields.optional("managed_by", string),
            quantity: fields.optional("quantity", str::parse),
            price: fields.nullable("price", amount),
            currency: fields.nullable("currency", string),
            // The API returns null as the credit of a subscription without billing. A caller may send it back, so null
            // is accepted.
            credit: match fields.nullable("credit", amount) {
                Field::Absent => None,
                credit @ (Field::Null | Field::Value(_)) => {
                    Some(credit.or(None).unwrap_or_default())
                }
            },
            trial_ends_at: fields.nullable("trial_ends_at", string),
            resumes_at: fields.nullable("resumes_at", string),
        };
        let price = changes.price.or(None);
        let currency = changes.currency.or(None);
        note_digits(&mut fields, currency, price, changes.credit);
        note_trial(&mut fields, changes.starts_at, changes.trial_ends_at.or(None));
        let renews_at = changes.renews_at.or(None);
        let ends_at = changes.ends_at.or(None);
        note_misplaced(&mut fields, changes.starts_at, renews_at, ends_at);
        fields.finish(Some(changes))
    }
}

/// Parses the manager of a subscription. `provider` is refused: only the service itself creates these subscriptions,
/// from the state that it reads at the provider.
fn managed_by(json: &str) -> Result<ManagedBy, InvalidValue> {
    match string(json)? {
        ManagedBy::Provider => Err(not_by_provider()),
        by @ (ManagedBy::Caller | ManagedBy::Clock) => Ok(by),
    }
}

/// The error for an input that sets `managed_by` to `provider`: only `caller` and `clock` are allowed.
pub(super) fn not_by_provider() -> InvalidValue {
    must_be_one_of([ManagedBy::Caller, ManagedBy::Clock].into_iter().map(ManagedBy::as_str))
}

/// Adds the faults of amounts that have too many digits for the currency, if the input has the currency too.
fn note_digits(
    fields: &mut Fields<'_>,
    currency: Option<Currency>,
    price: Option<Amount>,
    credit: Option<Amount>,
) {
    for (field, amount) in [("price", price), ("credit", credit)] {
        if let Some((currency, amount)) = currency.zip(amount)
            && let Err(fault) = currency.check_digits(amount, field)
        {
            fields.note(fault);
        }
    }
}

/// Adds the fault of a trial that does not end after the start, if the input has both times.
fn note_trial(
    fields: &mut Fields<'_>,
    starts_at: Option<Timestamp>,
    trial_ends_at: Option<Timestamp>,
) {
    if let Some((starts_at, ends_at)) = starts_at.zip(trial_ends_at)
        && ends_at <= starts_at
    {
        fields.note(trial_before_start());
    }
}

/// Adds the faults of times before the start to the other faults, if the input has the start too.
fn note_misplaced(
    fields: &mut Fields<'_>,
    starts_at: Option<Timestamp>,
    renews_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
) {
    if let Some(starts_at) = starts_at {
        for fault in before_start(starts_at, renews_at, ends_at) {
            fields.note(fault);
        }
    }
}

/// An input without fields, for actions such as resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoInput;

impl NoInput {
    /// Parses an empty text, or a JSON object without fields.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        if json.is_empty() { Ok(Self) } else { Fields::parse(json)?.finish(Some(Self)) }
    }
}
