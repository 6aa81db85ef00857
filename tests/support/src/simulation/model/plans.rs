//! The model of requests about plans.

use subscription_core::events::Subject;
use subscription_core::plans::{NewPlan, PlanChanges};
use subscription_core::{Plan, PlanId, Slug, Timestamp, Version};
use uuid::Uuid;

use super::subscriptions::set_field;
use super::{Expected, Model, fresh, not_found, plans, subscriptions, update, updated};
use crate::simulation::operation::{Record, Refusal, Reply};

impl Model {
    pub fn create_plan(&self, new: &NewPlan, now: Timestamp) -> Result<Expected, Refusal> {
        if let Some(holder) = plans(&self.records).find(|plan| plan.slug == new.slug) {
            return Err(Refusal::about("slug_taken", [Subject::Plan(holder.id)]));
        }
        let new = new.clone();
        Ok(Expected::Create(Record::Plan(Plan {
            id: PlanId::from(Uuid::nil()),
            name: new.name,
            product_id: new.product_id,
            variants: new.variants,
            slug: new.slug,
            price: new.price,
            currency: new.currency,
            href: new.href,
            billing_cycle: new.billing_cycle,
            trial_period: new.trial_period,
            description: new.description,
            node_quota: new.node_quota,
            features: new.features,
            most_popular: new.most_popular,
            tier: new.tier,
            is_active: true,
            metadata: new.metadata,
            created_at: now,
            updated_at: now,
            version: Version::FIRST,
        })))
    }

    pub fn update_plan(
        &self,
        slug: &Slug,
        changes: &PlanChanges,
        version: Option<Version>,
        now: Timestamp,
    ) -> Result<Expected, Refusal> {
        let current = self.plan(slug)?;
        fresh(current.version, version)?;
        let mut next = current.clone();
        let PlanChanges {
            name,
            product_id,
            variants,
            href,
            price,
            billing_cycle,
            description,
            node_quota,
            features,
            most_popular,
            tier,
            is_active,
            metadata,
            currency,
            trial_period,
        } = changes.clone();
        set(&mut next.name, name);
        set_field(&mut next.product_id, product_id);
        set(&mut next.variants, variants);
        set_field(&mut next.href, href);
        set(&mut next.price, price);
        set(&mut next.billing_cycle, billing_cycle);
        set(&mut next.description, description);
        set(&mut next.node_quota, node_quota);
        set(&mut next.features, features);
        set(&mut next.most_popular, most_popular);
        set(&mut next.tier, tier);
        set(&mut next.is_active, is_active);
        set_field(&mut next.metadata, metadata);
        set_field(&mut next.currency, currency);
        set_field(&mut next.trial_period, trial_period);
        if next != *current {
            next.updated_at = now;
            next.version = current.version.next();
        }
        let change = updated(current, &next);
        Ok(update(Record::Plan(current.clone()), Record::Plan(next), change))
    }

    pub fn delete_plan(&self, slug: &Slug, version: Option<Version>) -> Result<Expected, Refusal> {
        let current = self.plan(slug)?;
        fresh(current.version, version)?;
        if subscriptions(&self.records).any(|held| held.subscription_plan_id == current.id) {
            return Err(Refusal::new("plan_in_use"));
        }
        Ok(Expected::Delete(Record::Plan(current.clone())))
    }

    pub fn read_plan(&self, slug: &Slug) -> Result<Expected, Refusal> {
        let plan = self.plan(slug)?;
        Ok(Expected::Answer(Ok(Reply::Found(Record::Plan(plan.clone())))))
    }

    fn plan(&self, slug: &Slug) -> Result<&Plan, Refusal> {
        plans(&self.records).find(|plan| plan.slug == *slug).ok_or_else(not_found)
    }

    pub fn plan_by_id(&self, id: PlanId) -> Option<&Plan> {
        match self.records.get(&Subject::Plan(id))? {
            Record::Plan(plan) => Some(plan),
            Record::Subscription(_) | Record::Payment(_) => None,
        }
    }
}

/// Sets a field if the change has a value for it.
pub fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
