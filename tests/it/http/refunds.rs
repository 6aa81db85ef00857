//! Money that is given back or disputed after a change of plan: no credit is left of it.

use serde_json::{Value, json};
use test_support::service_world::of;

use super::plan_changes::{Shop, plan};
use super::world::{path_of, text};

/// The payments of Ann's subscription, the oldest first.
async fn payments(shop: &Shop) -> Vec<Value> {
    let path = format!("{}/payments?limit=200", path_of(&shop.held));
    let mut all = shop.world.server("GET", &path, &[], "").await.json()["data"].take();
    let mut all = std::mem::take(all.as_array_mut().unwrap());
    all.reverse();
    all
}

async fn report(shop: &Shop, payment: &Value, status: &str) {
    let path = format!("/subscription-payments/{}", text(&payment["id"]));
    shop.put(&path, &json!({ "status": status }).to_string()).await;
}

/// Changes to a plan of this price and cycle, and returns the subscription.
async fn change(shop: &Shop, price: &str, cycle: &str) -> Value {
    let plan = plan(&shop.world, "other", price, &json!({ "billing_cycle": cycle })).await;
    let changed = shop.execute(&json!({ "subscription_plan_id": plan["id"] })).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    changed.json()
}

#[tokio::test]
async fn a_refund_takes_back_the_credit_that_a_change_made_of_it() {
    for (price, cycle, credit) in [("0", "monthly", 6.66), ("5", "yearly", 1.66)] {
        let shop = Shop::new().await;
        let paid = payments(&shop).await.remove(0);
        assert_eq!(change(&shop, price, cycle).await["credit"], json!(credit), "{cycle}");

        report(&shop, &paid, "refunded").await;

        assert_eq!(shop.read().await["credit"], json!(0.0), "{cycle}");
        // Nor is there a value left to make credit of.
        shop.world.auth.clock.set(of("2026-04-12T00:00:00Z"));
        let free = plan(&shop.world, "free", "0", &json!({ "billing_cycle": cycle })).await;
        let changed = shop.execute(&json!({ "subscription_plan_id": free["id"] })).await;
        assert_eq!(changed.json()["credit"], json!(0.0), "{cycle}");
    }
}

/// A second refund takes nothing of the credit that an operator gave.
#[tokio::test]
async fn a_refund_takes_back_the_credit_of_changes_once() {
    let shop = Shop::new().await;
    change(&shop, "0", "monthly").await;
    shop.put(&path_of(&shop.held), r#"{"credit":"26.66"}"#).await;
    let paid = payments(&shop).await.remove(0);

    report(&shop, &paid, "refunded").await;

    assert_eq!(shop.read().await["credit"], json!(20.0));
    let id = text(&shop.held["id"]).parse().unwrap();
    let held = shop.world.auth.service.subscription(id).await.unwrap();
    let billing = held.billing.as_ref().unwrap();
    assert!(billing.credit_of_changes.is_zero(), "{billing:?}");
}

/// The credit outlives the period, and changes that start periods of their own.
#[tokio::test]
async fn a_refund_takes_credit_back_also_later_and_after_several_changes() {
    let to = async |shop: &Shop, slug: &str, price: &str, cycle: &str| {
        let plan = plan(&shop.world, slug, price, &json!({ "billing_cycle": cycle })).await;
        let changed = shop.execute(&json!({ "subscription_plan_id": plan["id"] })).await;
        assert_eq!(changed.status, 200, "{changed:?}");
    };
    for later in ["2026-05-02T00:00:00Z", "2026-07-02T00:00:00Z"] {
        let shop = Shop::new().await;
        let paid = payments(&shop).await.remove(0);
        to(&shop, "free", "0", "monthly").await;
        shop.world.auth.clock.set(of(later));
        shop.put(&path_of(&shop.held), r#"{"metadata":{"a":"b"}}"#).await;
        assert_eq!(shop.read().await["credit"], json!(6.66), "{later}");

        report(&shop, &paid, "refunded").await;

        assert_eq!(shop.read().await["credit"], json!(0.0), "{later}");
    }
    let shop = Shop::new().await;
    let paid = payments(&shop).await.remove(0);
    to(&shop, "yearly", "0", "yearly").await;
    shop.world.auth.clock.set(of("2026-04-28T00:00:00Z"));
    to(&shop, "free", "0", "monthly").await;
    // What an operator gives stays.
    shop.put(&path_of(&shop.held), r#"{"credit":"16.66"}"#).await;

    report(&shop, &paid, "refunded").await;

    assert_eq!(shop.read().await["credit"], json!(10.0));
}

#[tokio::test]
async fn a_refund_leaves_credit_that_was_given_beside_it() {
    let shop = Shop::new().await;
    shop.put(&path_of(&shop.held), r#"{"credit":"50.00"}"#).await;

    report(&shop, &payments(&shop).await[0], "refunded").await;

    assert_eq!(shop.read().await["credit"], json!(50.0));
}

#[tokio::test]
async fn a_bounce_and_a_cancelled_payment_take_the_credit_back_too() {
    let shop = Shop::new().await;
    let paid = payments(&shop).await.remove(0);
    change(&shop, "0", "monthly").await;

    report(&shop, &paid, "failed").await;
    report(&shop, &paid, "canceled").await;

    assert_eq!(shop.read().await["credit"], json!(0.0));
}

#[tokio::test]
async fn a_disputed_payment_of_the_running_period_must_be_settled_before_a_change() {
    let shop = Shop::new().await;
    let first = payments(&shop).await.remove(0);
    report(&shop, &first, "disputed").await;

    shop.refuses(&shop.to_pro(&json!({})), "payment_open").await;

    // One of a period that is over gives no credit.
    shop.world.auth.clock.set(of("2026-05-02T00:00:00Z"));
    shop.put(&path_of(&shop.held), r#"{"metadata":{"a":"b"}}"#).await;
    let renewal = payments(&shop).await.remove(1);
    report(&shop, &renewal, "succeeded").await;
    assert_eq!(shop.execute(&shop.to_pro(&json!({}))).await.status, 200);
}
