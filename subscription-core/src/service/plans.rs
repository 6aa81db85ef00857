//! What can be done with plans.

use crate::store::{StoreExt as _, UniqueValue};
use std::sync::Arc;

use super::{Created, Known, Request, SubscriptionService, expect_version, found};
use crate::error::Error;
use crate::events::Change;
use crate::plans::{NewPlan, Plan, PlanChanges};
use crate::store::{Guard, Idempotency, Operation, Page, PlanQuery};
use crate::values::id::PlanId;
use crate::values::text::Slug;
use crate::values::version::Version;

/// # Plans
impl SubscriptionService {
    /// Makes a plan; with `once`, the same request makes it no second time.
    pub async fn create_plan(
        &self,
        new: NewPlan,
        once: Option<Idempotency>,
    ) -> Result<Created<Plan>, Error> {
        let request = Request::new(Operation::CreatePlan, once, &new);
        self.retrying(|| async {
            let version = match self.known(request.as_ref()).await? {
                Known::Answered(created) => return Ok(created),
                Known::Fresh(version) => version,
            };
            let now = self.now();
            let plan = Plan::create(new.clone(), PlanId::new(now, self.ids())?, now)?;
            self.commit_new(plan, Vec::new(), request.as_ref(), version, now).await
        })
        .await
    }

    /// The plan of a slug.
    pub async fn plan(&self, slug: &Slug) -> Result<Arc<Plan>, Error> {
        found(self.store().find_as::<Plan>(UniqueValue::PlanSlug(slug)).await, "plan", slug)
    }

    /// The plan of an id.
    pub async fn plan_by_id(&self, id: PlanId) -> Result<Arc<Plan>, Error> {
        found(self.store().get_as::<Plan>(&id).await, "plan", id)
    }

    /// A page of plans.
    pub async fn plans(&self, query: &PlanQuery) -> Result<Page<Arc<Plan>>, Error> {
        if query.after.as_ref().is_some_and(|position| !query.order.fits(position)) {
            return Err(Error::WrongPosition);
        }
        self.store().list_as::<Plan>(query.clone()).await.map_err(Error::Store)
    }

    /// Changes a plan, with `if_version` only if it is still at that version.
    ///
    /// Changes that change nothing write nothing.
    pub async fn update_plan(
        &self,
        slug: &Slug,
        changes: PlanChanges,
        if_version: Option<Version>,
    ) -> Result<Arc<Plan>, Error> {
        self.retrying_on(slug, || async {
            let plan = self.plan(slug).await?;
            expect_version(&*plan, if_version)?;
            let now = self.now();
            match plan.change(changes.clone(), now) {
                Some(next) => {
                    let change = Change::Updated { fields: plan.changed_fields(&next) };
                    self.commit_changed(next, change, Vec::new(), now).await
                }
                None => Ok(plan),
            }
        })
        .await
    }

    /// Deletes a plan that no subscription refers to.
    pub async fn delete_plan(&self, slug: &Slug, if_version: Option<Version>) -> Result<(), Error> {
        self.retrying_on(slug, || async {
            let plan = self.plan(slug).await?;
            expect_version(&*plan, if_version)?;
            self.commit_deleted(&*plan, vec![Guard::PlanUnused(plan.id)]).await
        })
        .await
    }
}
