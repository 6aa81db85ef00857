//! `/users/{user_id}/entitlement`: what is answered, and what is refused.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::auth::AuthSettings;
use subscription_core::store::CachedStore;
use subscription_http::Timeouts;
use test_support::spy_store::{CallCounts, SpyStore};

use super::world::{Answer, HttpWorld, add, plan_body, problem, text};
use crate::auth::world::AuthWorld;

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";

async fn entitlement(world: &HttpWorld, user: &str) -> Answer {
    world.server("GET", &format!("/users/{user}/entitlement"), &[], "").await
}

/// Makes a plan and a user's subscription to it.
async fn subscribe(world: &HttpWorld, user: &str, slug: &str, more: &Value) -> Value {
    let mut plan = plan_body(slug);
    add(&mut plan, more);
    let plan = world.made("/subscription-plans", &plan).await;
    let body = json!({ "user_id": user, "subscription_plan_id": plan["id"] });
    world.made("/subscriptions", &body).await
}

#[tokio::test]
async fn an_entitlement_is_the_union_of_features_the_largest_quota_and_each_grant() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await.id;
    let more = json!({ "features": "sso, api", "node_quota": 5, "tier": 1 });
    let first = subscribe(&world, &ann, "basic", &more).await;
    world.auth.clock.advance(Duration::from_mins(1));
    let more = json!({ "features": "audit log,sso", "node_quota": 3, "tier": 2 });
    let second = subscribe(&world, &ann, "pro", &more).await;

    let shown = entitlement(&world, &ann).await;

    assert_eq!((shown.status, shown.header("cache-control")), (200, Some("no-store")));
    let grant = |made: &Value, slug: &str, tier: u32| {
        let (id, plan) = (text(&made["id"]), text(&made["subscription_plan_id"]));
        let renews_at = text(&made["renews_at"]);
        format!(
            r#"{{"subscription_id":"{id}","status":"active","renews_at":"{renews_at}","ends_at":null,"plan":{{"id":"{plan}","slug":"{slug}","name":"Pro","tier":{tier}}}}}"#
        )
    };
    let (newest, oldest) = (grant(&second, "pro", 2), grant(&first, "basic", 1));
    let expected = format!(
        r#"{{"user_id":"{ann}","has_access":true,"features":["api","audit log","sso"],"node_quota":5,"grants":[{newest},{oldest}]}}"#
    );
    assert_eq!(shown.text(), expected);
}

#[tokio::test]
async fn a_feature_is_looked_for_letter_by_letter() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await.id;
    subscribe(&world, &ann, "pro", &json!({ "features": "audit log, sso" })).await;

    for (feature, has) in [
        ("sso", true),
        ("audit%20log", true),
        ("audit+log", true),
        ("SSO", false),
        ("audit", false),
        ("audit%20log,%20sso", false),
        ("%20sso", false),
    ] {
        let path = format!("/users/{ann}/entitlement?feature={feature}");
        let shown = world.server("GET", &path, &[], "").await;
        assert_eq!(shown.json()["has_feature"], has, "{feature}");
    }
    let unasked = entitlement(&world, &ann).await.json();
    assert!(unasked.get("has_feature").is_none(), "{unasked}");
}

#[tokio::test]
async fn a_block_an_end_and_a_changed_plan_count_at_once() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await.id;
    let made = subscribe(&world, &ann, "pro", &json!({ "features": "sso" })).await;
    let path = format!("/subscriptions/{}", text(&made["id"]));
    let has_access = async || entitlement(&world, &ann).await.json()["has_access"] == true;
    assert!(has_access().await);

    world.server("PUT", &path, &[], r#"{"is_active":false}"#).await;
    assert!(!has_access().await);

    world.server("PUT", &path, &[], r#"{"is_active":true,"status":"cancelled"}"#).await;
    world.server("PUT", "/subscription-plans/pro", &[], r#"{"features":"api"}"#).await;
    let shown = entitlement(&world, &ann).await.json();
    assert_eq!((&shown["has_access"], &shown["features"]), (&json!(true), &json!(["api"])));
    assert_eq!(shown["grants"][0]["ends_at"], made["renews_at"]);

    world.auth.clock.set(text(&made["renews_at"]).parse().unwrap());
    assert!(!has_access().await);
}

#[tokio::test]
async fn what_is_no_query_or_no_user_is_refused() {
    let world = HttpWorld::new().await;

    for (query, parameter) in [
        ("feature=", "feature"),
        ("feature", "feature"),
        ("feature=a&feature=b", "feature"),
        ("feature=%00", "feature"),
        ("feature=%ff", "feature"),
        ("features=a", "features"),
        ("limit=1", "limit"),
    ] {
        let path = format!("/users/{NOBODY}/entitlement?{query}");
        let refused = world.server("GET", &path, &[], "").await;
        assert_eq!(refused.problem(), problem(400, "invalid_query"), "{query}");
        assert_eq!(refused.json()["parameter"], parameter, "{query}");
        assert_eq!(refused.header("cache-control"), Some("no-store"), "{query}");
    }
    for user in ["x", "42", "01940000000070008000000000000000"] {
        assert_eq!(entitlement(&world, user).await.problem(), problem(404, "not_found"), "{user}");
    }
}

#[tokio::test]
async fn an_unknown_user_is_not_told_from_one_without_subscriptions_nor_by_what_is_read() {
    let store = SpyStore::new(CallCounts::default());
    let world = HttpWorld::over(Arc::<SpyStore<_>>::clone(&store)).await;
    let ann = world.sign_up("ann").await.id;
    let asked = async |user: &str| {
        store.spy.take();
        let shown = entitlement(&world, user).await;
        (shown.status, shown.text().replace(user, "USER"), store.spy.take())
    };

    let unknown = asked(NOBODY).await;

    assert_eq!(asked(&ann).await, unknown);
    let expected =
        r#"{"user_id":"USER","has_access":false,"features":[],"node_quota":0,"grants":[]}"#;
    assert_eq!((unknown.0, &*unknown.1), (200, expected));
}

#[tokio::test]
async fn with_plans_and_clients_in_the_cache_an_entitlement_is_one_read() {
    let store = SpyStore::new(CallCounts::default());
    let cached = Arc::new(CachedStore::new(Arc::clone(&store), Duration::from_mins(1)));
    let auth = AuthWorld::over(cached, AuthSettings::default());
    let world = HttpWorld::with(auth, Timeouts::default()).await;
    let ann = world.sign_up("ann").await.id;
    subscribe(&world, &ann, "pro", &json!({})).await;
    entitlement(&world, &ann).await;
    store.spy.take();

    let shown = entitlement(&world, &ann).await;

    assert_eq!(shown.json()["has_access"], true);
    assert_eq!(store.spy.take(), (1, 0));
}
