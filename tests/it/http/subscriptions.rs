//! `/subscriptions`: what is answered, and what is refused.

use serde_json::{Value, json};

use super::world::{HttpWorld, plan_body, problem, text};

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";

fn path(record: &Value) -> String {
    format!("/subscriptions/{}", text(&record["id"]))
}

#[tokio::test]
async fn a_subscription_is_made_shown_changed_and_deleted() {
    let world = HttpWorld::new().await;
    let (user, plan) = (world.sign_up("ann").await.id, text(&world.plan("pro").await["id"]));
    let body = json!({ "user_id": user, "subscription_plan_id": plan }).to_string();

    let made = world.server("POST", "/subscriptions", &[], body).await;

    assert_eq!((made.status, made.header("etag")), (201, Some("\"1\"")), "{made:?}");
    assert_eq!(made.header("content-type"), Some("application/json"));
    let id = text(&made.json()["id"]);
    assert_eq!(made.header("location"), Some(&*format!("subscriptions/{id}")));
    let expected = format!(
        r#"{{"id":"{id}","user_id":"{user}","subscription_plan_id":"{plan}","external_subscription_id":null,"billing_cycle":"monthly","managed_by":"caller","quantity":1,"price":null,"currency":null,"credit":null,"discount":null,"status":"active","is_active":true,"blocked":false,"renews_at":"2025-02-28T00:00:00.000000Z","starts_at":"2025-01-31T00:00:00.000000Z","ends_at":null,"current_period_start":"2025-01-31T00:00:00.000000Z","current_period_end":"2025-02-28T00:00:00.000000Z","trial_ends_at":null,"resumes_at":null,"past_due_since":null,"next_action_at":null,"scheduled_change":null,"manage_url":null,"metadata":null,"created_at":"2025-01-31T00:00:00.000000Z","updated_at":"2025-01-31T00:00:00.000000Z","version":1}}"#
    );
    assert_eq!(made.text(), expected);

    let path = path(&made.json());
    let read = world.server("GET", &path, &[], "").await;
    assert_eq!((read.status, &read.body, read.header("etag")), (200, &made.body, Some("\"1\"")));

    let body = r#"{"status":"canceled","external_subscription_id":"sub_1"}"#;
    let changed = world.server("PUT", &path, &[], body).await;
    assert_eq!((changed.status, changed.header("etag")), (200, Some("\"2\"")), "{changed:?}");
    let expected = expected
        .replace(r#""status":"active""#, r#""status":"cancelled""#)
        .replace(r#""external_subscription_id":null"#, r#""external_subscription_id":"sub_1""#)
        .replace(r#""ends_at":null"#, r#""ends_at":"2025-02-28T00:00:00.000000Z""#)
        .replace(r#""version":1"#, r#""version":2"#);
    assert_eq!(changed.text(), expected);

    let same = world.server("PUT", &path, &[], "{}").await;
    assert_eq!((same.status, same.body), (200, changed.body));

    let gone = world.server("DELETE", &path, &[], "").await;
    assert_eq!((gone.status, gone.text(), gone.header("content-type")), (204, "", None));
    for (method, body) in [("GET", ""), ("PUT", "{}"), ("DELETE", "")] {
        let again = world.server(method, &path, &[], body).await;
        assert_eq!(again.problem(), problem(404, "not_found"), "{method}");
    }
}

#[tokio::test]
async fn unknown_users_and_plans_are_told_together() {
    let world = HttpWorld::new().await;
    let body = json!({ "user_id": NOBODY, "subscription_plan_id": NOBODY });

    let refused = world.server("POST", "/subscriptions", &[], body.to_string()).await;

    let mut faults = refused.faults();
    faults.sort();
    assert_eq!(faults, ["subscription_plan_id unknown_reference", "user_id unknown_reference"]);
    let required = world.server("POST", "/subscriptions", &[], "{}").await.faults();
    assert_eq!(required, ["user_id required", "subscription_plan_id required"]);
}

#[tokio::test]
async fn a_step_that_the_lifecycle_lacks_is_told_with_those_that_it_has() {
    let world = HttpWorld::new().await;
    let made = world.subscription("ann", &json!({ "status": "unpaid" })).await;

    let refused = world.server("PUT", &path(&made), &[], r#"{"status":"paused"}"#).await;

    assert_eq!(refused.problem(), problem(409, "invalid_transition"));
    let body = refused.json();
    assert_eq!((&body["from"], &body["to"]), (&json!("unpaid"), &json!("paused")));
    assert_eq!(body["allowed"], json!(["active", "cancelled", "expired"]));
}

#[tokio::test]
async fn a_plan_that_is_not_active_takes_no_new_subscriptions() {
    let world = HttpWorld::new().await;
    let made = world.subscription("ann", &json!({})).await;
    world.server("PUT", "/subscription-plans/of-ann", &[], r#"{"is_active":false}"#).await;
    let body = json!({
        "user_id": made["user_id"], "subscription_plan_id": made["subscription_plan_id"],
    });

    let refused = world.server("POST", "/subscriptions", &[], body.to_string()).await;

    assert_eq!(refused.problem(), problem(409, "plan_inactive"));
}

#[tokio::test]
async fn an_external_id_is_taken_once_and_its_holder_named() {
    let world = HttpWorld::new().await;
    let outside = json!({ "external_subscription_id": "sub_1" });
    let holder = world.subscription("ann", &outside).await;
    let other = world.subscription("ben", &json!({})).await;

    let refused = world.server("PUT", &path(&other), &[], outside.to_string()).await;

    assert_eq!(refused.problem(), problem(409, "external_id_taken"));
    assert_eq!(refused.json()["holder"], holder["id"]);
}

#[tokio::test]
async fn nothing_but_the_listed_fields_can_be_set() {
    let world = HttpWorld::new().await;
    let before = world.subscription("ann", &json!({})).await;
    let references = json!({
        "user_id": before["user_id"], "subscription_plan_id": before["subscription_plan_id"],
    });

    for field in [
        "id",
        "created_at",
        "updated_at",
        "version",
        "blocked",
        "anchor_at",
        "manage_url",
        "is_admin",
    ] {
        for (method, path) in [("POST", "/subscriptions".to_owned()), ("PUT", path(&before))] {
            let mut body = references.clone();
            body[field] = json!("2025-01-01T00:00:00.000000Z");
            let refused = world.server(method, &path, &[], body.to_string()).await;
            assert_eq!(refused.faults(), [format!("{field} unknown_field")], "{method}");
        }
    }

    assert_eq!(world.server("GET", &path(&before), &[], "").await.json(), before);
    let all = world.server("GET", "/subscriptions", &[], "").await.json();
    assert_eq!(all["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn fields_that_do_not_go_together_are_refused() {
    let world = HttpWorld::new().await;
    let made = world.subscription("ann", &json!({})).await;
    let cases = [
        (r#"{"ends_at":"2025-01-30T00:00:00.000000Z"}"#, "ends_at out_of_range"),
        (r#"{"starts_at":null}"#, "starts_at null_not_allowed"),
        (r#"{"starts_at":"yesterday"}"#, "starts_at bad_format"),
        (r#"{"status":"paused","is_active":true}"#, "is_active not_allowed_value"),
        (r#"{"status":"sleeping"}"#, "status not_allowed_value"),
        (r#"{"user_id":7}"#, "user_id wrong_type"),
        (r#"{"external_subscription_id":""}"#, "external_subscription_id too_short"),
    ];

    for (body, fault) in cases {
        let refused = world.server("PUT", &path(&made), &[], body).await;
        assert_eq!(refused.faults(), [fault], "{body}");
    }
}

#[tokio::test]
async fn an_id_that_is_none_names_no_subscription() {
    let world = HttpWorld::new().await;

    for id in ["1", "x", NOBODY, "null", "%20", "01940000-0000-7000-8000-00000000000g"] {
        for (method, body) in [("GET", ""), ("PUT", "{}"), ("DELETE", "")] {
            let path = format!("/subscriptions/{id}");
            let refused = world.server(method, &path, &[], body).await;
            assert_eq!(refused.problem(), problem(404, "not_found"), "{method} {id}");
        }
    }
}

#[tokio::test]
async fn access_that_lapses_is_told_to_those_who_have_the_version_already() {
    let world = HttpWorld::new().await;
    let made = world.subscription("ann", &json!({ "status": "cancelled" })).await;
    let condition = [("if-none-match", "\"1\"")];
    assert_eq!(world.server("GET", &path(&made), &condition, "").await.status, 304);

    world.auth.clock.advance(std::time::Duration::from_hours(40 * 24));

    let read = world.server("GET", &path(&made), &condition, "").await;
    assert_eq!((read.status, &read.json()["is_active"]), (200, &json!(false)));
}

#[tokio::test]
async fn a_deleted_plan_is_free_again_once_its_subscription_is_gone() {
    let world = HttpWorld::new().await;
    let made = world.subscription("ann", &json!({})).await;

    world.server("DELETE", &path(&made), &[], "").await;

    let gone = world.server("DELETE", "/subscription-plans/of-ann", &[], "").await;
    assert_eq!(gone.status, 204);
    world.made("/subscription-plans", &plan_body("of-ann")).await;
}
