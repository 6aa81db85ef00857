//! Entitlement: the plans that a user has access to now.

use std::sync::Arc;

use serde_json::json;
use subscription_core::plans::NodeQuota;
use subscription_core::store::{CacheInvalidator, CachedStore};
use subscription_core::{
    NewPlan, NewSubscription, SubscriptionChanges, SubscriptionStatus, UserId,
};
use test_support::service_world::{ServiceWorld, at, new_plan, of};
use test_support::spy_store::{CallCounts, SpyStore};

use crate::http::world::{HttpWorld, text};

async fn subscribe(world: &ServiceWorld, user: UserId, slug: &str, features: &str, quota: u64) {
    let plan = NewPlan {
        features: of(features),
        node_quota: NodeQuota::new(quota).unwrap(),
        ..new_plan(slug)
    };
    let plan = world.service.create_plan(plan).await.unwrap();
    world.service.create_subscription(NewSubscription::new(user, plan.id)).await.unwrap();
}

/// Over the cache that there is in front of a database, a user with one subscription costs one read.
#[tokio::test]
async fn with_its_plan_in_the_cache_an_entitlement_is_one_read() {
    let store = SpyStore::new(CallCounts::default());
    let cached = CachedStore::new(Arc::clone(&store), CacheInvalidator::LAG);
    let world = HttpWorld::over(Arc::new(cached)).await;
    let held = world.subscription("ann", &json!({})).await;
    let path = format!("/users/{}/entitlement", text(&held["user_id"]));
    world.server("GET", &path, &[], "").await;
    store.spy.take();

    let answer = world.server("GET", &path, &[], "").await;

    assert_eq!((answer.status, store.spy.take()), (200, (1, 0)));
    assert_eq!(answer.json()["grants"][0]["subscription_id"], held["id"]);
}

#[tokio::test]
async fn a_user_without_subscription_has_nothing() {
    let world = ServiceWorld::new();

    let entitlement = world.service.entitlement(world.user()).await.unwrap();

    assert!(!entitlement.has_access());
    assert!(!entitlement.has_feature("api"));
    assert_eq!((entitlement.features().count(), entitlement.node_quota().get()), (0, 0));
}

#[tokio::test]
async fn several_subscriptions_grant_the_features_of_all_and_the_quota_of_the_best() {
    let world = ServiceWorld::new();
    let user = world.user();
    subscribe(&world, user, "basic", "api, sso", 5).await;
    subscribe(&world, user, "pro", "sso,audit log", 50).await;
    subscribe(&world, world.user(), "other", "everything", 500).await;

    let entitlement = world.service.entitlement(user).await.unwrap();

    assert!(entitlement.has_access());
    assert_eq!(entitlement.features().collect::<Vec<_>>(), ["api", "audit log", "sso"]);
    assert!(entitlement.has_feature("audit log") && !entitlement.has_feature("audit"));
    assert_eq!(entitlement.node_quota().get(), 50);
    assert_eq!(entitlement.grants.len(), 2);
}

#[tokio::test]
async fn access_ends_by_status_by_block_and_by_the_clock() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    let has_access =
        async || world.service.entitlement(subscription.user_id).await.unwrap().has_access();
    let update =
        async |changes| world.service.update_subscription(subscription.id, changes).await.unwrap();
    assert!(has_access().await);

    update(SubscriptionChanges::status(SubscriptionStatus::Paused)).await;
    assert!(!has_access().await);

    let block = SubscriptionChanges { is_active: Some(false), ..SubscriptionChanges::default() };
    update(SubscriptionChanges::status(SubscriptionStatus::Active)).await;
    update(block).await;
    assert!(!has_access().await);

    let lift = SubscriptionChanges { is_active: Some(true), ..SubscriptionChanges::default() };
    update(lift).await;
    update(SubscriptionChanges::status(SubscriptionStatus::Cancelled)).await;
    assert!(has_access().await);

    world.clock.set(at("2025-02-28T00:00:00.000000Z"));
    assert!(!has_access().await);
}

#[tokio::test]
async fn more_subscriptions_than_a_page_holds_all_count() {
    let world = ServiceWorld::new();
    let user = world.user();
    let plan = world.plan("pro").await;
    for _ in 0..201 {
        let new = NewSubscription::new(user, plan.id);
        world.service.create_subscription(new).await.unwrap();
    }

    let entitlement = world.service.entitlement(user).await.unwrap();

    assert_eq!(entitlement.grants.len(), 201);
}
