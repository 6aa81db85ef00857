//! The model of lists and of entitlement.

use std::collections::BTreeSet;

use subscription_core::store::{
    Direction, PaymentQuery, PlanFilter, PlanOrder, PlanQuery, SubscriptionFilter,
    SubscriptionOrder, SubscriptionQuery,
};
use subscription_core::{Plan, Subscription, Timestamp, UserId};

use super::{Expected, Model, payments, plans, rules, subscriptions};
use crate::simulation::operation::{Record, Reply};

impl Model {
    pub fn list_plans(&self, query: &PlanQuery) -> Expected {
        let admitted = plans(&self.records).filter(|plan| is_asked_for(&query.filter, plan));
        let mut found: Vec<_> = admitted.collect();
        match query.order {
            PlanOrder::Tier => found.sort_by_key(|plan| (plan.tier, plan.id)),
            PlanOrder::Price => found.sort_by_key(|plan| (plan.price.value(), plan.id)),
            PlanOrder::Name => found.sort_by_key(|plan| (plan.name.as_str().to_owned(), plan.id)),
            PlanOrder::CreatedAt => found.sort_by_key(|plan| plan.id),
        }
        listed(found.into_iter().cloned().map(Record::Plan), query.direction)
    }

    pub fn list_subscriptions(&self, query: &SubscriptionQuery, now: Timestamp) -> Expected {
        let mut found: Vec<_> = subscriptions(&self.records)
            .map(|held| rules::shown(held, now))
            .filter(|held| is_held(&query.filter, held))
            .collect();
        match query.order {
            SubscriptionOrder::CreatedAt => found.sort_by_key(|held| held.id),
            SubscriptionOrder::RenewsAt => {
                found.sort_by_key(|held| (held.renews_at.is_none(), held.renews_at, held.id));
            }
        }
        listed(found.into_iter().map(Record::Subscription), query.direction)
    }

    pub fn list_payments(&self, query: &PaymentQuery) -> Expected {
        let of_it = |id| query.subscription_id.is_none_or(|of| of == id);
        let found = payments(&self.records).filter(|payment| of_it(payment.subscription_id));
        listed(found.cloned().map(Record::Payment), query.direction)
    }

    pub fn entitlement(&self, user: UserId, now: Timestamp) -> Expected {
        let mut granting: Vec<_> = subscriptions(&self.records)
            .filter(|held| held.user_id == user && rules::is_active(held, now))
            .filter_map(|held| Some((held, self.plan_by_id(held.subscription_plan_id)?)))
            .collect();
        granting.reverse();
        let features: BTreeSet<_> = granting
            .iter()
            .flat_map(|(_, plan)| plan.features.as_str().split(','))
            .map(|feature| feature.trim().to_owned())
            .filter(|feature| !feature.is_empty())
            .collect();
        let quotas = granting.iter().map(|(_, plan)| plan.node_quota);
        Expected::Answer(Ok(Reply::Entitled {
            node_quota: quotas.max().unwrap_or_default(),
            features: features.into_iter().collect(),
            grants: granting
                .into_iter()
                .map(|(held, plan)| {
                    let shown = Record::Subscription(rules::shown(held, now));
                    (shown, Record::Plan(plan.clone()))
                })
                .collect(),
        }))
    }
}

fn listed(records: impl Iterator<Item = Record>, direction: Direction) -> Expected {
    let mut records: Vec<_> = records.collect();
    if direction == Direction::Descending {
        records.reverse();
    }
    Expected::Answer(Ok(Reply::Listed(records)))
}

/// True if the record passes every filter that is set.
fn all_pass(filters: &[Option<bool>]) -> bool {
    filters.iter().all(|passes| passes.unwrap_or(true))
}

fn is_asked_for(filter: &PlanFilter, plan: &Plan) -> bool {
    all_pass(&[
        filter.is_active.map(|is_active| is_active == plan.is_active),
        filter.billing_cycle.map(|cycle| cycle == plan.billing_cycle),
        filter.product_id.as_ref().map(|id| Some(id) == plan.product_id.as_ref()),
        filter.tier.map(|tier| tier == plan.tier),
        filter.most_popular.map(|popular| popular == plan.most_popular),
    ])
}

fn is_held(filter: &SubscriptionFilter, held: &Subscription) -> bool {
    let renews = |test: &dyn Fn(Timestamp) -> bool| held.renews_at.is_some_and(test);
    all_pass(&[
        filter.user_id.map(|user| user == held.user_id),
        filter.subscription_plan_id.map(|plan| plan == held.subscription_plan_id),
        (!filter.statuses.is_empty()).then(|| filter.statuses.contains(&held.status)),
        filter.is_active.map(|is_active| is_active == held.is_active),
        filter
            .external_subscription_id
            .as_ref()
            .map(|id| Some(id) == held.external_subscription_id.as_ref()),
        filter.renews_before.map(|border| renews(&|at| at < border)),
        filter.renews_after.map(|border| renews(&|at| at >= border)),
    ])
}
