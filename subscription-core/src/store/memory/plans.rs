//! The plans in memory: by id, by slug, and in every order by every filter.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::records::{Record, Records, Slot};
use super::scan::{self, Bucket, Found, Intersection, Place, SortValue, Stop, Walk};
use crate::plans::{BillingCycle, Plan, Tier};
use crate::store::query::{Direction, Page, PlanFilter, PlanOrder, PlanQuery, SortKey};
use crate::values::id::PlanId;
use crate::values::text::{ExternalId, Slug};

#[derive(Debug, Default)]
pub(super) struct PlanTable {
    records: Records<Arc<Plan>>,
    /// Plans are few, and each is in many lists: the keys are kept, not read off the records.
    lists: BTreeMap<(List, SortKey, Uuid), Slot>,
}

/// A list by its order and by what is in it.
type List = (PlanOrder, Facet);

impl Record for Arc<Plan> {
    fn id(&self) -> Uuid {
        self.id.uuid()
    }

    fn name(&self) -> Option<&str> {
        Some(self.slug.as_str())
    }
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
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn get(&self, id: PlanId) -> Option<&Arc<Plan>> {
        self.records.by_id(id.uuid()).map(|(_, found)| found)
    }

    pub(super) fn by_slug(&self, slug: &Slug) -> Option<&Arc<Plan>> {
        self.records.by_name(slug.as_str()).map(|(_, found)| found)
    }

    pub(super) fn put(&mut self, plan: Arc<Plan>) {
        self.delete(plan.id);
        let plan = plan;
        let (slot, _) = self.records.put(Arc::clone(&plan));
        self.lists.extend(keys(&plan).map(|key| (key, slot)));
    }

    pub(super) fn delete(&mut self, id: PlanId) {
        let Some((_, plan)) = self.records.remove(id.uuid()) else { return };
        for key in keys(&plan) {
            self.lists.remove(&key);
        }
    }

    pub(super) fn page(&self, query: &PlanQuery) -> Page<Arc<Plan>> {
        let (order, direction) = (query.order, query.direction);
        let Some(from) = scan::after(query.after.as_ref(), direction) else {
            return Page { items: Vec::new(), next: None };
        };
        let walks = Facet::asked_for(&query.filter).into_iter().map(|facet| {
            let list = (order, facet);
            let along = move |from: &Place<SortKey>| self.along(&list, direction, from);
            Box::new(Bucket::new(direction, &from, along)) as Box<dyn Walk<SortKey>>
        });
        let mut walk = Intersection { walks: walks.collect() };
        let record = |stop: &Stop<SortKey>| match self.records.at(stop.slot) {
            Some(plan) => Found::Item(Arc::clone(plan)),
            None => Found::Other,
        };
        let position = |plan: &Arc<Plan>| order.position(plan);
        scan::page(&mut walk, Some(from), direction, query.limit, record, position)
    }

    /// The places of one list, from one place on.
    fn along(
        &self,
        list: &List,
        direction: Direction,
        (key, id): &Place<SortKey>,
    ) -> impl Iterator<Item = Stop<SortKey>> + Clone + use<'_> {
        let from = (list.clone(), key.clone(), *id);
        let mut range = match direction {
            Direction::Ascending => {
                self.lists.range(from..=(list.clone(), SortKey::HIGHEST, Uuid::max()))
            }
            Direction::Descending => {
                self.lists.range((list.clone(), SortKey::LOWEST, Uuid::nil())..=from)
            }
        };
        std::iter::from_fn(move || {
            let entry = match direction {
                Direction::Ascending => range.next(),
                Direction::Descending => range.next_back(),
            };
            entry.map(|((_, key, id), slot)| Stop { place: (key.clone(), *id), slot: *slot })
        })
    }
}

/// Where a plan stands in the lists.
fn keys(plan: &Plan) -> impl Iterator<Item = (List, SortKey, Uuid)> {
    PlanOrder::ALL.into_iter().flat_map(move |order| {
        Facet::of(plan).map(move |facet| ((order, facet), order.key(plan), plan.id.uuid()))
    })
}
