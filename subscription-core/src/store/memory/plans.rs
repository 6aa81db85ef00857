//! Plans in memory: by id, by slug, and listed in every order.

use std::collections::HashMap;
use std::sync::Arc;

use super::index::{Lists, after, first, walk};
use super::{ById, free};
use crate::plans::Plan;
use crate::store::query::{PlanOrder, PlanQuery, SortKey};
use crate::values::{PlanId, Slug};

#[derive(Debug, Default)]
pub(super) struct PlanTable {
    records: ById<PlanId, Arc<Plan>>,
    by_slug: HashMap<Slug, PlanId>,
    /// There are few plans, so a list with a filter reads all plans, in the order of the list.
    by_order: Lists<SortKey, Plan>,
}

impl PlanTable {
    pub(super) fn get(&self, id: PlanId) -> Option<&Arc<Plan>> {
        self.records.get(&id)
    }

    pub(super) fn by_slug(&self, slug: &Slug) -> Option<&Arc<Plan>> {
        self.get(*self.by_slug.get(slug)?)
    }

    pub(super) fn put(&mut self, plan: Arc<Plan>) {
        self.delete(plan.id);
        for order in PlanOrder::ALL {
            self.by_order.insert(
                order as u128,
                (order.key(&plan), plan.id.uuid().as_u128()),
                &plan,
            );
        }
        self.by_slug.insert(plan.slug.clone(), plan.id);
        self.records.insert(plan.id, plan);
    }

    pub(super) fn delete(&mut self, id: PlanId) {
        let Some(plan) = self.records.remove(&id) else { return };
        for order in PlanOrder::ALL {
            self.by_order.remove(order as u128, (order.key(&plan), id.uuid().as_u128()));
        }
        free(&mut self.by_slug, &plan.slug, id);
    }

    pub(super) fn page(&self, query: &PlanQuery) -> Vec<Arc<Plan>> {
        let from = after(query.after.as_ref(), query.direction, SortKey::clone);
        let found = walk(&[(&self.by_order, vec![query.order as u128])], query.direction, from);
        let found = found.map(|(_, plan)| plan).filter(|plan| query.filter.admits(plan));
        first(found, query.limit)
    }
}
