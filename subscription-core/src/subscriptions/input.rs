//! The inputs that create or change a subscription.

use serde::Serialize;

use super::{SubscriptionStatus, before_start};
use crate::plans::{BillingCycle, Plan};
use crate::values::clock::Timestamp;
use crate::values::id::{PlanId, UserId};
use crate::values::input::{Field, Fields, InputError, boolean, string};
use crate::values::metadata::Metadata;
use crate::values::text::ExternalId;

/// A subscription to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewSubscription {
    /// See [`Subscription::user_id`](super::Subscription::user_id).
    pub user_id: UserId,
    /// See [`Subscription::subscription_plan_id`](super::Subscription::subscription_plan_id).
    pub subscription_plan_id: PlanId,
    /// See [`Subscription::external_subscription_id`](super::Subscription::external_subscription_id).
    pub external_subscription_id: Option<ExternalId>,
    /// That of the plan if `None`.
    pub billing_cycle: Option<BillingCycle>,
    /// Any status may be the first. `None`: pending if it starts later, else active.
    pub status: Option<SubscriptionStatus>,
    /// By status and time if `None`; `false` blocks access.
    pub is_active: Option<bool>,
    /// One cycle after the start if absent.
    #[serde(skip_serializing_if = "Field::is_absent")]
    pub renews_at: Field<Timestamp>,
    /// Now if `None`.
    pub starts_at: Option<Timestamp>,
    /// See [`Subscription::ends_at`](super::Subscription::ends_at).
    pub ends_at: Option<Timestamp>,
    /// See [`Subscription::metadata`](super::Subscription::metadata).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

impl NewSubscription {
    /// A subscription of `user_id` to a plan; the rest is as the plan and the clock say.
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
        }
    }

    /// Reads a JSON object and tells all that is wrong with it.
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
            ..Self::new(user_id, plan_id)
        });
        fields.finish(subscription)
    }
}

/// Changes to a subscription; what is `None` or absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionChanges {
    /// See [`Subscription::user_id`](super::Subscription::user_id).
    pub user_id: Option<UserId>,
    /// See [`Subscription::subscription_plan_id`](super::Subscription::subscription_plan_id).
    pub subscription_plan_id: Option<PlanId>,
    /// See [`Subscription::external_subscription_id`](super::Subscription::external_subscription_id).
    pub external_subscription_id: Field<ExternalId>,
    /// How often it is paid from now on. `None`: as before, or as the new plan says if the plan changes.
    pub billing_cycle: Option<BillingCycle>,
    /// The next status, as far as the lifecycle allows.
    pub status: Option<SubscriptionStatus>,
    /// `false` blocks access, `true` lifts the block.
    pub is_active: Option<bool>,
    /// One on the grid of periods keeps the grid, another moves it.
    pub renews_at: Field<Timestamp>,
    /// See [`Subscription::starts_at`](super::Subscription::starts_at).
    pub starts_at: Option<Timestamp>,
    /// See [`Subscription::ends_at`](super::Subscription::ends_at).
    pub ends_at: Field<Timestamp>,
    /// Replaces all of [`Subscription::metadata`](super::Subscription::metadata).
    pub metadata: Field<Metadata>,
}

impl SubscriptionChanges {
    /// A change of the status alone.
    pub fn status(status: SubscriptionStatus) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// The changes with the cycle of the plan that they lead to, unless they name one.
    #[must_use]
    pub(crate) fn with_cycle_of(mut self, new_plan: Option<&Plan>) -> Self {
        self.billing_cycle = self.billing_cycle.or(new_plan.map(|plan| plan.billing_cycle));
        self
    }

    /// Reads a JSON object and tells all that is wrong with it.
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
        };
        let (renews_at, ends_at) = (changes.renews_at.or(None), changes.ends_at.or(None));
        note_misplaced(&mut fields, changes.starts_at, renews_at, ends_at);
        fields.finish(Some(changes))
    }
}

/// Notes times that can be seen to lie before the start from the input alone, beside its other faults.
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

/// The input of a verb, which has no fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoInput;

impl NoInput {
    /// Parses no text at all, or a JSON object without fields.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        if json.is_empty() { Ok(Self) } else { Fields::parse(json)?.finish(Some(Self)) }
    }
}
