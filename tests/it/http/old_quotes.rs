//! Changes of plan by a quote that the subscription has outlived, and a second payment for one moment.

use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::Clock as _;

use super::plan_changes::{AT, Shop};
use super::world::{path_of, text};

/// The payments of Ann's subscription that are for changes of plan.
async fn prorations(shop: &Shop) -> Vec<Value> {
    let path = format!("{}/payments?limit=200", path_of(&shop.held));
    let all = shop.world.server("GET", &path, &[], "").await.json()["data"].clone();
    let all = all.as_array().unwrap().iter();
    all.filter(|payment| payment["kind"] == "proration").cloned().collect()
}

/// An upgrade now and a downgrade 15 minutes ago, again and again.
#[tokio::test]
async fn a_quote_from_before_the_last_change_gives_no_credit() {
    let shop = Shop::new().await;
    assert_eq!(shop.execute(&json!({ "quantity": 10 })).await.status, 200);
    let held = shop.read().await;
    shop.world.report(&held, "succeeded").await;
    shop.world.auth.clock.advance(Duration::from_secs(1));

    let old = json!({ "quantity": 1, "at": "2026-04-10T23:50:00Z", "amount_due": 0 });
    let refused = shop.refuses(&old, "quote_changed").await;

    assert_eq!(refused["quote"]["at"], "2026-04-11T00:00:01.000000Z", "{refused}");
    // Quotes since the change hold, also at its very moment: then the two cancel each other out.
    let back = json!({ "quantity": 1, "at": AT, "amount_due": 0 });
    assert_eq!(shop.execute(&back).await.json()["credit"], json!(59.94));
}

/// Ups and downs with every quote that the server accepts add no more credit than was paid.
#[tokio::test]
async fn credit_is_never_more_than_what_was_paid() {
    let shop = Shop::new().await;
    assert_eq!(shop.execute(&json!({ "quantity": 10 })).await.status, 200);
    let held = shop.read().await;
    shop.world.report(&held, "succeeded").await;
    for round in 0..100 {
        shop.world.auth.clock.advance(Duration::from_millis(60));
        let at = shop.world.auth.clock.now().saturating_sub(Duration::from_secs(890));
        let down = json!({ "quantity": 1, "at": at, "amount_due": 0 });
        shop.execute(&down).await;
        shop.execute(&json!({ "quantity": 10 })).await;
        let credit = shop.read().await["credit"].as_f64().unwrap();
        assert!(credit < 0.01, "{credit} after {round} rounds");
    }
}

/// The gateway would repeat the result of the first: the two have one charge key.
#[tokio::test]
async fn a_second_payment_for_the_same_moment_is_refused() {
    let shop = Shop::new().await;
    assert_eq!(shop.execute(&json!({ "quantity": 2 })).await.status, 200);
    let asked = prorations(&shop).await;
    let path = format!("/subscription-payments/{}", text(&asked[0]["id"]));
    // Also if the first was cancelled.
    shop.put(&path, r#"{"status":"canceled"}"#).await;

    shop.refuses(&json!({ "quantity": 3 }), "quote_changed").await;

    shop.world.auth.clock.advance(Duration::from_micros(1));
    assert_eq!(shop.execute(&json!({ "quantity": 3 })).await.status, 200);
    let keys: Vec<_> = prorations(&shop).await.iter().map(|it| text(&it["charge_key"])).collect();
    assert!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
}
