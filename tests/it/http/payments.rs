//! `/subscription-payments`: what is answered, and what is refused.

use serde_json::{Value, json};

use super::world::{HttpWorld, payment_body, problem, text};

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";

fn path(record: &Value) -> String {
    format!("/subscription-payments/{}", text(&record["id"]))
}

#[tokio::test]
async fn a_payment_is_made_shown_changed_and_deleted() {
    let world = HttpWorld::new().await;
    let subscription = text(&world.subscription("ann", &json!({})).await["id"]);
    let body = format!(r#"{{"subscription_id":"{subscription}","amount":0.10,"currency":"usd"}}"#);

    let made = world.server("POST", "/subscription-payments", &[], body).await;

    assert_eq!((made.status, made.header("etag")), (201, Some("\"1\"")), "{made:?}");
    assert_eq!(made.header("content-type"), Some("application/json"));
    let id = text(&made.json()["id"]);
    assert_eq!(made.header("location"), Some(&*format!("subscription-payments/{id}")));
    let expected = format!(
        r#"{{"id":"{id}","subscription_id":"{subscription}","amount":0.10,"currency":"USD","external_payment_id":null,"status":"pending","kind":null,"period_start":null,"period_end":null,"charge_key":null,"due_at":null,"attempt":null,"next_attempt_at":null,"metadata":null,"created_at":"2025-01-31T00:00:00.000000Z","updated_at":"2025-01-31T00:00:00.000000Z","version":1}}"#
    );
    assert_eq!(made.text(), expected);

    let path = path(&made.json());
    let read = world.server("GET", &path, &[], "").await;
    assert_eq!((read.status, &read.body, read.header("etag")), (200, &made.body, Some("\"1\"")));

    let changed = world.server("PUT", &path, &[], r#"{"status":"Paid"}"#).await;
    assert_eq!((changed.status, changed.header("etag")), (200, Some("\"2\"")), "{changed:?}");
    let expected = expected
        .replace(r#""status":"pending""#, r#""status":"succeeded""#)
        .replace(r#""version":1"#, r#""version":2"#);
    assert_eq!(changed.text(), expected);

    let gone = world.server("DELETE", &path, &[], "").await;
    assert_eq!((gone.status, gone.text(), gone.header("content-type")), (204, "", None));
    for (method, body) in [("GET", ""), ("PUT", "{}"), ("DELETE", "")] {
        let again = world.server(method, &path, &[], body).await;
        assert_eq!(again.problem(), problem(404, "not_found"), "{method}");
    }
}

#[tokio::test]
async fn what_is_settled_stays() {
    let world = HttpWorld::new().await;
    let made = world.payment("ann", &json!({ "status": "succeeded" })).await;

    let body = r#"{"amount":1,"currency":"EUR"}"#;
    let refused = world.server("PUT", &path(&made), &[], body).await;

    assert_eq!(refused.problem(), problem(409, "payment_settled"));
    assert_eq!(refused.json()["fields"], json!(["amount", "currency"]));
}

#[tokio::test]
async fn a_step_that_the_lifecycle_lacks_is_told_with_those_that_it_has() {
    let world = HttpWorld::new().await;
    let made = world.payment("ann", &json!({ "status": "refunded" })).await;

    let refused = world.server("PUT", &path(&made), &[], r#"{"status":"pending"}"#).await;

    assert_eq!(refused.problem(), problem(409, "invalid_transition"));
    let body = refused.json();
    assert_eq!((&body["from"], &body["to"]), (&json!("refunded"), &json!("pending")));
    assert_eq!(body["allowed"], json!([]));
}

#[tokio::test]
async fn an_external_id_is_taken_once_and_free_again_once_deleted() {
    let world = HttpWorld::new().await;
    let outside = json!({ "external_payment_id": "pay_1" });
    let holder = world.payment("ann", &outside).await;
    let other = world.payment("ben", &json!({})).await;

    let refused = world.server("PUT", &path(&other), &[], outside.to_string()).await;
    assert_eq!(refused.problem(), problem(409, "external_id_taken"));
    assert_eq!(refused.json()["holder"], holder["id"]);

    world.server("DELETE", &path(&holder), &[], "").await;
    let taken = world.server("PUT", &path(&other), &[], outside.to_string()).await;
    assert_eq!(taken.status, 200);
}

#[tokio::test]
async fn fields_that_cannot_be_are_refused() {
    let world = HttpWorld::new().await;
    let subscription = world.subscription("ann", &json!({})).await;
    let cases = [
        (json!({ "amount": "0" }), "amount out_of_range"),
        (json!({ "amount": "0.001" }), "amount out_of_range"),
        (json!({ "amount": "1.5", "currency": "JPY" }), "amount out_of_range"),
        (json!({ "currency": "XXQ" }), "currency not_allowed_value"),
        (json!({ "currency": 840 }), "currency wrong_type"),
        (json!({ "status": "gone" }), "status not_allowed_value"),
        (json!({ "subscription_id": NOBODY }), "subscription_id unknown_reference"),
        (json!({ "external_payment_id": "x".repeat(256) }), "external_payment_id too_long"),
        (json!({ "id": NOBODY }), "id unknown_field"),
        (json!({ "settled": true }), "settled unknown_field"),
        (json!({ "created_at": "2025-01-01T00:00:00.000000Z" }), "created_at unknown_field"),
        (json!({ "updated_at": "2025-01-01T00:00:00.000000Z" }), "updated_at unknown_field"),
        (json!({ "version": 9 }), "version unknown_field"),
    ];
    let made = world.made("/subscription-payments", &payment_body(&subscription)).await;

    for (more, fault) in cases {
        let mut body = payment_body(&subscription);
        super::world::add(&mut body, &more);
        let refused = world.server("POST", "/subscription-payments", &[], body.to_string()).await;
        assert_eq!(refused.faults(), [fault], "POST {more}");
        let refused = world.server("PUT", &path(&made), &[], more.to_string()).await;
        assert_eq!(refused.faults(), [fault], "PUT {more}");
    }

    assert_eq!(world.server("GET", &path(&made), &[], "").await.json(), made);
    let required = world.server("POST", "/subscription-payments", &[], "{}").await.faults();
    assert_eq!(required, ["subscription_id required", "amount required", "currency required"]);
}

#[tokio::test]
async fn payments_stay_when_their_subscription_goes_and_have_no_list() {
    let world = HttpWorld::new().await;
    let made = world.payment("ann", &json!({})).await;
    let subscription = format!("/subscriptions/{}", text(&made["subscription_id"]));

    assert_eq!(world.server("DELETE", &subscription, &[], "").await.status, 204);

    assert_eq!(world.server("GET", &path(&made), &[], "").await.json(), made);
    let list = world.server("GET", "/subscription-payments", &[], "").await;
    assert_eq!(list.problem(), problem(405, "method_not_allowed"));
    assert_eq!(list.header("allow"), Some("POST, OPTIONS"));
}

#[tokio::test]
async fn an_id_that_is_none_names_no_payment() {
    let world = HttpWorld::new().await;

    for id in ["1", "x", NOBODY, "null", "%20"] {
        for (method, body) in [("GET", ""), ("PUT", "{}"), ("DELETE", "")] {
            let path = format!("/subscription-payments/{id}");
            let refused = world.server(method, &path, &[], body).await;
            assert_eq!(refused.problem(), problem(404, "not_found"), "{method} {id}");
        }
    }
}
