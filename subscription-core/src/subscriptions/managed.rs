//! The fields that the manager of a subscription sets, and that callers may not change.

use super::{
    BillingState, ManagedBy, Quantity, Subscription, SubscriptionChanges, trial_before_start,
};
use crate::values::{Amount, Faults, Field, InvalidValue};

fn differs<T: PartialEq>(change: Option<&T>, current: &T) -> bool {
    change.is_some_and(|change| change != current)
}

/// The error for a change of fields that only the manager of the subscription sets.
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
    /// Refuses changes of the fields that the manager of the subscription sets, unless the changes also set another
    /// manager.
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
        // A client that sends a record back may write 19.9 for 19.90, which is not a change.
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

    /// The billing state after `changes`. If the changes take the subscription from its provider, they apply to the
    /// state that [`BillingState::released`] returns. While a provider manages the subscription, the billing state
    /// stays as it is.
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

    /// Adds the faults of price, credit, quantity, trial and discount.
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
            let refused = InvalidValue::out_of_range(Quantity::TOO_LARGE);
            faults.push(refused.at("quantity"));
        }
        if billing.trial_ends_at.is_some_and(|end| end <= self.starts_at) {
            faults.push(trial_before_start());
        }
        if billing.discount.is_some_and(|it| !it.is_sound(billing.currency)) {
            let message = "must fit the currency; discount.periods must be null, or 1 to 120 and not below the periods used";
            faults.push(InvalidValue::out_of_range(message).at("discount"));
        }
    }
}
