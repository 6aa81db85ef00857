//! `/subscription-plans`: what is answered, and what is refused.

use serde_json::json;

use super::world::{Answer, HttpWorld, WEB, plan_body, problem, text};

const FULL: &str = r#"{"name":"Pro","product_id":"prod_1","variants":["v1","v2"],"slug":"pro","price":19.90,
"href":"https://example.com/pro","billing_cycle":"Year","description":"a\nb","node_quota":5,
"features":"x, y","most_popular":true,"tier":2}"#;

/// The fields that only the service sets.
const OURS: [&str; 5] = ["id", "created_at", "updated_at", "version", "is_admin"];

fn shown(id: &str, price: &str, updated_at: &str, version: u32) -> String {
    format!(
        r#"{{"id":"{id}","name":"Pro","product_id":"prod_1","variants":["v1","v2"],"slug":"pro","price":{price},"currency":null,"href":"https://example.com/pro","billing_cycle":"yearly","trial_period":null,"description":"a\nb","node_quota":5,"features":"x, y","most_popular":true,"tier":2,"is_active":true,"metadata":null,"created_at":"2025-01-31T00:00:00.000000Z","updated_at":"{updated_at}","version":{version}}}"#
    )
}

fn is_record(answer: &Answer, version: u32) {
    assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
    assert_eq!(answer.header("etag"), Some(&*format!("\"{version}\"")), "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(answer.header("x-request-id").is_some());
}

#[tokio::test]
async fn a_plan_is_made_shown_changed_and_deleted() {
    let world = HttpWorld::new().await;

    let made = world.server("POST", "/subscription-plans", &[], FULL).await;

    assert_eq!(made.status, 201, "{made:?}");
    is_record(&made, 1);
    assert_eq!(made.header("location"), Some("subscription-plans/pro"));
    let id = text(&made.json()["id"]);
    assert_eq!(made.text(), shown(&id, "19.90", "2025-01-31T00:00:00.000000Z", 1));

    let read = world.server("GET", "/subscription-plans/pro", &[], "").await;
    assert_eq!((read.status, &read.body), (200, &made.body));
    is_record(&read, 1);

    world.auth.clock.advance(std::time::Duration::from_millis(1_500));
    let changed = world
        .server("PUT", "/subscription-plans/pro", &[], r#"{"price":123456789012345.123456}"#)
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    is_record(&changed, 2);
    let expected = shown(&id, "123456789012345.123456", "2025-01-31T00:00:01.500000Z", 2);
    assert_eq!(changed.text(), expected);

    let same = world.server("PUT", "/subscription-plans/pro", &[], "{}").await;
    assert_eq!((same.status, same.body), (200, changed.body));

    let gone = world.server("DELETE", "/subscription-plans/pro", &[], "").await;
    assert_eq!((gone.status, gone.text(), gone.header("content-type")), (204, "", None));
    for method in ["GET", "DELETE"] {
        let again = world.server(method, "/subscription-plans/pro", &[], "").await;
        assert_eq!(again.problem(), problem(404, "not_found"), "{method}");
    }
}

#[tokio::test]
async fn only_the_required_fields_make_a_plan_with_the_defaults() {
    let world = HttpWorld::new().await;

    let made = world.plan("small").await;

    let mut expected = json!({
        "name": "Pro", "slug": "small", "price": 19.99, "billing_cycle": "monthly",
        "product_id": null, "variants": [], "href": null, "description": "", "node_quota": 0,
        "features": "", "most_popular": false, "tier": 0, "is_active": true, "version": 1,
        "currency": null, "trial_period": null, "metadata": null,
        "created_at": "2025-01-31T00:00:00.000000Z", "updated_at": "2025-01-31T00:00:00.000000Z",
    });
    expected["id"] = made["id"].clone();
    assert_eq!(made, expected);
}

#[tokio::test]
async fn all_offending_fields_are_told_at_once() {
    let world = HttpWorld::new().await;
    let body = r#"{"slug":"-","price":-1,"billing_cycle":"often","href":"ftp://x","tier":10001,
        "node_quota":1.5,"name":null,"features":"\u0000","variants":"v","most_popular":1,"x":1}"#;

    let refused = world.server("POST", "/subscription-plans", &[], body).await;

    let mut faults = refused.faults();
    faults.sort();
    let expected = [
        "billing_cycle not_allowed_value",
        "features control_character",
        "href bad_format",
        "most_popular wrong_type",
        "name null_not_allowed",
        "node_quota wrong_type",
        "price out_of_range",
        "slug bad_format",
        "tier out_of_range",
        "variants wrong_type",
        "x unknown_field",
    ];
    assert_eq!(faults, expected);
    let required = world.server("POST", "/subscription-plans", &[], "{}").await.faults();
    assert_eq!(
        required,
        ["name required", "slug required", "price required", "billing_cycle required"]
    );
}

#[tokio::test]
async fn nothing_but_the_listed_fields_can_be_set() {
    let world = HttpWorld::new().await;
    let before = world.plan("pro").await;

    for field in OURS.into_iter().chain(["is_active"]) {
        let mut body = plan_body("other");
        body[field] = json!("x");
        let refused = world.server("POST", "/subscription-plans", &[], body.to_string()).await;
        assert_eq!(refused.faults(), [format!("{field} unknown_field")]);
    }
    for field in OURS.into_iter().chain(["slug"]) {
        let body = json!({ "tier": 7, field: "x" }).to_string();
        let refused = world.server("PUT", "/subscription-plans/pro", &[], body).await;
        assert_eq!(refused.faults(), [format!("{field} unknown_field")]);
        let is_ours = field != "is_admin";
        assert_eq!(refused.json()["errors"][0]["message"] == "cannot be set or changed", is_ours);
    }

    let after = world.server("GET", "/subscription-plans/pro", &[], "").await.json();
    assert_eq!(after, before);
    let other = world.server("GET", "/subscription-plans/other", &[], "").await;
    assert_eq!(other.status, 404);
}

#[tokio::test]
async fn decimals_that_are_none_are_refused_at_once() {
    let world = HttpWorld::new().await;
    let million = "9".repeat(60_000);
    let bombs =
        ["1e9999999", "1E5", "-0.01", "0.0000001", "1234567890123456", &million, "\"NaN\"", "\"\""];

    for bomb in bombs {
        let body =
            format!(r#"{{"name":"Pro","slug":"pro","price":{bomb},"billing_cycle":"monthly"}}"#);
        let refused = world.server("POST", "/subscription-plans", &[], body).await;

        assert_eq!(refused.faults().len(), 1, "{bomb:.20}: {refused:?}");
    }
}

#[tokio::test]
async fn a_slug_is_taken_once_and_a_plan_in_use_stays() {
    let world = HttpWorld::new().await;
    let plan = world.plan("pro").await;

    let body = plan_body("pro").to_string();
    let twice = world.server("POST", "/subscription-plans", &[], body).await;
    assert_eq!(twice.problem(), problem(409, "slug_taken"));
    assert_eq!(twice.json()["holder"], plan["id"]);

    world.subscription("ann", &json!({ "subscription_plan_id": plan["id"] })).await;
    let used = world.server("DELETE", "/subscription-plans/pro", &[], "").await;
    assert_eq!(used.problem(), problem(409, "plan_in_use"));
    assert_eq!(world.server("GET", "/subscription-plans/pro", &[], "").await.status, 200);
}

#[tokio::test]
async fn a_browser_may_read_plans_and_nothing_else_of_them() {
    let world = HttpWorld::new().await;
    world.plan("pro").await;
    let web = [("client-id", WEB)];

    assert_eq!(world.call("GET", "/subscription-plans", &web, "").await.status, 200);
    assert_eq!(world.call("GET", "/subscription-plans/pro", &web, "").await.status, 200);
    for (method, path, body) in [
        ("POST", "/subscription-plans", plan_body("x").to_string()),
        ("PUT", "/subscription-plans/pro", "{}".into()),
        ("DELETE", "/subscription-plans/pro", String::new()),
    ] {
        let refused = world.call(method, path, &web, body).await;
        assert_eq!(refused.problem(), problem(403, "scope_missing"), "{method}");
    }
}

#[tokio::test]
async fn slugs_that_are_none_name_no_plan() {
    let world = HttpWorld::new().await;
    let too_long = "a".repeat(65);

    for slug in ["Pro", "-", "a_b", "pr%C3%B6", "%E2%84%AA", "a%20b", "pro;x", "%252e", &too_long] {
        for (method, body) in [("GET", ""), ("PUT", "{}"), ("DELETE", "")] {
            let path = format!("/subscription-plans/{slug}");
            let refused = world.server(method, &path, &[], body).await;
            assert_eq!(refused.problem(), problem(404, "not_found"), "{method} {slug}");
        }
    }
}

#[tokio::test]
async fn name_link_product_and_variants_can_be_changed() {
    let world = HttpWorld::new().await;
    let before = world.made("/subscription-plans", &serde_json::from_str(FULL).unwrap()).await;
    let path = "/subscription-plans/pro";

    let body = r#"{"name":"Team","href":null,"product_id":"prod_2","variants":["v3"]}"#;
    let changed = world.server("PUT", path, &[], body).await.json();

    assert_eq!(changed["name"], "Team", "{changed}");
    assert_eq!(changed["product_id"], "prod_2", "{changed}");
    assert_eq!((&changed["href"], &changed["variants"]), (&json!(null), &json!(["v3"])));
    assert_eq!((&changed["id"], &changed["slug"]), (&before["id"], &before["slug"]));
    let listed = world.server("GET", "/subscription-plans?product_id=prod_2", &[], "").await;
    assert_eq!(listed.json()["data"], json!([changed]));
    let events = world.server("GET", "/events", &[], "").await.json();
    let last = events["data"].as_array().unwrap().last().unwrap();
    assert_eq!(
        last["change"]["fields"],
        json!(["name", "product_id", "variants", "href"]),
        "{last}"
    );

    let many: Vec<_> = (0..101).map(|n| n.to_string()).collect();
    let body = json!({ "name": "", "href": "x", "variants": many }).to_string();
    let refused = world.server("PUT", path, &[], body).await;
    assert_eq!(refused.status, 422);
    assert_eq!(refused.json()["errors"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_plan_is_read_by_its_id_which_is_nobodys_slug() {
    let world = HttpWorld::new().await;
    let plan = world.plan("pro").await;
    let path = format!("/subscription-plans/{}", text(&plan["id"]));

    assert_eq!(world.server("GET", &path, &[], "").await.json(), plan);

    for method in ["PUT", "DELETE"] {
        let refused = world.server(method, &path, &[], "{}").await;
        assert_eq!(refused.problem(), problem(404, "not_found"), "{method}");
    }
    let refused = world
        .server("POST", "/subscription-plans", &[], plan_body(&text(&plan["id"])).to_string())
        .await;
    assert_eq!(refused.faults(), ["slug not_allowed_value"]);
    let unknown = path.replace('0', "1");
    assert_eq!(world.server("GET", &unknown, &[], "").await.problem(), problem(404, "not_found"));
}
