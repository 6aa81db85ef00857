//! The plans in memory: by id, by slug, and in every order by every filter.

use std::collections::HashMap;
use std::sync::Arc;

use super::ById;
use super::scan::{self, Bucket, Found, Index, Intersection, Walk};
use crate::id::PlanId;
use crate::plans::{BillingCycle, Plan, Tier};
use crate::store::query::{Page, PlanFilter, PlanOrder, PlanQuery, SortKey};
use crate::text::{ExternalId, Slug};

#[derive(Debug, Default)]
pub(super) struct PlanTable {
    records: ById<PlanId, Arc<Plan>>,
    by_slug: HashMap<Slug, PlanId>,
    lists: Index<(PlanOrder, Facet), SortKey>,
}

/// What a plan can be found by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Facet {
    Any,
    IsActive(bool),
    Cycle(BillingCycle),
    Product(ExternalId),
    Tier(Tier),
    MostPopular(bool),
}

impl Facet {
    fn of(plan: &Plan) -> impl Iterator<Item = Self> {
        [
            Some(Self::Any),
            Some(Self::IsActive(plan.is_active)),
            Some(Self::Cycle(plan.billing_cycle)),
            plan.product_id.clone().map(Self::Product),
            Some(Self::Tier(plan.tier)),
            Some(Self::MostPopular(plan.most_popular)),
        ]
        .into_iter()
        .flatten()
    }

    fn asked_for(filter: &PlanFilter) -> Vec<Self> {
        let facets: Vec<_> = [
            filter.is_active.map(Self::IsActive),
            filter.billing_cycle.map(Self::Cycle),
            filter.product_id.clone().map(Self::Product),
            filter.tier.map(Self::Tier),
            filter.most_popular.map(Self::MostPopular),
        ]
        .into_iter()
        .flatten()
        .collect();
        if facets.is_empty() { vec![Self::Any] } else { facets }
    }
}

impl PlanTable {
    pub(super) fn get(&self, id: PlanId) -> Option<&Arc<Plan>> {
        self.records.get(&id)
    }

    pub(super) fn by_slug(&self, slug: &Slug) -> Option<&Arc<Plan>> {
        self.by_slug.get(slug).and_then(|id| self.records.get(id))
    }

    pub(super) fn put(&mut self, plan: Plan) {
        self.delete(plan.id);
        self.by_slug.insert(plan.slug.clone(), plan.id);
        self.lists.extend(entries(&plan));
        self.records.insert(plan.id, Arc::new(plan));
    }

    pub(super) fn delete(&mut self, id: PlanId) {
        let Some(plan) = self.records.remove(&id) else { return };
        self.by_slug.remove(&plan.slug);
        for entry in entries(&plan) {
            self.lists.remove(&entry);
        }
    }

    pub(super) fn page(&self, query: &PlanQuery) -> Page<Arc<Plan>> {
        let (order, direction) = (query.order, query.direction);
        let Some(from) = scan::after(query.after.as_ref(), direction) else {
            return Page { items: Vec::new(), next: None };
        };
        let walks = Facet::asked_for(&query.filter).into_iter().map(|facet| {
            let walk = Bucket::new(&self.lists, (order, facet), direction, &from);
            Box::new(walk) as Box<dyn Walk<SortKey>>
        });
        let mut walk = Intersection { walks: walks.collect() };
        let record = |(_, id): &(SortKey, _)| match self.records.get(&PlanId::from(*id)) {
            Some(plan) => Found::Item(Arc::clone(plan)),
            None => Found::Other,
        };
        let position = |plan: &Arc<Plan>| order.position(plan);
        scan::page(&mut walk, Some(from), direction, query.limit, record, position)
    }
}

/// Where a plan stands in the lists.
fn entries(plan: &Plan) -> impl Iterator<Item = ((PlanOrder, Facet), SortKey, uuid::Uuid)> {
    PlanOrder::ALL.into_iter().flat_map(move |order| {
        Facet::of(plan).map(move |facet| ((order, facet), order.key(plan), plan.id.uuid()))
    })
}
