//! Each field of an input reaches its record, when it is made and when it is changed.

use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::{
    NewPlan, NewSubscription, PaymentChanges, PlanChanges, SubscriptionChanges,
};
use test_support::service_world::{ServiceWorld, of};

fn shown(record: &impl serde::Serialize) -> Value {
    serde_json::to_value(record).unwrap()
}

const LATER: &str = "2025-02-01T00:00:00.000000Z";

/// Values that a plan can be created with and changed to.
fn plan_fields() -> Value {
    json!({
        "price": 5.5,
        "billing_cycle": "yearly", "description": "words", "node_quota": 7, "features": "api",
        "most_popular": true, "tier": 3,
        "metadata": { "b": "1", "a": "2" },
    })
}

#[tokio::test]
async fn every_field_of_a_new_plan_is_kept() {
    let world = ServiceWorld::new();
    let mut sent = plan_fields();
    sent["slug"] = json!("other");
    sent["name"] = json!("Other");
    sent["product_id"] = json!("p-1");
    sent["variants"] = json!(["v-1"]);
    sent["href"] = json!("https://example.com/");

    let new = NewPlan::from_json(sent.to_string().as_bytes()).unwrap();
    let made = world.service.create_plan(new).await.unwrap();

    for (field, value) in sent.as_object().unwrap() {
        assert_eq!(shown(&*made)[field], *value, "{field}");
    }
}

#[tokio::test]
async fn every_field_of_a_plan_changes_alone() {
    for (field, value) in plan_fields().as_object().unwrap() {
        let world = ServiceWorld::new();
        let before = shown(&*world.plan("pro").await);
        world.clock.advance(Duration::from_hours(24));

        let changes = PlanChanges::from_json(json!({ field: value }).to_string().as_bytes());
        let plan = world.service.update_plan(&of("pro"), changes.unwrap()).await.unwrap();

        let mut expected = before.clone();
        expected[field] = value.clone();
        expected["updated_at"] = json!(LATER);
        expected["version"] = json!(2);
        assert_eq!(shown(&*plan), expected, "{field}");
    }
}

#[tokio::test]
async fn every_field_of_a_new_subscription_is_kept() {
    let world = ServiceWorld::new();
    let plan = world.plan("pro").await;
    let sent = json!({
        "user_id": world.user(), "subscription_plan_id": plan.id, "external_subscription_id": "s-1",
        "billing_cycle": "yearly", "status": "cancelled", "is_active": false,
        "renews_at": null, "starts_at": "2025-01-01T00:00:00.000000Z", "ends_at": "2025-03-01T00:00:00.000000Z",
        "metadata": { "b": "1", "a": "2" },
    });

    let new = NewSubscription::from_json(sent.to_string().as_bytes()).unwrap();
    let made = world.service.create_subscription(new).await.unwrap();

    for (field, value) in sent.as_object().unwrap() {
        assert_eq!(shown(&*made)[field], *value, "{field}");
    }
}

#[tokio::test]
async fn a_subscription_is_made_to_renew_when_it_is_told() {
    let world = ServiceWorld::new();
    let plan = world.plan("pro").await;
    let sent = json!({
        "user_id": world.user(), "subscription_plan_id": plan.id, "renews_at": "2025-02-11T00:00:00.000000Z",
    });

    let new = NewSubscription::from_json(sent.to_string().as_bytes()).unwrap();
    let made = world.service.create_subscription(new).await.unwrap();

    assert_eq!(shown(&*made)["renews_at"], sent["renews_at"]);
}

#[tokio::test]
async fn a_change_tells_when_it_was_made() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    let payment = world.payment(subscription.id, |_| {}).await;
    world.clock.advance(Duration::from_hours(24));

    let changes = SubscriptionChanges::from_json(br#"{"billing_cycle":"yearly"}"#).unwrap();
    let yearly = world.service.update_subscription(subscription.id, changes).await.unwrap();
    let changes = PaymentChanges::from_json(br#"{"amount":5.5}"#).unwrap();
    let repaid = world.service.update_payment(payment.id, changes).await.unwrap();

    assert_eq!(shown(&*yearly)["billing_cycle"], json!("yearly"));
    assert_eq!(shown(&*yearly)["updated_at"], json!(LATER));
    assert_eq!(shown(&*repaid)["amount"], json!(5.5));
    assert_eq!(shown(&*repaid)["updated_at"], json!(LATER));
}
