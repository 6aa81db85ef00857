//! Metadata over HTTP, on each kind of record that has it.

use serde_json::json;

use super::world::{HttpWorld, add, payment_body, plan_body, problem, text};

const SENT: &str = r#"{"zone":"eu","campaign":" spring ","a":""}"#;

#[tokio::test]
async fn metadata_is_kept_as_sent_replaced_whole_and_cleared() {
    let world = HttpWorld::new().await;
    let held = world.subscription("ann", &json!({})).await;
    let (user, plan) = (&held["user_id"], &held["subscription_plan_id"]);
    let subscription = json!({ "user_id": user, "subscription_plan_id": plan });
    for (path, body, name) in [
        ("/subscription-plans", plan_body("pro"), "slug"),
        ("/subscriptions", subscription, "id"),
        ("/subscription-payments", payment_body(&held), "id"),
    ] {
        let bare = world.server("POST", path, &[], body.to_string().replace("pro", "bare")).await;
        assert!(bare.text().contains(r#""metadata":null,"created_at""#), "{bare:?}");

        let with = format!(r#"{},"metadata":{SENT}}}"#, body.to_string().trim_end_matches('}'));
        let key = [("idempotency-key", path)];
        let made = world.server("POST", path, &key, with.clone()).await;
        let again = world.server("POST", path, &key, with).await;

        let shown = format!(r#""metadata":{SENT},"created_at""#);
        assert_eq!((made.status, again.status), (201, 201), "{made:?}");
        assert!(made.text().contains(&shown), "{made:?}");
        assert_eq!(made.body, again.body);
        let one = format!("{path}/{}", text(&made.json()[name]));
        assert!(world.server("GET", &one, &[], "").await.text().contains(&shown));
        for (sent, shown) in [
            (r#"{"metadata":{"b":"1"}}"#, r#""metadata":{"b":"1"},"#),
            ("{}", r#""metadata":{"b":"1"},"#),
            (r#"{"metadata":{}}"#, r#""metadata":null,"#),
            (r#"{"metadata":{"c":"2"}}"#, r#""metadata":{"c":"2"},"#),
            (r#"{"metadata":null}"#, r#""metadata":null,"#),
        ] {
            let changed = world.server("PUT", &one, &[], sent).await;
            assert_eq!(changed.status, 200, "{changed:?}");
            assert!(changed.text().contains(shown), "{sent}: {changed:?}");
            assert_eq!(world.server("GET", &one, &[], "").await.body, changed.body);
        }
    }
}

#[tokio::test]
async fn every_fault_of_metadata_is_in_one_answer() {
    let world = HttpWorld::new().await;
    let held = world.subscription("ann", &json!({})).await;
    let payment = world.made("/subscription-payments", &payment_body(&held)).await;
    let wrong = json!({ "metadata": { "": "a", "a": 1, "b": "\u{7f}", "c".repeat(41): "" } });
    let expected = [
        "metadata. too_short".to_owned(),
        "metadata.a wrong_type".to_owned(),
        "metadata.b control_character".to_owned(),
        format!("metadata.{} too_long", "c".repeat(41)),
    ];
    let (held_at, paid_at) = (text(&held["id"]), text(&payment["id"]));
    for (method, path, mut body) in [
        ("POST", "/subscription-plans".to_owned(), plan_body("pro")),
        ("PUT", "/subscription-plans/of-ann".to_owned(), json!({})),
        (
            "POST",
            "/subscriptions".to_owned(),
            json!({ "user_id": held["user_id"], "subscription_plan_id": held["subscription_plan_id"] }),
        ),
        ("PUT", format!("/subscriptions/{held_at}"), json!({})),
        ("POST", "/subscription-payments".to_owned(), payment_body(&held)),
        ("PUT", format!("/subscription-payments/{paid_at}"), json!({})),
    ] {
        add(&mut body, &wrong);

        let refused = world.server(method, &path, &[], body.to_string()).await;

        assert_eq!(refused.faults(), expected, "{method} {path}");
    }
}

#[tokio::test]
async fn metadata_is_no_filter() {
    let world = HttpWorld::new().await;

    for path in ["/subscription-plans?metadata=a", "/subscriptions?metadata.a=b"] {
        let refused = world.server("GET", path, &[], "").await;

        assert_eq!(refused.problem(), problem(400, "invalid_query"), "{path}");
    }
}
