//! Methods for plans.

use std::sync::Arc;

use super::{Created, SubscriptionService, expect_version, found};
use crate::error::Error;
use crate::events::Change;
use crate::plans::{NewPlan, Plan, PlanChanges};
use crate::store::{
    ChangeSet, Guard, Idempotency, Operation, Page, PlanQuery, StoreExt as _, UniqueValue,
};
use crate::values::{PlanId, Slug, Version};

/// # Plans
impl SubscriptionService {
    /// Creates a plan.
    pub async fn create_plan(&self, new: NewPlan) -> Result<Arc<Plan>, Error> {
        Ok(self.create_plan_once(new, None::<Idempotency>).await?.record)
    }

    /// Creates a plan only once for each [`Idempotency`]. Without an [`Idempotency`], each call creates a plan.
    pub async fn create_plan_once(
        &self,
        new: NewPlan,
        idempotency: impl Into<Option<Idempotency>> + Send,
    ) -> Result<Created<Plan>, Error> {
        let new = &new;
        self.create(Operation::CreatePlan, idempotency.into(), new, |now| async move {
            let id = PlanId::new(now, self.randomness())?;
            Ok((Plan::create(new.clone(), id, now)?, ChangeSet::default()))
        })
        .await
    }

    /// The plan with this slug.
    pub async fn plan(&self, slug: &Slug) -> Result<Arc<Plan>, Error> {
        found(self.store().find_as::<Plan>(UniqueValue::PlanSlug(slug)).await, "plan", slug)
    }

    /// The plan with this id.
    pub async fn plan_by_id(&self, id: PlanId) -> Result<Arc<Plan>, Error> {
        found(self.store().get_as::<Plan>(&id).await, "plan", id)
    }

    /// A page of plans.
    pub async fn plans(&self, query: PlanQuery) -> Result<Page<Arc<Plan>>, Error> {
        if query.after.as_ref().is_some_and(|position| !query.order.fits(position)) {
            return Err(Error::WrongPosition);
        }
        self.store().readable_as::<Plan>(query).await.map_err(Error::Store)
    }

    /// Changes a plan. If no field would get a different value, nothing is written.
    ///
    /// If a setting allows a user only one live subscription for each product, the product of a plan can change only
    /// while no subscription has the plan.
    pub async fn update_plan(&self, slug: &Slug, changes: PlanChanges) -> Result<Arc<Plan>, Error> {
        self.update_plan_if(slug, None::<Version>, changes).await
    }

    /// Changes a plan if it is still at `version`. If `version` is `None`, every version is accepted.
    pub async fn update_plan_if(
        &self,
        slug: &Slug,
        version: impl Into<Option<Version>> + Send,
        changes: PlanChanges,
    ) -> Result<Arc<Plan>, Error> {
        let version = version.into();
        self.retrying_on(slug, || async {
            let plan = self.plan(slug).await?;
            expect_version(&*plan, version)?;
            let now = self.now();
            match plan.change(changes.clone(), now)? {
                Some(next) => {
                    let change = Change::Updated { fields: plan.changed_fields(&next) };
                    let guards = self.product_guards(&plan, &next);
                    self.commit_changed(next, change, guards, now).await
                }
                None => Ok(plan),
            }
        })
        .await
    }

    /// Deletes a plan that no subscription refers to.
    pub async fn delete_plan(&self, slug: &Slug) -> Result<(), Error> {
        self.delete_plan_if(slug, None::<Version>).await
    }

    /// Deletes a plan that no subscription refers to, if the plan is still at `version`. If `version` is `None`, every
    /// version is accepted.
    pub async fn delete_plan_if(
        &self,
        slug: &Slug,
        version: impl Into<Option<Version>> + Send,
    ) -> Result<(), Error> {
        let version = version.into();
        self.retrying_on(slug, || async {
            let plan = self.plan(slug).await?;
            expect_version(&*plan, version)?;
            let guards = vec![Guard::PlanUnused(plan.id)];
            self.commit_deleted(&*plan, ChangeSet { guards, ..ChangeSet::default() }).await
        })
        .await
    }
}
