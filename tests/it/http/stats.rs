//! `/stats`: the figures of the business.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use subscription_core::ManualClock;
use subscription_core::auth::AuthSettings;
use subscription_http::{ApiPart, Timeouts, openapi_json_for};
use test_support::service_world::at;

use super::endpoints::Shown;
use super::world::{HttpWorld, path_of, text};
use crate::auth::world::AuthWorld;
use crate::figures::slow_store::SlowStore;

/// The answers of an endpoint: somebody pays, somebody is behind, and somebody's plan has no currency.
pub(super) async fn shown(world: &HttpWorld, route: &str) -> Shown {
    let paid = world.on_clock("ann", &json!({ "quantity": 2 })).await;
    world.report(&paid, "succeeded").await;
    let behind = world.on_clock("ben", &json!({})).await;
    world.report(&behind, "failed").await;
    world.payment("cat", &json!({})).await;
    world.auth.clock.advance(Duration::from_hours(24 * 15));
    let get = |path: &'static str| world.server("GET", path, &[], "");
    if route == "GET /stats/now" {
        vec![("The figures of now.", get("/stats/now").await)]
    } else if route == "GET /stats/forecast" {
        vec![("This month and the eleven after it.", get("/stats/forecast").await)]
    } else {
        vec![("The running month and the one before.", get("/stats/months?months=2").await)]
    }
}

#[tokio::test]
async fn the_number_of_months_is_checked() {
    let world = HttpWorld::new().await;
    for query in [
        "months=0",
        "months=61",
        "months=-1",
        "months=x",
        "months=",
        "months=1.5",
        "months=1e1",
        "months=24&months=24",
        "months=99999999999999999999999",
        "months=%31%00",
        "month=2",
        "limit=1",
        "months=2&x=1",
    ] {
        let refused = world.server("GET", &format!("/stats/months?{query}"), &[], "").await;

        let problem = refused.json();
        assert_eq!(
            (refused.status, text(&problem["code"])),
            (400, "invalid_query".to_owned()),
            "{query}"
        );
        assert_eq!(refused.header("cache-control"), Some("no-store"), "{query}");
    }
    for (query, count) in [("", 24), ("?months=1", 1), ("?months=60", 60), ("?months=%31%32", 12)] {
        let months = world.server("GET", &format!("/stats/months{query}"), &[], "").await;

        assert_eq!(months.json()["data"].as_array().unwrap().len(), count, "{query}");
        assert_eq!(months.header("cache-control"), Some("no-store"));
    }
    for path in ["/stats/now?months=1", "/stats/forecast?months=1"] {
        let refused = world.server("GET", path, &[], "").await;
        assert_eq!(
            (refused.status, text(&refused.json()["code"])),
            (400, "invalid_query".to_owned())
        );
    }
}

#[tokio::test]
async fn figures_follow_the_records() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    world.report(&held, "succeeded").await;
    let now = world.server("GET", "/stats/now", &[], "").await;
    assert_eq!((now.status, now.header("cache-control")), (200, Some("no-store")));
    let now = now.json();
    assert_eq!(now["paying_users"], 1);
    assert_eq!(now["money"][0]["mrr"], now["money"][0]["committed"]);

    world.server("POST", &format!("{}/cancel", path_of(&held)), &[], "").await;
    world.auth.clock.advance(Duration::from_secs(1));

    let later = world.server("GET", "/stats/now", &[], "").await.json();
    assert_eq!(later["money"][0]["mrr"], now["money"][0]["mrr"]);
    assert_eq!(later["money"][0]["committed"], 0.0);
}

/// The caller is told to come back, and then has the figures that were read meanwhile.
#[tokio::test]
async fn a_caller_waits_for_some_time_and_the_reading_goes_on() {
    let store = Arc::new(SlowStore::new(ManualClock::at(at("2025-01-31T00:00:00Z"))));
    let auth = AuthWorld::over(Arc::clone(&store) as _, AuthSettings::default());
    let timeouts = Timeouts::default();
    assert_eq!(timeouts.figures, Duration::from_secs(20));
    let world = HttpWorld::with(auth, timeouts.with_figures(Duration::from_millis(20))).await;
    // Plans and subscriptions; subscriptions, and payments from both ends.
    for (path, lists) in [("/stats/now", 2), ("/stats/months", 3)] {
        store.close();
        store.lists();

        let refused = world.server("GET", path, &[], "").await;

        assert_eq!((refused.status, text(&refused.json()["code"])), (503, "overloaded".to_owned()));
        assert_eq!(refused.header("retry-after"), Some("1"));
        store.open();
        let mut answer = refused;
        while answer.status == 503 {
            answer = world.server("GET", path, &[], "").await;
        }
        assert_eq!(answer.status, 200);
        assert_eq!(store.lists(), lists, "{path}: one page of each, once");
    }
}

#[tokio::test]
async fn without_figures_there_is_no_route() {
    let world = HttpWorld::new().await.allowing(&[]);

    for path in ["/stats/now", "/stats/months", "/stats/x", "/stats"] {
        let refused = world.server("GET", path, &[], "").await;

        assert_eq!(
            (refused.status, text(&refused.json()["code"])),
            (404, "route_not_found".to_owned()),
            "{path}"
        );
    }
    let has = |parts: &[ApiPart]| openapi_json_for(&[], parts).contains("/stats/now");
    assert!(has(&[ApiPart::Figures]) && !has(&[ApiPart::Billing, ApiPart::Webhooks]));
}
