//! The rules between the fields of a stored subscription.

use super::SubscriptionStatus::Expired;
use super::{ManagedBy, Subscription, before_start};
use crate::values::{FaultCode, Faults, InvalidValue};

impl Subscription {
    /// Checks the rules between the fields of a subscription that comes from an import. The service writes no
    /// subscription that breaks them.
    pub fn check(&self) -> Result<(), Faults> {
        let mut faults = Faults::default();
        for fault in before_start(self.starts_at, self.renews_at, self.ends_at) {
            faults.push(fault);
        }
        if self.ends_at.is_none() && self.ends_by_status() {
            let message = format!("must be set: the status is {}", self.status);
            faults.push(InvalidValue::new(FaultCode::Required, message).at("ends_at"));
        }
        if self.is_active && self.blocked {
            let message = "must not be true: the subscription is blocked";
            faults.push(InvalidValue::not_allowed(message).at("is_active"));
        }
        self.billing_faults(&mut faults);
        self.clock_faults(&mut faults);
        faults.into_result()
    }

    /// Adds the faults of fields that depend on `managed_by`: the clock needs a price and a currency, only the clock
    /// sets `next_action_at`, and only a provider has a `manage_url`.
    fn clock_faults(&self, faults: &mut Faults) {
        let by_clock = self.managed_by == ManagedBy::Clock;
        let lacks = |missing: bool| missing && by_clock && self.status != Expired;
        for (field, is_missing) in
            [("price", self.price().is_none()), ("currency", self.currency().is_none())]
        {
            if lacks(is_missing) {
                let message = "must be set, because managed_by is clock";
                faults.push(InvalidValue::new(FaultCode::Required, message).at(field));
            }
        }
        self.discount_fault(faults);
        if self.next_action_at().is_some() && !by_clock {
            let message = format!("must be null: managed_by is {}", self.managed_by);
            let fault = InvalidValue::not_allowed(message);
            faults.push(fault.at("next_action_at"));
        }
        if self.manage_url().is_some() && self.managed_by != ManagedBy::Provider {
            let message = format!("must be null: managed_by is {}", self.managed_by);
            faults.push(InvalidValue::not_allowed(message).at("manage_url"));
        }
    }

    /// Adds the fault of a discount of a subscription that the clock does not bill.
    pub(super) fn discount_fault(&self, faults: &mut Faults) {
        if self.discount().is_some() && self.managed_by != ManagedBy::Clock {
            let message = "is only for a subscription whose managed_by is clock";
            faults.push(InvalidValue::not_allowed(message).at("discount"));
        }
    }

    /// True if the status of this subscription requires an end.
    fn ends_by_status(&self) -> bool {
        let mut endless = Self { ends_at: None, ..self.clone() };
        endless.set_end_by_status(self.updated_at);
        endless.ends_at.is_some()
    }
}
