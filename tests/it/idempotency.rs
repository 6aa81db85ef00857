//! Requests that are repeated.

use std::time::Duration;

use subscription_core::{
    ErrorKind, ManualClock, MemoryStore, NewPayment, NewPlan, NewSubscription, PlanChanges,
    SubscriptionService,
};
use test_support::service_world::{ServiceWorld, at, new_plan, of, once, wrong};

#[tokio::test]
async fn the_same_request_gets_the_first_answer_whatever_happened_since() {
    let world = ServiceWorld::new();
    let create = async || world.service.create_plan_once(new_plan("pro"), once("shop", "k1")).await;

    let first = create().await.unwrap();
    let retire = PlanChanges { is_active: Some(false), ..PlanChanges::default() };
    world.service.update_plan(&first.record.slug, retire).await.unwrap();
    let second = create().await.unwrap();
    world.service.delete_plan(&first.record.slug).await.unwrap();
    let third = create().await.unwrap();

    assert_eq!((first.replayed, second.replayed, third.replayed), (false, true, true));
    assert_eq!(second.record, first.record);
    assert_eq!(third.record, first.record);
    assert_eq!(world.events().await, ["plan.created", "plan.updated", "plan.deleted"]);
}

#[tokio::test]
async fn every_kind_of_record_is_made_once() {
    let world = ServiceWorld::new();
    let plan = world.plan("pro").await;
    let new = NewSubscription::new(world.user(), plan.id);
    let subscribe = async || {
        world.service.create_subscription_once(new.clone(), once("shop", "k1")).await.unwrap()
    };
    let subscription = subscribe().await.record;
    let new_payment = NewPayment::new(subscription.id, of("5"), of("EUR"));
    let pay = async || {
        world.service.create_payment_once(new_payment.clone(), once("shop", "k1")).await.unwrap()
    };
    let payment = pay().await.record;

    let (same_subscription, same_payment) = (subscribe().await, pay().await);

    assert_eq!(same_subscription.record, subscription);
    assert_eq!(same_payment.record, payment);
    assert!(same_subscription.replayed && same_payment.replayed);
}

#[tokio::test]
async fn the_key_of_another_request_is_refused() {
    let world = ServiceWorld::new();
    world.service.create_plan_once(new_plan("pro"), once("shop", "k1")).await.unwrap();

    let other = NewPlan { price: of("19.990"), ..new_plan("pro") };
    let refused = world.service.create_plan_once(other, once("shop", "k1")).await;

    assert_eq!(wrong(refused), (ErrorKind::Invalid, "idempotency_key_reused"));
}

#[tokio::test]
async fn another_clients_key_is_another_key() {
    let world = ServiceWorld::new();
    world.service.create_plan_once(new_plan("pro"), once("shop", "k1")).await.unwrap();

    let other =
        world.service.create_plan_once(new_plan("basic"), once("kiosk", "k1")).await.unwrap();

    assert!(!other.replayed);
}

#[tokio::test]
async fn a_failed_request_leaves_its_key_free() {
    let world = ServiceWorld::new();
    let plan = world.plan("pro").await;
    let create = async || world.service.create_plan_once(new_plan("pro"), once("shop", "k1")).await;

    assert_eq!(wrong(create().await).1, "slug_taken");
    world.service.delete_plan(&plan.slug).await.unwrap();

    assert!(!create().await.unwrap().replayed);
}

#[tokio::test]
async fn a_key_is_free_again_after_its_time_and_the_kept_answer_can_be_cleared() {
    let world = ServiceWorld::new();
    let create =
        async |slug: &str| world.service.create_plan_once(new_plan(slug), once("shop", "k1")).await;
    create("pro").await.unwrap();

    world.clock.advance(Duration::from_hours(24) - Duration::from_micros(1));
    assert!(create("pro").await.unwrap().replayed);
    assert_eq!(world.service.forget_expired_idempotency().await.unwrap(), 0);

    world.clock.advance(Duration::from_micros(1));
    assert!(!create("basic").await.unwrap().replayed);
    assert!(create("basic").await.unwrap().replayed);

    world.clock.advance(Duration::from_hours(24));
    assert_eq!(world.service.forget_expired_idempotency().await.unwrap(), 1);
    assert_eq!(world.service.forget_expired_idempotency().await.unwrap(), 0);
    assert!(!create("other").await.unwrap().replayed);
}

#[tokio::test]
async fn a_service_may_keep_keys_for_another_time_than_a_day() {
    let clock = ManualClock::at(at("2025-01-31T00:00:00Z"));
    let service = SubscriptionService::builder(MemoryStore::default())
        .clock(clock.clone())
        .keep_idempotency_for(Duration::from_mins(1))
        .build();
    let create = async |slug| service.create_plan_once(new_plan(slug), once("shop", "k1")).await;
    create("pro").await.unwrap();

    clock.advance(Duration::from_secs(59));
    let too_early = create("team").await;
    clock.advance(Duration::from_secs(1));
    let again = create("team").await.unwrap();

    assert_eq!(wrong(too_early), (ErrorKind::Invalid, "idempotency_key_reused"));
    assert!(!again.replayed);
}
