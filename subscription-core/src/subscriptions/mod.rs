//! Subscriptions: the plan that a user has, its status, and its start and end.

mod access;
mod billing;
mod check;
mod discount;
mod input;
mod lifecycle;
mod managed;
mod observed;
mod period;
mod plan_change;
mod shown;
mod verbs;

use serde::Deserialize;

use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid};
pub use access::Phase;
pub use billing::{
    BillingState, Cancellation, ChangePayment, ManagedBy, Quantity, ScheduledChange, Terms,
};
pub use discount::{Discount, NewDiscount, ShownDiscount};
pub use input::{NewSubscription, NoInput, SubscriptionChanges};
pub use lifecycle::SubscriptionStatus;
pub use managed::Managed;
pub use observed::{ObservedSubscription, Renewal};
pub use period::{Period, Schedule};
pub(crate) use plan_change::Settlement;
pub use plan_change::{AgreedQuote, PlanChange, Proration, Quote};
pub use shown::ShownChange;
pub use verbs::{Action, CancelInput, Effective, PauseInput};

use crate::plans::BillingCycle;
use crate::values::{
    ExternalId, Fault, Faults, Field, InvalidTransition, InvalidValue, Metadata, PlanId,
    SubscriptionId, Timestamp, UserId, Version,
};

/// The subscription of a user to a plan.
///
/// Its JSON is the one that the API returns. A store must not store this JSON: it lacks `anchor_at` and `live_key`, and
/// reading it does not restore `billing`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Subscription {
    /// The subscription's id, which never changes.
    pub id: SubscriptionId,
    /// The user who has the subscription.
    pub user_id: UserId,
    /// The plan.
    pub subscription_plan_id: PlanId,
    /// The subscription's id at the payment provider; unique where set.
    pub external_subscription_id: Option<ExternalId>,
    /// How often the subscription is paid.
    pub billing_cycle: BillingCycle,
    /// The status of the subscription.
    pub status: SubscriptionStatus,
    /// True if the subscription grants access at the time of reading: see [`Subscription::as_of`].
    pub is_active: bool,
    /// When the next period starts and must be paid; `None` if the subscription does not renew.
    pub renews_at: Option<Timestamp>,
    /// When the subscription begins: it grants no access before that.
    pub starts_at: Timestamp,
    /// When the subscription ends: it grants no access from then on, whatever its status. `None` if it has no end.
    pub ends_at: Option<Timestamp>,
    /// The keys and texts that the client attached to the record.
    pub metadata: Option<Metadata>,
    /// When the subscription was created.
    pub created_at: Timestamp,
    /// When the record was last written.
    pub updated_at: Timestamp,
    /// The number of times that the record was written.
    pub version: Version,
    /// True if the subscription is blocked: it grants no access, whatever its status.
    #[serde(default)]
    pub blocked: bool,
    /// The moment from which the billing periods are counted; `None` if they are counted from `starts_at`.
    #[serde(skip)]
    pub anchor_at: Option<Timestamp>,
    /// The party that changes the status of the subscription and starts its periods.
    #[serde(default)]
    pub managed_by: ManagedBy,
    /// The number of units that the subscription pays for.
    #[serde(default)]
    pub quantity: Quantity,
    /// The price, the credit and the times of the subscription's billing; `None` if none of these is set.
    #[serde(skip)]
    pub billing: Option<Box<BillingState>>,
    /// A text that only one subscription can have at a time: the id of the user, or the ids of the user and the
    /// product. It is set only if a setting allows a user only one live subscription, or only one for each product.
    #[serde(skip)]
    pub live_key: Option<Box<str>>,
}

/// The reason why a subscription cannot be created or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionRefused {
    /// The fields contradict each other.
    #[error(transparent)]
    Invalid(#[from] Faults),
    /// The lifecycle does not allow the transition.
    #[error(transparent)]
    Transition(#[from] InvalidTransition),
    /// The input would change fields that only the manager of the subscription sets: the clock or a provider.
    #[error(transparent)]
    Managed(#[from] Managed),
}

impl Subscription {
    /// The new subscription that the input describes; `plan_cycle` is the billing cycle of its plan.
    pub fn create(
        new: NewSubscription,
        plan_cycle: BillingCycle,
        id: SubscriptionId,
        now: Timestamp,
    ) -> Result<Self, Faults> {
        let billing_cycle = new.billing_cycle.unwrap_or(plan_cycle);
        let starts_at = new.starts_at.unwrap_or(now);
        let trial_ends_at = new.trial_ends_at.or(None);
        let by_start = match trial_ends_at {
            _ if starts_at > now => Pending,
            Some(_) => OnTrial,
            None => Active,
        };
        let status = new.status.unwrap_or(by_start);
        let trial = trial_ends_at.filter(|_| matches!(status, Pending | OnTrial));
        let first_renewal = new.renews_at.is_absent() && trial.is_none();
        let billing = BillingState {
            price: new.price,
            currency: new.currency,
            credit: new.credit.unwrap_or_default(),
            trial_ends_at,
            resumes_at: new.resumes_at,
            discount: new.discount.map(NewDiscount::unused),
            ..BillingState::default()
        };
        let mut made = Self {
            id,
            user_id: new.user_id,
            subscription_plan_id: new.subscription_plan_id,
            external_subscription_id: new.external_subscription_id,
            billing_cycle,
            status,
            is_active: false,
            renews_at: new
                .renews_at
                .or_else(|| trial.or_else(|| Schedule::new(starts_at, billing_cycle).start_of(1))),
            starts_at,
            ends_at: new.ends_at,
            metadata: new.metadata,
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
            blocked: false,
            anchor_at: None,
            managed_by: new.managed_by.unwrap_or_default(),
            quantity: new.quantity.unwrap_or_default(),
            billing: billing.kept(),
            live_key: None,
        };
        made.set_end_by_status(now);
        // If the renewal was computed from `starts_at`, a period starts at the renewal, so `anchor_at` is not needed.
        if !first_renewal {
            made.set_anchor();
        }
        let mut faults = made.misplaced(false);
        made.billing_faults(&mut faults);
        made.discount_fault(&mut faults);
        made.set_access(new.is_active, now).unwrap_or_else(|refused| faults.push(refused));
        // In an update, an `is_active` of `false` may be the value that the caller has read and sends back, so it does
        // not block a subscription that grants no access at `now`. A new record was never read. So here `false` blocks
        // each subscription whose status grants access, even if the subscription has not begun.
        made.blocked = new.is_active == Some(false) && made.status.grants_access();
        faults.into_result()?;
        Ok(made)
    }

    /// The subscription, expired at `now` from any status, and managed by the caller from then on; `None` if it is
    /// expired already. Used when an account is deleted.
    pub fn expire(&self, now: Timestamp) -> Option<Self> {
        let mut expired = self.expired(now)?;
        expired.managed_by = ManagedBy::Caller;
        if let Some(billing) = &mut expired.billing {
            billing.manage_url = None;
            billing.discount = None;
        }
        Some(expired)
    }

    /// The subscription, expired at `now` from any status; `None` if it is expired already.
    pub(crate) fn expired(&self, now: Timestamp) -> Option<Self> {
        if self.status == Expired {
            return None;
        }
        let updated_at = now.max(self.updated_at);
        let version = self.version.next();
        let mut expired = Self {
            status: Expired,
            is_active: false,
            live_key: None,
            updated_at,
            version,
            ..self.clone()
        };
        if let Some(billing) = &mut expired.billing {
            billing.stop();
        }
        expired.set_end_by_status(now);
        Some(expired)
    }

    /// The subscription after `changes`, or `None` if they change nothing.
    ///
    /// An absent field stays as it is, with these exceptions:
    ///
    /// - A subscription that is cancelled or expires gets an `ends_at`.
    /// - A cancelled subscription that is resumed before its end gets back the end that it had before the
    ///   cancellation. If its end was changed while it was cancelled, and the cancellation is stored (see
    ///   [`Cancellation::kept`]), the changed end stays.
    /// - A subscription that becomes `one_time` loses its renewal.
    /// - A `one_time` subscription that gets another cycle renews at the first start of a period after `now`.
    pub fn change(
        &self,
        changes: SubscriptionChanges,
        now: Timestamp,
    ) -> Result<Option<Self>, SubscriptionRefused> {
        let current = self.as_of(now);
        current.check_managed(&changes)?;
        let status = changes.status.unwrap_or(current.status);
        let stepped = status != current.status;
        let comes_back = stepped && current.status == Cancelled && status != Expired;
        let only_start = changes.ends_at.is_absent() && changes.renews_at.is_absent();
        let ends_again = current.ends_again(&changes, now);
        let mut billing = current.changed_billing(&changes);
        let found = billing.as_ref().and_then(|billing| billing.cancelled);
        if stepped {
            let mut state = billing.take().map_or_else(BillingState::default, |state| *state);
            state.cancelled = Cancellation::of(&current).kept().filter(|_| status == Cancelled);
            billing = state.kept();
        } else if let Some(state) = &mut billing
            && let Some(found) = &mut state.cancelled
            && changes.ends_at.sets(current.ends_at.as_ref())
        {
            // If the caller changes the end while the subscription is cancelled, the changed end stays after a resume.
            // So it replaces the end that the stored cancellation would give back.
            found.ends_at = changes.ends_at.or(None);
        }
        let starts_at = changes.starts_at.unwrap_or(current.starts_at);
        let mut next = Self {
            user_id: changes.user_id.unwrap_or(current.user_id),
            subscription_plan_id: changes
                .subscription_plan_id
                .unwrap_or(current.subscription_plan_id),
            external_subscription_id: changes
                .external_subscription_id
                .or(current.external_subscription_id.clone()),
            billing_cycle: changes.billing_cycle.unwrap_or(current.billing_cycle),
            status,
            renews_at: changes.renews_at.or(current.renews_at),
            starts_at,
            // If the subscription is over (expired, or cancelled and ended), its end cannot be cleared.
            ends_at: if changes.ends_at == Field::Null && current.is_over(now) {
                current.ends_at
            } else {
                let kept =
                    if comes_back { found.and_then(|it| it.ends_at) } else { current.ends_at };
                changes.ends_at.or(kept)
            },
            metadata: changes.metadata.or(current.metadata.clone()),
            managed_by: changes.managed_by.unwrap_or(current.managed_by),
            quantity: changes.quantity.unwrap_or(current.quantity),
            billing,
            // If `starts_at` changes, periods are counted from `starts_at` again.
            anchor_at: current.anchor_at.filter(|_| starts_at == current.starts_at),
            ..current.clone()
        };
        if next.billing_cycle != current.billing_cycle {
            next.change_cycle(current.billing_cycle, changes.renews_at.is_absent(), now);
        }
        // If the caller cleared the end of a cancelled subscription, the end is computed again: without an end, the
        // subscription would never end.
        if stepped || next.ends_at.is_none() {
            next.set_end_by_status(now);
        }
        next.set_anchor();
        let mut faults = next.misplaced(only_start);
        next.billing_faults(&mut faults);
        if let Some(fault) = ends_again {
            faults.push(fault);
        }
        if next.managed_by == ManagedBy::Provider && current.managed_by != ManagedBy::Provider {
            faults.push(input::not_by_provider().at("managed_by"));
        }
        next.set_access(changes.is_active, now).unwrap_or_else(|refused| faults.push(refused));
        faults.into_result()?;
        let trial_ends_at = next.trial_ends_at();
        current.status.step(status, current.ends_at, trial_ends_at, now.max(self.updated_at))?;
        Ok((next != current).then(|| Self {
            // `updated_at` stays as it is if the clock was set back. `phase_at` never uses a time before `updated_at`,
            // so an earlier `updated_at` could change whether the subscription has begun or ended.
            updated_at: now.max(self.updated_at),
            version: self.version.next(),
            ..next
        }))
    }

    /// The subscription with the `is_active` of `now`: its access may have begun or ended since it was written.
    #[must_use]
    pub fn as_of(&self, now: Timestamp) -> Self {
        Self { is_active: self.is_active_at(now), ..self.clone() }
    }

    /// The schedule of the subscription's periods.
    pub fn schedule(&self) -> Schedule {
        Schedule::new(self.anchor_at.unwrap_or(self.starts_at), self.billing_cycle)
    }

    fn set_end_by_status(&mut self, now: Timestamp) {
        // An end must not be before the start. So if the subscription has not begun, its start is used in place of
        // `now`.
        let now = now.max(self.starts_at);
        match self.status {
            Cancelled => {
                let renewal = self.renews_at.map_or(now, |renews_at| renews_at.max(now));
                self.ends_at = self.ends_at.or(Some(renewal));
            }
            Expired => {
                self.ends_at = Some(self.ends_at.map_or(now, |ends_at| ends_at.min(now)));
            }
            Pending | OnTrial | Active | PastDue | Unpaid | Paused => {}
        }
    }

    /// Adapts the subscription to its new billing cycle. A change to or from `one_time` also sets the renewal, unless
    /// the caller sent one (`sets_renewal` is then false). If a period counted from `starts_at` starts at the renewal,
    /// periods are counted from `starts_at` again.
    fn change_cycle(&mut self, from: BillingCycle, sets_renewal: bool, now: Timestamp) {
        if sets_renewal && self.billing_cycle == BillingCycle::ONE_TIME {
            self.renews_at = None;
        } else if sets_renewal && from == BillingCycle::ONE_TIME {
            self.renews_at = self.schedule().next_after(now.max(self.starts_at));
        }
        let by_start = Schedule::new(self.starts_at, self.billing_cycle);
        if self.renews_at.is_some_and(|renews_at| by_start.starts_at(renews_at)) {
            self.anchor_at = None;
        }
    }

    /// Counts periods from the renewal, if no period of the present schedule starts at the renewal.
    fn set_anchor(&mut self) {
        let grid = self.schedule();
        let off_grid = |renews_at: &Timestamp| !grid.starts_at(*renews_at);
        if self.billing_cycle != BillingCycle::ONE_TIME
            && let Some(renews_at) = self.renews_at.filter(off_grid)
        {
            self.anchor_at = Some(renews_at);
        }
    }

    fn set_access(&mut self, wanted: Option<bool>, now: Timestamp) -> Result<(), Fault> {
        let grants = self.could_grant_at(now);
        match wanted {
            // An `is_active` of `true` removes a block, even if the status of the subscription grants no access.
            Some(true) if grants || self.blocked => self.blocked = false,
            Some(true) => {
                let refused = InvalidValue::not_allowed(self.why_inactive(now));
                return Err(refused.at("is_active"));
            }
            // An `is_active` of `false` blocks only if the subscription would grant access at `now`. Otherwise a caller
            // that sends a record back as it was read could change the record.
            Some(false) => self.blocked |= grants,
            None => {}
        }
        self.is_active = self.is_active_at(now);
        Ok(())
    }

    fn why_inactive(&self, now: Timestamp) -> String {
        let why = match self.phase_at(now) {
            _ if !self.status.grants_access() => format!("status {} grants no access", self.status),
            Phase::Waiting => "it has not begun".to_owned(),
            Phase::Current | Phase::Over => "it has ended".to_owned(),
        };
        format!("must not be true: {why}")
    }

    /// The fault of changes that set an end in the future for a subscription that is over.
    fn ends_again(&self, changes: &SubscriptionChanges, now: Timestamp) -> Option<Fault> {
        let Field::Value(ends_at) = changes.ends_at else { return None };
        let message = "must not be in the future: the subscription is over";
        (self.is_over(now) && ends_at > now && Some(ends_at) != self.ends_at)
            .then(|| InvalidValue::out_of_range(message).at("ends_at"))
    }

    /// True if the subscription cannot be resumed: it has expired, or was cancelled and has ended.
    fn is_over(&self, now: Timestamp) -> bool {
        match self.status {
            Expired => true,
            Cancelled => self.phase_at(now) == Phase::Over,
            Pending | OnTrial | Active | PastDue | Unpaid | Paused => false,
        }
    }

    /// The faults of a `renews_at` and an `ends_at` before `starts_at`. With `only_start`, the caller sent neither of
    /// these two times, so the faults name `starts_at`.
    fn misplaced(&self, only_start: bool) -> Faults {
        let mut faults = Faults::default();
        for fault in before_start(self.starts_at, self.renews_at, self.ends_at) {
            faults.push(if only_start {
                let message = format!("must not be after {}", fault.field);
                InvalidValue::new(fault.code, message).at("starts_at")
            } else {
                fault
            });
        }
        faults
    }
}

fn before_start(
    starts_at: Timestamp,
    renews_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
) -> impl Iterator<Item = Fault> {
    [("renews_at", renews_at), ("ends_at", ends_at)]
        .into_iter()
        .filter(move |(_, time)| time.is_some_and(|time| time < starts_at))
        .map(|(field, _)| InvalidValue::out_of_range("must not be before starts_at").at(field))
}

/// The fault of a trial whose end is not after the start.
fn trial_before_start() -> Fault {
    let message = "must be after starts_at";
    InvalidValue::out_of_range(message).at("trial_ends_at")
}
