//! Subscriptions that a payment provider manages: the record is updated to the state that was read at the provider.

use super::SubscriptionStatus::{Cancelled, Expired, PastDue, Unpaid};
use super::{BillingState, ManagedBy, Quantity, Subscription, SubscriptionStatus};
use crate::plans::BillingCycle;
use crate::values::{
    Amount, Currency, ExternalId, HttpsUrl, PlanId, SubscriptionId, Timestamp, UserId, Version,
};

/// The state of a subscription at its payment provider. The fields are those of [`Subscription`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the subscription")]
pub struct ObservedSubscription {
    pub external_subscription_id: ExternalId,
    pub subscription_plan_id: PlanId,
    pub billing_cycle: BillingCycle,
    pub status: SubscriptionStatus,
    pub starts_at: Timestamp,
    pub ends_at: Option<Timestamp>,
    pub renews_at: Renewal,
    pub trial_ends_at: Option<Timestamp>,
    pub resumes_at: Option<Timestamp>,
    pub current_period_start: Option<Timestamp>,
    pub quantity: Quantity,
    pub price: Option<Amount>,
    pub currency: Option<Currency>,
    pub manage_url: Option<HttpsUrl>,
}

/// The next renewal as the provider reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The subscription renews at this moment.
    At(Timestamp),
    /// The subscription does not renew.
    None,
    /// The provider reports no renewal date: a stored subscription keeps its renewal, and a new one has none.
    Kept,
}

impl Subscription {
    /// A new subscription that a provider manages, for the user `user_id`.
    ///
    /// This never fails, because the state exists at the provider already. Dates that contradict each other are
    /// corrected as [`Subscription::observe`] says.
    pub fn observe_new(
        observed: ObservedSubscription,
        id: SubscriptionId,
        user_id: UserId,
        now: Timestamp,
    ) -> Self {
        let blank = Self {
            id,
            user_id,
            subscription_plan_id: observed.subscription_plan_id,
            external_subscription_id: None,
            billing_cycle: observed.billing_cycle,
            status: observed.status,
            is_active: false,
            renews_at: None,
            starts_at: observed.starts_at,
            ends_at: None,
            metadata: None,
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
            blocked: false,
            anchor_at: None,
            managed_by: ManagedBy::Provider,
            quantity: observed.quantity,
            billing: None,
            live_key: None,
        };
        blank.following(observed, now)
    }

    /// The subscription in the state that was observed at its provider, which manages it from now on; `None` if
    /// nothing differs.
    ///
    /// The lifecycle does not bind a provider: any status may follow any other. Id, user, block and metadata stay.
    /// The credit stays too, unless the currency changes. A date before the start becomes the start. If no period
    /// starts at the renewal, periods are counted from the renewal. A trial that ends at the start or before it is
    /// left out.
    pub fn observe(&self, observed: ObservedSubscription, now: Timestamp) -> Option<Self> {
        let now = now.max(self.updated_at);
        let current = self.as_of(now);
        let next = current.following(observed, now);
        (next != current).then(|| Self { updated_at: now, version: self.version.next(), ..next })
    }

    fn following(&self, observed: ObservedSubscription, now: Timestamp) -> Self {
        let ObservedSubscription { status, starts_at, billing_cycle, .. } = observed;
        let raised = |at: Timestamp| at.max(starts_at);
        let renews_at = match observed.renews_at {
            _ if billing_cycle == BillingCycle::ONE_TIME => None,
            Renewal::At(at) => Some(raised(at)),
            Renewal::None => None,
            Renewal::Kept => self.renews_at.map(raised),
        };
        // An expired subscription cannot end in the future: such an end is ignored. If the provider names no end, the
        // stored end stays, provided that the status was cancelled or expired before and has not changed.
        let ends_at = observed.ends_at.filter(|at| status != Expired || *at <= raised(now));
        let set_before = matches!(status, Cancelled | Expired) && status == self.status;
        let ends_at = ends_at.or(self.ends_at.filter(|_| set_before)).map(raised);
        let same_grid = (starts_at, billing_cycle) == (self.starts_at, self.billing_cycle);
        let billing = self.observed_billing(&observed, renews_at, now);
        let mut next = Self {
            subscription_plan_id: observed.subscription_plan_id,
            external_subscription_id: Some(observed.external_subscription_id),
            billing_cycle,
            status,
            renews_at,
            starts_at,
            ends_at,
            anchor_at: self.anchor_at.filter(|_| same_grid),
            managed_by: ManagedBy::Provider,
            quantity: observed.quantity,
            billing: billing.kept(),
            ..self.clone()
        };
        next.set_end_by_status(now);
        next.set_anchor();
        next.is_active = next.is_active_at(now);
        next
    }

    /// The billing state with the values that the provider reports. `next_action_at` and the other fields that only the
    /// clock uses stay empty.
    fn observed_billing(
        &self,
        observed: &ObservedSubscription,
        renews_at: Option<Timestamp>,
        now: Timestamp,
    ) -> BillingState {
        let credit = self.credit().unwrap_or_default();
        let owes = !credit.is_zero();
        // If the provider names no currency and the subscription has credit, the stored currency stays.
        let currency = observed.currency.or(self.currency().filter(|_| owes));
        let fits = |amount: &Amount| {
            currency.is_none_or(|currency| currency.check_digits(*amount, "price").is_ok())
        };
        let same_currency = self.currency().is_none_or(|before| Some(before) == currency);
        let price = observed.price.filter(|_| currency == observed.currency).filter(fits);
        let raised = |at: Timestamp| at.max(observed.starts_at);
        let is_late = matches!(observed.status, PastDue | Unpaid);
        BillingState {
            price: price.filter(|price| price.times(observed.quantity.get()).is_some()),
            currency,
            // A credit in another currency is dropped, because its amount would be wrong.
            credit: Some(credit).filter(|_| same_currency).filter(fits).unwrap_or_default(),
            trial_ends_at: observed.trial_ends_at.filter(|end| *end > observed.starts_at),
            resumes_at: observed.resumes_at.map(raised),
            // The current period ends with the renewal, so a start that is not before the renewal is left out.
            current_period_start: observed
                .current_period_start
                .map(raised)
                .filter(|start| renews_at.is_some_and(|end| *start < end)),
            past_due_since: is_late.then(|| self.past_due_since().unwrap_or(now)),
            manage_url: observed.manage_url.clone(),
            ..BillingState::default()
        }
    }
}
