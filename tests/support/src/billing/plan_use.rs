//! Races between the deletion of a plan and changes of subscriptions to this plan, over one store that one or several
//! instances use.

use std::sync::Arc;

use subscription_core::{NewPlan, PaymentStatus, Plan, PlanChange, Store, Subscription};
use tokio::task::JoinSet;

use super::races::Instances;
use crate::service_world::{faults, of, wrong};

/// The number of attempts to delete a plan while the clock changes a subscription to this plan.
const DELETIONS: usize = 10;

/// Runs both races `rounds` times.
pub async fn all(stores: &[Arc<dyn Store>], rounds: usize) {
    for round in 0..rounds {
        schedule_against_delete(stores, 2 * round).await;
        change_against_delete(stores, 2 * round + 1).await;
    }
}

/// Creates a plan in USD for each subscription.
async fn plans(world: &Instances, race: usize, count: usize) -> Vec<Arc<Plan>> {
    let mut plans = Vec::new();
    for nth in 0..count {
        let slug = of(&format!("to-{race}-{nth}"));
        let new =
            NewPlan::new(of("Other"), slug, of("20"), subscription_core::BillingCycle::MONTHLY);
        let new = NewPlan { currency: Some(of("USD")), ..new };
        plans.push(world.billing(0).service().create_plan(new).await.unwrap());
    }
    plans
}

/// Schedules a change to a plan and deletes this plan at the same time. Either the change is scheduled and the plan
/// stays, or the plan is deleted and no change is scheduled.
async fn schedule_against_delete(stores: &[Arc<dyn Store>], race: usize) {
    let world = Instances::over(stores, race).await;
    let held = world.made(PaymentStatus::Succeeded).await;
    let plans = plans(&world, race, held.len()).await;

    let mut races = Vec::new();
    for (nth, ((held, _), plan)) in held.iter().zip(&plans).enumerate() {
        let (schedules, deletes) = (world.billing(nth), world.billing(nth + 1));
        let (id, change) = (held.id, PlanChange::to_plan(plan.id).at_period_end());
        let slug = plan.slug.clone();
        let schedule = async move { schedules.change_plan(id, &change).await };
        let delete = async move { deletes.service().delete_plan(&slug).await };
        // The order in which their tasks start changes from race to race.
        races.push(if nth % 2 == 0 {
            (tokio::spawn(schedule), tokio::spawn(delete))
        } else {
            let delete = tokio::spawn(delete);
            (tokio::spawn(schedule), delete)
        });
    }

    for ((schedule, delete), plan) in races.into_iter().zip(&plans) {
        let (scheduled, deleted) = (schedule.await.unwrap(), delete.await.unwrap());
        let is_there = world.billing(0).service().plan_by_id(plan.id).await.is_ok();
        match scheduled {
            Ok(held) => {
                assert_eq!(wrong(deleted).1, "plan_in_use");
                assert!(is_there);
                assert_eq!(stored(&world, &held).await.scheduled_plan_id(), Some(plan.id));
            }
            refused => {
                deleted.unwrap();
                assert!(!is_there);
                assert_eq!(faults(refused), ["subscription_plan_id unknown_reference"]);
            }
        }
    }
    for (held, _) in &held {
        let held = stored(&world, held).await;
        if let Some(plan) = held.scheduled_plan_id() {
            world.billing(0).service().plan_by_id(plan).await.unwrap();
        }
    }
}

/// Deletes a plan while the clock executes a scheduled change to it. The deletion must fail, because the plan is in use
/// at every moment.
async fn change_against_delete(stores: &[Arc<dyn Store>], race: usize) {
    let world = Instances::over(stores, race).await;
    let held = world.made(PaymentStatus::Succeeded).await;
    let plans = plans(&world, race, held.len()).await;
    for ((held, _), plan) in held.iter().zip(&plans) {
        let change = PlanChange::to_plan(plan.id).at_period_end();
        world.billing(0).change_plan(held.id, &change).await.unwrap();
    }
    world.turn_to_renewal(&held);

    let mut tasks = JoinSet::new();
    world.advance(&mut tasks);
    for (nth, plan) in plans.iter().enumerate() {
        let (billing, slug) = (world.billing(nth), plan.slug.clone());
        tasks.spawn(async move {
            for _ in 0..DELETIONS {
                assert_eq!(wrong(billing.service().delete_plan(&slug).await).1, "plan_in_use");
            }
        });
    }
    world.finish(tasks).await;

    for ((held, _), plan) in held.iter().zip(&plans) {
        let held = stored(&world, held).await;
        assert_eq!((held.subscription_plan_id, held.scheduled_plan_id()), (plan.id, None));
    }
}

async fn stored(world: &Instances, held: &Subscription) -> Arc<Subscription> {
    world.billing(0).service().subscription(held.id).await.unwrap()
}
