//! The fields of billing in bodies: what is refused, all at once, and what is kept as sent.

use serde_json::{Value, json};

use super::world::{HttpWorld, add, path_of, payment_body, plan_body, text};

const DAY: &str = "2025-02-14T00:00:00.000000Z";

#[tokio::test]
async fn fields_of_a_plan_that_cannot_be_are_refused() {
    let world = HttpWorld::new().await;
    let made = world.plan("of-ann").await;
    for (more, faults) in [
        (json!({ "currency": "XXQ" }), &["currency not_allowed_value"][..]),
        (json!({ "currency": 840 }), &["currency wrong_type"]),
        (json!({ "trial_period": "monthly" }), &["trial_period bad_format"]),
        (json!({ "trial_period": "P0D" }), &["trial_period out_of_range"]),
        (json!({ "trial_period": "P101Y" }), &["trial_period out_of_range"]),
        (json!({ "trial_period": "P1M2D" }), &["trial_period bad_format"]),
        (json!({ "trial_period": 14 }), &["trial_period wrong_type"]),
        (json!({ "price": "1.5", "currency": "JPY" }), &["price out_of_range"]),
        (
            json!({ "price": "0.001", "currency": "USD", "trial_period": "", "tier": -1, "x": 1 }),
            &[
                "tier out_of_range",
                "trial_period bad_format",
                "price out_of_range",
                "x unknown_field",
            ],
        ),
    ] {
        let mut body = plan_body("new");
        add(&mut body, &more);

        let post = world.server("POST", "/subscription-plans", &[], body.to_string()).await;
        let put = world.server("PUT", "/subscription-plans/of-ann", &[], more.to_string()).await;

        assert_eq!(post.faults(), faults, "POST {more}");
        assert_eq!(put.faults(), faults, "PUT {more}");
    }
    let kept = world.server("GET", "/subscription-plans/of-ann", &[], "").await.json();
    assert_eq!(kept, made);
    // The price that stays has too many digits for the new currency.
    let put = world.server("PUT", "/subscription-plans/of-ann", &[], r#"{"currency":"JPY"}"#).await;
    assert_eq!(put.faults(), ["price out_of_range"]);
}

#[tokio::test]
async fn fields_of_a_plan_are_set_and_cleared() {
    let world = HttpWorld::new().await;
    world.plan("pro").await;
    let put = async |body: Value| {
        let changed =
            world.server("PUT", "/subscription-plans/pro", &[], body.to_string()).await.json();
        (changed["currency"].clone(), changed["trial_period"].clone())
    };

    let set = put(json!({ "currency": "eur", "trial_period": "P2W" })).await;
    let same = put(json!({ "tier": 1 })).await;
    let cleared = put(json!({ "currency": null, "trial_period": null })).await;

    assert_eq!(set, (json!("EUR"), json!("P2W")));
    assert_eq!(same, set);
    assert_eq!(cleared, (Value::Null, Value::Null));
}

#[tokio::test]
async fn fields_of_a_subscription_that_cannot_be_are_refused() {
    let world = HttpWorld::new().await;
    let of_caller = world.subscription("ann", &json!({})).await;
    let by_clock = world.on_clock("ben", &json!({})).await;
    let cases = [
        (json!({ "managed_by": "provider" }), &["managed_by not_allowed_value"][..]),
        (json!({ "managed_by": "Clock" }), &["managed_by not_allowed_value"]),
        (json!({ "managed_by": null }), &["managed_by null_not_allowed"]),
        (json!({ "quantity": 0 }), &["quantity out_of_range"]),
        (json!({ "quantity": -1 }), &["quantity out_of_range"]),
        (json!({ "quantity": 1_000_001 }), &["quantity out_of_range"]),
        (json!({ "quantity": 1.5 }), &["quantity wrong_type"]),
        (json!({ "quantity": "1" }), &["quantity wrong_type"]),
        (json!({ "quantity": null }), &["quantity null_not_allowed"]),
        (json!({ "price": -1 }), &["price out_of_range"]),
        (json!({ "price": "1.0000001" }), &["price out_of_range"]),
        (json!({ "price": true }), &["price wrong_type"]),
        (json!({ "currency": "XXQ" }), &["currency not_allowed_value"]),
        (json!({ "currency": "USD", "price": "0.001" }), &["price out_of_range"]),
        (json!({ "credit": "x" }), &["credit bad_format"]),
        (json!({ "currency": "JPY", "credit": "0.5" }), &["credit out_of_range"]),
        (json!({ "trial_ends_at": "soon" }), &["trial_ends_at bad_format"]),
        (json!({ "resumes_at": 1 }), &["resumes_at wrong_type"]),
        (json!({ "scheduled_change": null }), &["scheduled_change unknown_field"]),
        (json!({ "manage_url": null }), &["manage_url unknown_field"]),
        (json!({ "past_due_since": null }), &["past_due_since unknown_field"]),
        (json!({ "next_action_at": DAY }), &["next_action_at unknown_field"]),
        (json!({ "current_period_start": DAY }), &["current_period_start unknown_field"]),
        (
            json!({ "starts_at": DAY, "trial_ends_at": DAY, "quantity": 0, "currency": "USD",
                "price": "0.001", "credit": "0.001", "managed_by": "me", "resumes_at": "" }),
            &[
                "managed_by not_allowed_value",
                "quantity out_of_range",
                "resumes_at bad_format",
                "price out_of_range",
                "credit out_of_range",
                "trial_ends_at out_of_range",
            ],
        ),
    ];

    for (more, faults) in cases {
        for held in [&of_caller, &by_clock] {
            let (user, plan) = (&held["user_id"], &held["subscription_plan_id"]);
            let mut body = json!({ "user_id": user, "subscription_plan_id": plan });
            add(&mut body, &more);

            let post = world.server("POST", "/subscriptions", &[], body.to_string()).await;
            let put = world.server("PUT", &path_of(held), &[], more.to_string()).await;

            assert_eq!(post.faults(), faults, "POST {more}");
            assert_eq!(put.faults(), faults, "PUT {more}");
            assert_eq!(world.server("GET", &path_of(held), &[], "").await.json(), *held);
        }
    }
    let large = json!({ "price": "999999999999999", "currency": "USD", "quantity": 1_000_000 });
    let put = world.server("PUT", &path_of(&of_caller), &[], large.to_string()).await;
    assert_eq!(put.faults(), ["quantity out_of_range"]);
    let early = json!({ "trial_ends_at": "2025-01-01T00:00:00Z" }).to_string();
    let put = world.server("PUT", &path_of(&of_caller), &[], early).await;
    assert_eq!(put.faults(), ["trial_ends_at out_of_range"]);
}

#[tokio::test]
async fn what_the_clock_needs_is_required_and_the_answer_names_the_way_out() {
    let world = HttpWorld::new().await;
    let plan = world.plan("bare").await;
    let user = world.sign_up("ann").await.id;
    let held = world.subscription("ben", &json!({})).await;
    let mut body = json!({ "user_id": user, "subscription_plan_id": plan["id"] });
    body["managed_by"] = json!("clock");

    let no_currency = world.server("POST", "/subscriptions", &[], body.to_string()).await;
    body["currency"] = json!("EUR");
    let no_price = world.server("POST", "/subscriptions", &[], body.to_string()).await;
    let taken = json!({ "managed_by": "clock" }).to_string();
    let taken = world.server("PUT", &path_of(&held), &[], taken).await;
    body["price"] = json!("9.99");
    let made = world.server("POST", "/subscriptions", &[], body.to_string()).await;

    for (refused, fault) in [
        (no_currency, "currency required"),
        (no_price, "price required"),
        (taken, "currency required"),
    ] {
        assert_eq!(refused.faults(), [fault]);
        let message = text(&refused.json()["errors"][0]["message"]);
        assert!(message.contains("managed_by: caller"), "{message}");
    }
    assert_eq!((made.status, &made.json()["managed_by"]), (201, &json!("clock")), "{made:?}");
}

#[tokio::test]
async fn fields_of_a_subscription_are_kept_as_sent_and_cleared() {
    let world = HttpWorld::new().await;
    let sent = json!({
        "quantity": 1_000_000, "price": "0.10", "currency": "usd", "credit": "5.00",
        "trial_ends_at": DAY, "resumes_at": DAY, "managed_by": "caller",
    });

    let held = world.subscription("ann", &sent).await;
    let cleared = json!({
        "price": null, "currency": null, "credit": null, "trial_ends_at": null, "resumes_at": null,
        "quantity": 1,
    });
    let read = world.server("GET", &path_of(&held), &[], "").await;
    let cleared = world.server("PUT", &path_of(&held), &[], cleared.to_string()).await.json();

    assert!(read.text().contains(r#""price":0.10,"currency":"USD","credit":5.00,"#), "{read:?}");
    for (name, value) in [
        ("currency", json!("USD")),
        ("quantity", json!(1_000_000)),
        ("trial_ends_at", json!(DAY)),
        ("resumes_at", json!(DAY)),
        ("status", json!("on_trial")),
        ("renews_at", json!(DAY)),
    ] {
        assert_eq!(held[name], value, "{name}");
    }
    for name in ["price", "currency", "credit", "trial_ends_at", "resumes_at"] {
        assert_eq!(cleared[name], Value::Null, "{name}");
    }
    assert_eq!(cleared["quantity"], 1);
}

#[tokio::test]
async fn fields_of_a_payment_that_cannot_be_are_refused() {
    let world = HttpWorld::new().await;
    let held = world.subscription("ann", &json!({})).await;
    for (more, faults) in [
        (json!({ "kind": "first" }), &["kind not_allowed_value"][..]),
        (json!({ "kind": 1, "period_start": DAY }), &["kind wrong_type"]),
        (json!({ "kind": "initial" }), &["period_start required"]),
        (json!({ "period_start": DAY }), &["kind required"]),
        (json!({ "period_end": DAY }), &["kind required"]),
        (
            json!({ "kind": "renewal", "period_start": DAY, "period_end": DAY }),
            &["period_end out_of_range"],
        ),
        (json!({ "kind": "renewal", "period_start": "x" }), &["period_start bad_format"]),
        (
            json!({ "next_attempt_at": DAY, "status": "failed" }),
            &["next_attempt_at not_allowed_value"],
        ),
        (
            json!({ "kind": "renewal", "period_start": DAY, "next_attempt_at": DAY }),
            &["next_attempt_at not_allowed_value"],
        ),
        (json!({ "due_at": DAY }), &["due_at unknown_field"]),
        (json!({ "attempt": 1 }), &["attempt unknown_field"]),
        (json!({ "value": 1 }), &["value unknown_field"]),
        (
            json!({ "amount": 0, "kind": "initial", "next_attempt_at": DAY, "retries": 1 }),
            &[
                "period_start required",
                "next_attempt_at not_allowed_value",
                "amount out_of_range",
                "retries unknown_field",
            ],
        ),
    ] {
        let mut body = payment_body(&held);
        add(&mut body, &more);

        let post = world.server("POST", "/subscription-payments", &[], body.to_string()).await;

        assert_eq!(post.faults(), faults, "POST {more}");
    }
    assert_eq!(world.newest_payment(&held).await, Value::Null);
    let made = world.made("/subscription-payments", &payment_body(&held)).await;
    let path = format!("/subscription-payments/{}", text(&made["id"]));
    for (more, faults) in [
        (json!({ "kind": "initial" }), &["kind unknown_field"][..]),
        (json!({ "period_start": null }), &["period_start unknown_field"]),
        (json!({ "period_end": DAY }), &["period_end unknown_field"]),
        (
            json!({ "due_at": DAY, "attempt": 2 }),
            &["attempt unknown_field", "due_at unknown_field"],
        ),
        (json!({ "next_attempt_at": "x" }), &["next_attempt_at bad_format"]),
        (json!({ "next_attempt_at": DAY }), &["next_attempt_at not_allowed_value"]),
        (
            json!({ "next_attempt_at": null, "status": "failed" }),
            &["next_attempt_at not_allowed_value"],
        ),
    ] {
        let put = world.server("PUT", &path, &[], more.to_string()).await;
        assert_eq!(put.faults(), faults, "PUT {more}");
    }
    assert_eq!(world.server("GET", &path, &[], "").await.json(), made);
}

#[tokio::test]
async fn an_imported_payment_keeps_its_period_and_a_report_its_next_attempt() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({ "status": "past_due" })).await;
    let mut body = payment_body(&held);
    add(
        &mut body,
        &json!({
            "kind": "renewal", "period_start": "2025-01-31T00:00:00Z", "period_end": held["renews_at"],
            "status": "failed", "next_attempt_at": DAY,
        }),
    );

    let made = world.made("/subscription-payments", &body).await;
    let path = format!("/subscription-payments/{}", text(&made["id"]));
    let never = world.server("PUT", &path, &[], r#"{"next_attempt_at":null}"#).await.json();

    for (name, value) in [
        ("kind", json!("renewal")),
        ("period_start", json!("2025-01-31T00:00:00.000000Z")),
        ("period_end", held["renews_at"].clone()),
        ("attempt", json!(1)),
        ("due_at", made["created_at"].clone()),
        ("next_attempt_at", json!(DAY)),
    ] {
        assert_eq!(made[name], value, "{name}");
    }
    assert_eq!(never["next_attempt_at"], Value::Null);
    assert_eq!(never["version"], 2);
}
