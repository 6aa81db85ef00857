//! Records to write.

use std::sync::Arc;

use subscription_core::store::{ChangeSet, Record, StoreError};
use subscription_core::{
    BillingCycle, NewPlan, NewSubscription, Plan, PlanId, Slug, Store, Subscription,
    SubscriptionId, SystemRandomness, UserId,
};
pub(crate) use test_support::service_world::at;

/// A plan that is not stored yet.
pub(crate) fn plan(slug: &str) -> Plan {
    let now = at("2025-01-31T00:00:00Z");
    let new = NewPlan::new(
        "Pro".parse().unwrap(),
        slug.parse::<Slug>().unwrap(),
        "19.90".parse().unwrap(),
        BillingCycle::MONTHLY,
    );
    Plan::create(new, PlanId::new(now, &SystemRandomness).unwrap(), now).unwrap()
}

/// A subscription of a new user to a plan, not stored yet.
pub(crate) fn subscription(plan: &Plan) -> Subscription {
    let now = plan.created_at;
    let new = NewSubscription::new(UserId::new(now, &SystemRandomness).unwrap(), plan.id);
    Subscription::create(
        new,
        plan.billing_cycle,
        SubscriptionId::new(now, &SystemRandomness).unwrap(),
        now,
    )
    .unwrap()
}

/// Writes a plan as it is given.
pub(crate) async fn put(store: &Arc<impl Store>, plan: &Plan) -> Result<(), StoreError> {
    let writes = vec![Record::from(plan.clone())];
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await
}

/// The plan once it is renamed.
pub(crate) fn renamed(plan: &Plan, name: &str) -> Plan {
    Plan { name: name.parse().unwrap(), version: plan.version.next(), ..plan.clone() }
}
