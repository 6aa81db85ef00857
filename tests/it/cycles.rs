//! Changes of plan and of cycle: the renewal and the period that follow from them.

use std::sync::Arc;

use subscription_core::{
    BillingCycle, Field, NewPlan, NewSubscription, Subscription, SubscriptionChanges,
    SubscriptionStatus,
};
use test_support::service_world::{ServiceWorld, at, new_plan, of};

async fn change(
    world: &ServiceWorld,
    held: &Subscription,
    change: impl FnOnce(&mut SubscriptionChanges),
) -> Arc<Subscription> {
    let mut changes = SubscriptionChanges::default();
    change(&mut changes);
    world.service.update_subscription(held.id, changes).await.unwrap()
}

async fn yearly_plan(world: &ServiceWorld) -> Arc<subscription_core::Plan> {
    let plan = NewPlan { billing_cycle: BillingCycle::YEARLY, ..new_plan("team") };
    world.service.create_plan(plan).await.unwrap()
}

#[tokio::test]
async fn a_change_of_plan_takes_the_cycle_of_the_new_plan() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;
    let team = yearly_plan(&world).await;

    let moved = change(&world, &held, |c| c.subscription_plan_id = Some(team.id)).await;

    assert_eq!(moved.billing_cycle, BillingCycle::YEARLY);
    assert_eq!(moved.renews_at, held.renews_at);
}

#[tokio::test]
async fn a_change_of_plan_keeps_the_cycle_that_is_sent_along() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;
    let team = yearly_plan(&world).await;

    let moved = change(&world, &held, |c| {
        c.subscription_plan_id = Some(team.id);
        c.billing_cycle = Some(of("quarterly"));
    })
    .await;

    assert_eq!(moved.billing_cycle.to_string(), "quarterly");
}

#[tokio::test]
async fn naming_the_same_plan_again_leaves_a_cycle_of_its_own_alone() {
    let world = ServiceWorld::new();
    let held = world.subscription(|new| new.billing_cycle = Some(BillingCycle::YEARLY)).await;

    let same =
        change(&world, &held, |c| c.subscription_plan_id = Some(held.subscription_plan_id)).await;

    assert_eq!(same, held);
}

#[tokio::test]
async fn what_becomes_one_time_renews_no_more() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;
    let when = at("2025-07-01T00:00:00Z");

    let once = change(&world, &held, |c| c.billing_cycle = Some(BillingCycle::ONE_TIME)).await;
    let named = world.subscription(|_| {}).await;
    let named = change(&world, &named, |c| {
        c.billing_cycle = Some(BillingCycle::ONE_TIME);
        c.renews_at = Field::Value(when);
    })
    .await;

    assert_eq!((once.renews_at, once.current_period_start()), (None, None));
    assert_eq!(named.renews_at, Some(when));
}

#[tokio::test]
async fn what_was_one_time_renews_at_the_next_start_of_a_period() {
    let world = ServiceWorld::new();
    let held = world.subscription(|new| new.billing_cycle = Some(BillingCycle::ONE_TIME)).await;
    world.clock.set(at("2025-03-31T12:00:00Z"));

    let monthly = change(&world, &held, |c| c.billing_cycle = Some(BillingCycle::MONTHLY)).await;

    assert_eq!(monthly.renews_at, Some(at("2025-04-30T00:00:00Z")));
    assert_eq!(monthly.current_period_start(), Some(at("2025-03-31T00:00:00Z")));
}

#[tokio::test]
async fn a_cycle_that_is_tried_and_taken_back_leaves_the_days_as_they_were() {
    let world = ServiceWorld::new();
    let held = world.subscription(|_| {}).await;

    let yearly = change(&world, &held, |c| c.billing_cycle = Some(BillingCycle::YEARLY)).await;
    let monthly = change(&world, &held, |c| c.billing_cycle = Some(BillingCycle::MONTHLY)).await;

    assert_eq!(yearly.renews_at, Some(at("2025-02-28T00:00:00Z")));
    let next = monthly.schedule().next_after(at("2025-02-28T00:00:00Z"));
    assert_eq!(next, Some(at("2025-03-31T00:00:00Z")));
}

#[tokio::test]
async fn the_current_period_begins_one_cycle_before_the_renewal() {
    let world = ServiceWorld::new();
    let cases = [
        // starts_at, cycle, renews_at, the start of the period
        ("2025-01-31", "monthly", "2025-03-31", "2025-02-28"),
        ("2025-01-31", "monthly", "2025-02-28", "2025-01-31"),
        ("2024-02-29", "yearly", "2026-02-28", "2025-02-28"),
        // A renewal off the grid is a new anchor: one cycle back from there.
        ("2025-01-01", "monthly", "2025-03-31", "2025-02-28"),
        ("2025-01-01", "P10D", "2025-03-05", "2025-02-23"),
        ("2025-01-01", "weekly", "2025-03-05", "2025-02-26"),
        ("2025-01-01", "yearly", "2028-02-29", "2027-02-28"),
        // But not before the start.
        ("2025-01-20", "monthly", "2025-01-31", "2025-01-20"),
    ];
    let day = |day: &str| at(&format!("{day}T00:00:00Z"));
    for (starts_at, cycle, renews_at, start) in cases {
        let held = world
            .subscription(|new| {
                new.billing_cycle = Some(of(cycle));
                new.starts_at = Some(day(starts_at));
                new.renews_at = day(renews_at).into();
            })
            .await;

        let period = (held.current_period_start(), held.current_period_end());
        assert_eq!(period, (Some(day(start)), Some(day(renews_at))), "{starts_at} {cycle}");
    }
}

#[tokio::test]
async fn the_period_of_a_trial_is_the_trial() {
    let world = ServiceWorld::new();
    let plan = world.plan("pro").await;
    let mut new = NewSubscription::new(world.user(), plan.id);
    new.status = Some(SubscriptionStatus::OnTrial);
    new.starts_at = Some(at("2024-11-01T00:00:00Z"));
    new.renews_at = at("2025-02-14T00:00:00Z").into();

    let trial = world.service.create_subscription(new).await.unwrap();
    let paid = change(&world, &trial, |c| c.status = Some(SubscriptionStatus::Active)).await;

    assert_eq!(trial.current_period_start(), Some(at("2024-11-01T00:00:00Z")));
    assert_eq!(paid.current_period_start(), Some(at("2025-01-14T00:00:00Z")));
}
