//! The plan that a provider's price, variant or product stands for. All functions are pure, except the one that reads
//! the plans from the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::plans::Plan;
use crate::providers::{EventStatus, FoundItem, Providers, Reason, Sold};
use crate::store::{PageLimit, PlanQuery, StoreError, StoreExt as _};
use crate::values::Slug;

/// All plans.
pub(crate) type AllPlans = Arc<[Arc<Plan>]>;

/// The plans among which the plan of an object is looked up.
#[derive(Debug)]
pub(crate) struct Plans<'a> {
    pub(crate) plans: Vec<Arc<Plan>>,
    /// The slug of the plan for each price or variant that the settings name.
    pub(crate) by_price: &'a BTreeMap<String, Slug>,
}

impl Plans<'_> {
    /// The plan of the price, variant or product that was sold. The settings are searched first, then the variants of
    /// plans, then their products.
    pub(crate) fn of(&self, sold: &Sold) -> Result<&Arc<Plan>, Reason> {
        let price = sold.price.as_ref().map(AsRef::as_ref);
        if let Some(slug) = price.and_then(|price| self.by_price.get(price)) {
            return one(self.plans.iter().filter(|plan| plan.slug == *slug));
        }
        let has_variant = |plan: &&Arc<Plan>| {
            price.is_some_and(|price| plan.variants.iter().any(|it| it.as_str() == price))
        };
        let of_product = |plan: &&Arc<Plan>| {
            let product = sold.product.as_ref().map(AsRef::<str>::as_ref);
            product.is_some() && product == plan.product_id.as_ref().map(AsRef::as_ref)
        };
        match one(self.plans.iter().filter(has_variant)) {
            Err(Reason::UnknownPlan) => one(self.plans.iter().filter(of_product)),
            found => found,
        }
    }

    /// The first item of a subscription that belongs to a plan, and this plan. Only this item is copied to our record.
    /// Items without a plan are ignored. If the items belong to several plans, the error is [`Reason::AmbiguousPlan`].
    pub(crate) fn of_items<'i>(
        &self,
        items: &'i [FoundItem],
    ) -> Result<(&'i FoundItem, &Arc<Plan>), EventStatus> {
        let mut chosen: Option<(&FoundItem, &Arc<Plan>)> = None;
        for item in items {
            match (self.of(&item.sold), chosen) {
                (Ok(plan), None) => chosen = Some((item, plan)),
                (Ok(plan), Some((_, other))) if plan.id == other.id => {}
                (Err(Reason::UnknownPlan), _) => {}
                _ => return Err(EventStatus::waiting(Reason::AmbiguousPlan)),
            }
        }
        chosen.ok_or(EventStatus::waiting(Reason::UnknownPlan))
    }
}

fn one<'p>(mut plans: impl Iterator<Item = &'p Arc<Plan>>) -> Result<&'p Arc<Plan>, Reason> {
    let first = plans.next().ok_or(Reason::UnknownPlan)?;
    if plans.next().is_some() { Err(Reason::AmbiguousPlan) } else { Ok(first) }
}

impl Providers {
    /// All plans. They are few, so all of them are read.
    pub(crate) async fn all_plans(&self) -> Result<Vec<Arc<Plan>>, StoreError> {
        let page = |after| PlanQuery::default().with_limit(PageLimit::MAX).with_after(after);
        self.store().all_as::<Plan>(page).await
    }
}
