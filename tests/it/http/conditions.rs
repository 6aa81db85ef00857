//! Entity tags and keys of requests: what holds when others write meanwhile, or answers are lost.

use serde_json::{Value, json};
use subscription_core::auth::ClientKind;

use super::world::{HttpWorld, payment_body, plan_body, problem, text};

/// A path of a record of each kind, with a change of it.
async fn records(world: &HttpWorld) -> [(String, &'static str); 3] {
    let payment = world.payment("ann", &json!({})).await;
    [
        ("/subscription-plans/of-ann".into(), r#"{"tier":3}"#),
        (format!("/subscriptions/{}", text(&payment["subscription_id"])), r#"{"status":"paused"}"#),
        (
            format!("/subscription-payments/{}", text(&payment["id"])),
            r#"{"external_payment_id":"p"}"#,
        ),
    ]
}

#[tokio::test]
async fn a_change_or_deletion_of_another_version_is_refused_and_the_version_told() {
    let world = HttpWorld::new().await;
    let stale =
        ["\"2\"", "\"0\"", "W/\"1\"", "\"01\"", "\"+1\"", "1", "\"x\"", "", "\"1", "\"\"", "W/*"];

    for (path, change) in records(&world).await {
        for tag in stale {
            for (method, body) in [("PUT", change), ("DELETE", "")] {
                let refused = world.server(method, &path, &[("if-match", tag)], body).await;
                let told = (refused.problem(), &refused.json()["current_version"]);
                let expected = (problem(412, "precondition_failed"), &json!(1));
                assert_eq!(told, expected, "{method} {path} {tag}");
            }
        }
        let changed = world.server("PUT", &path, &[("if-match", "\"1\"")], change).await;
        assert_eq!((changed.status, changed.header("etag")), (200, Some("\"2\"")), "{path}");
        let again = world.server("PUT", &path, &[("if-match", "\"1\"")], change).await;
        assert_eq!(again.problem(), problem(412, "precondition_failed"), "{path}");
    }
    let mut records = records_again(&world).await;
    records.reverse();
    for (path, tag) in records.into_iter().zip(["\"2\"", "*", "\"2\""]) {
        let gone = world.server("DELETE", &path, &[("if-match", tag)], "").await;
        assert_eq!(gone.status, 204, "{path} {gone:?}");
        let gone = world.server("DELETE", &path, &[("if-match", tag)], "").await;
        assert_eq!(gone.problem(), problem(404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn a_change_may_be_for_one_of_several_versions() {
    let world = HttpWorld::new().await;
    let stale =
        ["\"2\", \"3\"", "W/\"1\", \"2\"", "\"2\", *", ",", "\"a,1\", \"b\"", "W/\"1\",W/\"2\""];
    let one_of = ["\"1\",\"7\"", "\"7\", \"2\"", "W/\"3\", \"9\" ,\"3\"", "\"x\",,\"4\"", " * "];

    for (path, change) in records(&world).await {
        for tags in stale {
            for (method, body) in [("PUT", change), ("DELETE", "")] {
                let refused = world.server(method, &path, &[("if-match", tags)], body).await;
                let told = (refused.problem(), &refused.json()["current_version"]);
                let expected = (problem(412, "precondition_failed"), &json!(1));
                assert_eq!(told, expected, "{method} {path} {tags}");
            }
        }
        // A change that changes nothing makes no version, so each one differs.
        let nth = |n: usize| {
            if change.contains("paused") {
                json!({ "status": if n.is_multiple_of(2) { "paused" } else { "active" } })
            } else if change.contains("tier") {
                json!({ "tier": n + 4 })
            } else {
                json!({ "external_payment_id": n.to_string() })
            }
        };
        for (n, tags) in one_of.into_iter().enumerate() {
            let headers = [("if-match", tags)];
            let answer = world.server("PUT", &path, &headers, nth(n).to_string()).await;
            assert_eq!(answer.status, 200, "{path} {tags} {answer:?}");
        }
        let lines = [("if-match", "\"1\""), ("if-match", "\"6\", \"5\"")];
        let answer = world.server("PUT", &path, &lines, nth(5).to_string()).await;
        assert_eq!((answer.status, answer.header("etag")), (200, Some("\"7\"")), "{path}");
    }
}

/// The paths of the records that there are.
async fn records_again(world: &HttpWorld) -> [String; 3] {
    let all = world.server("GET", "/subscriptions", &[], "").await.json();
    let subscription = text(&all["data"][0]["id"]);
    let body = payment_body(&all["data"][0]).to_string();
    let payment = world.server("POST", "/subscription-payments", &[], body).await.json();
    let path = format!("/subscription-payments/{}", text(&payment["id"]));
    world.server("PUT", &path, &[], r#"{"status":"failed"}"#).await;
    ["/subscription-plans/of-ann".into(), format!("/subscriptions/{subscription}"), path]
}

#[tokio::test]
async fn who_has_a_record_already_is_only_told_so() {
    let world = HttpWorld::new().await;
    let has = ["\"1\"", "W/\"1\"", "*", "\"7\", \"1\"", "W/\"7\",W/\"1\""];
    let has_not = ["\"2\"", "\"01\"", "W/W/\"1\"", "W/*", "1", "garbage", "", ",,", "\"\""];

    for (path, _) in records(&world).await {
        for method in ["GET", "HEAD"] {
            for tag in has {
                let answer = world.server(method, &path, &[("if-none-match", tag)], "").await;
                let told = (answer.status, answer.text(), answer.header("etag"));
                assert_eq!(told, (304, "", Some("\"1\"")), "{method} {path} {tag}");
                assert_eq!(answer.header("content-type"), None);
                assert_eq!(answer.header("content-length"), None);
            }
            for tag in has_not {
                let answer = world.server(method, &path, &[("if-none-match", tag)], "").await;
                assert_eq!(answer.status, 200, "{method} {path} {tag}");
            }
        }
    }
}

/// A body for each route that makes something, and another.
async fn creations(world: &HttpWorld) -> [(&'static str, Value, Value); 3] {
    let made = world.subscription("ann", &json!({})).await;
    let new = json!({
        "user_id": made["user_id"], "subscription_plan_id": made["subscription_plan_id"],
    });
    let mut other = new.clone();
    other["status"] = json!("on_trial");
    let (payment, mut more) = (payment_body(&made), payment_body(&made));
    more["amount"] = json!("20.00");
    [
        ("/subscription-plans", plan_body("once"), plan_body("twice")),
        ("/subscriptions", new, other),
        ("/subscription-payments", payment, more),
    ]
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_byte_for_byte() {
    let world = HttpWorld::new().await;
    let longest = "~".repeat(255);

    for (path, body, _) in creations(&world).await {
        for key in ["k", &longest] {
            let mut body = body.clone();
            if path == "/subscription-plans" {
                body["slug"] = json!(format!("of-{}", key.len()));
            }
            let headers = [("idempotency-key", key)];
            let first = world.server("POST", path, &headers, body.to_string()).await;
            assert_eq!((first.status, first.header("idempotency-replayed")), (201, None), "{path}");
            let record = format!("/{}", first.header("location").unwrap());
            world.server("DELETE", &record, &[], "").await;
            world.auth.clock.advance(std::time::Duration::from_hours(1));

            let again = world.server("POST", path, &headers, body.to_string()).await;

            assert_eq!((again.status, &again.body), (201, &first.body), "{path}");
            assert_eq!(again.header("idempotency-replayed"), Some("true"));
            for name in ["etag", "location", "content-type"] {
                assert_eq!(again.header(name), first.header(name), "{path} {name}");
            }
            assert_eq!(world.server("GET", &record, &[], "").await.status, 404, "{path}");
        }
    }
}

#[tokio::test]
async fn a_key_is_for_one_body_one_route_and_one_client() {
    let world = HttpWorld::new().await;
    let other = world.client("other", ClientKind::Confidential, |_| true).await;
    let key = [("idempotency-key", "k")];

    for (path, body, another) in creations(&world).await {
        assert_eq!(world.server("POST", path, &key, body.to_string()).await.status, 201, "{path}");

        let refused = world.server("POST", path, &key, another.to_string()).await;
        assert_eq!(refused.problem(), problem(422, "idempotency_key_reused"), "{path}");

        let theirs = [("client-id", &*other), ("idempotency-key", "k")];
        let made = world.call("POST", path, &theirs, another.to_string()).await;
        assert_eq!((made.status, made.header("idempotency-replayed")), (201, None), "{path}");
    }
    world.auth.clock.advance(std::time::Duration::from_hours(24));
    let body = plan_body("later").to_string();
    let later = world.server("POST", "/subscription-plans", &key, body).await;
    assert_eq!((later.status, later.header("idempotency-replayed")), (201, None));
}

#[tokio::test]
async fn after_an_error_the_same_key_may_be_tried_again() {
    let world = HttpWorld::new().await;
    world.plan("taken").await;
    let key = [("idempotency-key", "k")];
    let mut wrong = plan_body("free");
    wrong["tier"] = json!(-1);

    for (body, status) in [(wrong, 422), (plan_body("taken"), 409), (plan_body("free"), 201)] {
        let answer = world.server("POST", "/subscription-plans", &key, body.to_string()).await;
        assert_eq!((answer.status, answer.header("idempotency-replayed")), (status, None));
    }
}

#[tokio::test]
async fn a_key_that_is_none_is_refused() {
    let world = HttpWorld::new().await;
    let too_long = "k".repeat(256);

    for (path, body, _) in creations(&world).await {
        for key in ["", "a b", "caf\u{e9}", "a\tb", &too_long] {
            let headers = [("idempotency-key", key)];
            let refused = world.server("POST", path, &headers, body.to_string()).await;
            assert_eq!(refused.problem(), problem(400, "idempotency_key_invalid"), "{path} {key}");
        }
        let twice = [("idempotency-key", "a"), ("idempotency-key", "a")];
        let refused = world.server("POST", path, &twice, body.to_string()).await;
        assert_eq!(refused.problem(), problem(400, "header_invalid"), "{path}");
    }
}
