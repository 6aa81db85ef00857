//! The work of the clock, as callers see it: payments to collect, retries, and who manages what.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use subscription_http::{ApiPart, openapi_json_for};

use super::world::{HttpWorld, add, path_of, payment_body, plan_body, problem, text};

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";

fn payment_path(payment: &Value) -> String {
    format!("/subscription-payments/{}", text(&payment["id"]))
}

async fn due(world: &HttpWorld, query: &str) -> Value {
    let page = world.server("GET", &format!("/due-payments{query}"), &[], "").await;
    assert_eq!(page.status, 200, "{page:?}");
    page.json()
}

fn ids(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(|record| text(&record["id"])).collect()
}

#[tokio::test]
async fn a_body_without_the_new_fields_makes_the_record_that_it_made_before() {
    let world = HttpWorld::new().await;

    let plan = world.plan("pro").await;
    let held = world.subscription("ann", &json!({})).await;
    let payment = world.made("/subscription-payments", &payment_body(&held)).await;

    for field in ["currency", "trial_period"] {
        assert_eq!(plan[field], Value::Null, "{field}");
    }
    assert_eq!((&held["managed_by"], &held["quantity"]), (&json!("caller"), &json!(1)));
    for field in [
        "price",
        "currency",
        "credit",
        "trial_ends_at",
        "resumes_at",
        "past_due_since",
        "next_action_at",
        "scheduled_change",
    ] {
        assert_eq!(held[field], Value::Null, "{field}");
    }
    for field in ["kind", "period_start", "period_end", "due_at", "attempt", "next_attempt_at"] {
        assert_eq!(payment[field], Value::Null, "{field}");
    }
    assert_eq!(held["status"], "active");
    assert_eq!(held["renews_at"], "2025-02-28T00:00:00.000000Z");
    assert_eq!(due(&world, "?before=9999-01-01T00:00:00Z").await["data"], json!([]));
    world.auth.clock.advance(Duration::from_hours(24 * 400));
    assert_eq!(world.billing.advance(200).await.unwrap().steps, 0);
    let later = world.server("GET", &path_of(&held), &[], "").await.json();
    assert_eq!(later, held);
}

#[tokio::test]
async fn a_plan_with_a_currency_puts_its_subscriptions_on_the_clock() {
    let world = HttpWorld::new().await;

    let held = world.on_clock("ann", &json!({ "quantity": 3 })).await;
    let outside = world.on_clock("ben", &json!({ "external_subscription_id": "sub_1" })).await;
    let by_choice = world.on_clock("cat", &json!({ "managed_by": "caller" })).await;

    assert_eq!((&held["managed_by"], &held["status"]), (&json!("clock"), &json!("active")));
    assert_eq!((&held["currency"], &held["quantity"]), (&json!("USD"), &json!(3)));
    assert_eq!(held["next_action_at"], "2025-02-25T00:00:00.000000Z");
    let payment = world.newest_payment(&held).await;
    assert_eq!((&payment["kind"], &payment["attempt"]), (&json!("initial"), &json!(1)));
    assert_eq!(payment["amount"], json!(59.97));
    assert_eq!(payment["period_end"], held["renews_at"]);
    for other in [outside, by_choice] {
        assert_eq!(other["managed_by"], "caller");
        assert_eq!(world.newest_payment(&other).await, Value::Null);
    }
}

#[tokio::test]
async fn a_plans_trial_is_for_the_first_subscription_of_a_user() {
    let world = HttpWorld::new().await;
    let mut body = plan_body("pro");
    add(&mut body, &json!({ "currency": "usd", "trial_period": "p14d" }));
    let plan = world.made("/subscription-plans", &body).await;
    let user = world.sign_up("ann").await.id;
    let new = json!({ "user_id": user, "subscription_plan_id": plan["id"] });

    let first = world.made("/subscriptions", &new).await;
    let second = world.made("/subscriptions", &new).await;

    assert_eq!((&plan["currency"], &plan["trial_period"]), (&json!("USD"), &json!("P14D")));
    assert_eq!(first["status"], "on_trial");
    let end = json!("2025-02-14T00:00:00.000000Z");
    assert_eq!((&first["trial_ends_at"], &first["renews_at"]), (&end, &end));
    assert_eq!((&second["status"], &second["trial_ends_at"]), (&json!("active"), &Value::Null));
}

#[tokio::test]
async fn payments_to_collect_are_listed_by_when_they_are_due_page_by_page() {
    let world = HttpWorld::new().await;
    let mut expected = Vec::new();
    for name in ["ann", "ben", "cat", "dan", "eve"] {
        let held = world.on_clock(name, &json!({})).await;
        expected.push(text(&world.newest_payment(&held).await["id"]));
        world.auth.clock.advance(Duration::from_mins(1));
    }

    let all = due(&world, "").await;
    let mut paged = Vec::new();
    let mut page = due(&world, "?limit=2").await;
    loop {
        paged.extend(ids(&page));
        assert_eq!(page["has_more"], !page["next_cursor"].is_null());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        page = due(&world, &format!("?limit=2&cursor={cursor}")).await;
    }

    assert_eq!((ids(&all), paged), (expected.clone(), expected.clone()));
    // At this moment or before it.
    assert_eq!(ids(&due(&world, "?before=2025-01-31T00:01:00Z").await), expected[..2]);
    assert_eq!(ids(&due(&world, "?before=2025-01-30T00:00:00Z").await), [""; 0]);
    let paid = format!("/subscription-payments/{}", expected[0]);
    world.server("PUT", &paid, &[], r#"{"status":"processing"}"#).await;
    assert_eq!(ids(&due(&world, "").await), expected[1..]);
}

#[tokio::test]
async fn payments_whose_collection_was_begun_are_listed_until_they_are_reported() {
    let world = HttpWorld::new().await;
    let mut begun = Vec::new();
    for name in ["ann", "ben", "cat"] {
        let held = world.on_clock(name, &json!({})).await;
        begun.push(text(&world.report(&held, "processing").await["id"]));
        world.auth.clock.advance(Duration::from_mins(1));
    }
    let waiting = world.on_clock("dan", &json!({})).await;
    let waiting = text(&world.newest_payment(&waiting).await["id"]);

    let first = due(&world, "?status=processing&limit=2").await;
    let cursor = text(&first["next_cursor"]);
    let last = due(&world, &format!("?status=processing&limit=2&cursor={cursor}")).await;

    assert_eq!((ids(&first), ids(&last)), (begun[..2].to_vec(), begun[2..].to_vec()));
    assert_eq!(ids(&due(&world, "?status=pending").await), [waiting]);
    let before = "?status=processing&before=2025-01-31T00:01:00Z";
    assert_eq!(ids(&due(&world, before).await), begun[..2]);
    for other in ["", "&status=pending"] {
        let path = format!("/due-payments?limit=2&cursor={cursor}{other}");
        let refused = world.server("GET", &path, &[], "").await;
        assert_eq!(refused.problem(), problem(400, "invalid_cursor"), "{other}");
    }
    let paid = format!("/subscription-payments/{}", begun[0]);
    world.server("PUT", &paid, &[], r#"{"status":"succeeded"}"#).await;
    assert_eq!(ids(&due(&world, "?status=processing").await), begun[1..]);
}

#[tokio::test]
async fn parameters_of_due_payments_and_timelines_are_checked() {
    let world = HttpWorld::new().await;
    let (held, _) =
        (world.on_clock("ann", &json!({})).await, world.on_clock("ben", &json!({})).await);
    let timeline = format!("{}/timeline", path_of(&held));
    for (path, queries) in [
        (
            "/due-payments",
            &[
                "before=now",
                "before=",
                "limit=0",
                "limit=201",
                "after=1",
                "status=failed",
                "status=",
                "status=pending&status=processing",
                "before=2025-01-31T00:00:00Z&before=2025-01-31T00:00:00Z",
            ][..],
        ),
        (
            &timeline,
            &[
                "after=x",
                "until=2025-02-30T00:00:00Z",
                "limit=0",
                "limit=201",
                "limit=x",
                "cursor=x",
                "until=2025-01-31T00:00:00Z&until=2025-01-31T00:00:00Z",
            ],
        ),
    ] {
        for query in queries {
            let refused = world.server("GET", &format!("{path}?{query}"), &[], "").await;

            assert_eq!(refused.problem(), problem(400, "invalid_query"), "{path} {query}");
            let parameter = query.split('=').next().unwrap();
            assert_eq!(refused.json()["parameter"], parameter, "{path} {query}");
        }
    }
    let first = due(&world, "?limit=1&before=2026-01-01T00:00:00Z").await;
    let cursor = text(&first["next_cursor"]);
    for query in ["", "&before=2026-01-01T00:00:01Z"] {
        let path = format!("/due-payments?limit=1&cursor={cursor}{query}");
        let refused = world.server("GET", &path, &[], "").await;
        assert_eq!(refused.problem(), problem(400, "invalid_cursor"), "{query}");
    }
    let payments = format!("{}/payments?cursor={cursor}", path_of(&held));
    let refused = world.server("GET", &payments, &[], "").await;
    assert_eq!(refused.problem(), problem(400, "invalid_cursor"));
}

#[tokio::test]
async fn a_failed_payment_is_asked_for_again_at_once_and_keeps_its_schedule() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let failed = world.report(&held, "failed").await;
    let retry = format!("{}/retry", payment_path(&failed));
    let post = async |headers: &[(&str, &str)], body: &str| {
        world.server("POST", &retry, headers, body).await
    };
    world.auth.clock.advance(Duration::from_hours(1));

    let stale = post(&[("if-match", "\"1\"")], "").await;
    let retried = post(&[("if-match", "\"2\"")], "{}").await;
    let again = post(&[], "").await;

    assert_eq!(failed["next_attempt_at"], "2025-02-01T00:00:00.000000Z");
    assert_eq!(stale.problem(), problem(412, "precondition_failed"));
    let shown = retried.json();
    assert_eq!((&shown["status"], &shown["attempt"]), (&json!("pending"), &json!(2)));
    assert_eq!(shown["due_at"], "2025-01-31T01:00:00.000000Z");
    assert_eq!(shown["next_attempt_at"], Value::Null);
    assert_eq!((again.status, again.json()), (200, shown.clone()));
    assert_eq!(ids(&due(&world, "").await), [text(&failed["id"])]);
    // The next failure has the first wait of the schedule before it, as if there had been no retry.
    let failed = world.report(&held, "failed").await;
    assert_eq!(failed["next_attempt_at"], "2025-02-01T01:00:00.000000Z");
    let faulty = post(&[], r#"{"now":true}"#).await;
    assert_eq!(faulty.faults(), ["now unknown_field"]);
}

#[tokio::test]
async fn a_retry_under_a_key_is_made_once_and_names_its_client() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let failed = world.report(&held, "failed").await;
    let retry = format!("{}/retry", payment_path(&failed));
    let key = [("idempotency-key", "k")];

    let first = world.server("POST", &retry, &key, "").await;
    world.report(&held, "failed").await;
    let again = world.server("POST", &retry, &key, "").await;

    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(world.newest_payment(&held).await["status"], "failed");
    let path = format!("/events?subject_id={}", text(&failed["id"]));
    let events = world.server("GET", &path, &[], "").await.json();
    let retried = &events["data"][2];
    assert_eq!(retried["change"], json!({ "from": "failed", "to": "pending" }));
    assert_eq!(retried["actor"], "client:server");
}

#[tokio::test]
async fn only_a_failed_payment_of_the_clock_can_be_asked_for_again() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let paid = world.report(&held, "succeeded").await;
    let bare = world.made("/subscription-payments", &payment_body(&held)).await;
    let of_caller = world.payment("ben", &json!({ "status": "failed" })).await;

    for (payment, code) in [
        (&paid, "invalid_transition"),
        (&bare, "managed_by_caller"),
        (&of_caller, "managed_by_caller"),
    ] {
        let path = format!("{}/retry", payment_path(payment));
        let refused = world.server("POST", &path, &[], "").await;
        assert_eq!(refused.problem(), problem(409, code), "{payment}");
    }
    for id in ["x", NOBODY] {
        let path = format!("/subscription-payments/{id}/retry");
        let refused = world.server("POST", &path, &[], "").await;
        assert_eq!(refused.problem(), problem(404, "not_found"), "{id}");
    }
}

#[tokio::test]
async fn the_feed_has_the_events_of_the_clock() {
    let world = HttpWorld::new().await;
    let mut body = plan_body("pro");
    add(&mut body, &json!({ "currency": "USD", "trial_period": "P14D", "billing_cycle": "daily" }));
    let plan = world.made("/subscription-plans", &body).await;
    let user = world.sign_up("ann").await.id;
    let new = json!({ "user_id": user, "subscription_plan_id": plan["id"] });
    let held = world.made("/subscriptions", &new).await;
    let monthly = world.on_clock("ben", &json!({})).await;
    for hours in [11 * 24, 3 * 24, 6 * 24] {
        world.auth.clock.advance(Duration::from_hours(hours));
        while world.billing.advance(50).await.unwrap().steps > 0 {}
    }
    world.auth.clock.advance(Duration::from_hours(6 * 24));
    while world.billing.advance(50).await.unwrap().steps > 0 {}

    let events = async |of: &Value, kind: &str| {
        let path = format!("/events?subject_id={}&type=subscription.{kind}", text(&of["id"]));
        let page = world.server("GET", &path, &[], "").await.json();
        let events = page["data"].as_array().unwrap().iter();
        events.map(|event| (event["actor"].clone(), event["change"].clone())).collect::<Vec<_>>()
    };
    let clock = json!("clock");

    let will_end = json!({ "trial_ends_at": "2025-02-14T00:00:00.000000Z" });
    assert_eq!(events(&held, "trial_will_end").await, [(clock.clone(), will_end)]);
    let skipped = events(&held, "periods_skipped").await;
    assert!(!skipped.is_empty() && skipped.iter().all(|(_, change)| change["count"].is_u64()));
    let (_, started) = &events(&held, "period_started").await[0];
    let members: BTreeSet<_> = started.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, BTreeSet::from(["period_start", "period_end"]));
    let upcoming = json!({ "renews_at": "2025-02-28T00:00:00.000000Z" });
    assert_eq!(events(&monthly, "renewal_upcoming").await, [(clock, upcoming)]);
}

#[tokio::test]
async fn fields_that_the_clock_sets_are_refused_and_the_answer_names_them() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let put = async |body: &str| world.server("PUT", &path_of(&held), &[], body).await;

    let verbs = put(r#"{"status":"paused","ends_at":"2026-01-01T00:00:00Z"}"#).await;
    let others = put(r#"{"billing_cycle":"yearly","currency":null,"renews_at":null}"#).await;
    let of_plan = put(r#"{"billing_cycle":"yearly"}"#).await;
    let same = json!({
        "status": "active", "billing_cycle": "monthly", "renews_at": held["renews_at"],
        "starts_at": held["starts_at"], "ends_at": null, "currency": "USD",
    });
    let same = put(&same.to_string()).await;
    let free = put(r#"{"price":5,"quantity":2,"credit":"1.50","is_active":false}"#).await;
    let released = put(r#"{"managed_by":"caller","status":"paused"}"#).await;

    assert_eq!(verbs.problem(), problem(409, "managed_by_clock"));
    assert_eq!(verbs.json()["fields"], json!(["status", "ends_at"]));
    assert!(text(&verbs.json()["detail"]).contains("use cancel, pause or resume"), "{verbs:?}");
    assert_eq!(others.problem(), problem(409, "managed_by_clock"));
    assert_eq!(others.json()["fields"], json!(["billing_cycle", "renews_at", "currency"]));
    assert!(text(&others.json()["detail"]).contains("set managed_by to caller"), "{others:?}");
    assert!(text(&of_plan.json()["detail"]).contains("use change-plan instead"), "{of_plan:?}");
    assert_eq!((same.status, same.json()), (200, held.clone()));
    let free = free.json();
    assert_eq!((&free["price"], &free["quantity"]), (&json!(5), &json!(2)));
    assert_eq!((&free["credit"], &free["blocked"]), (&json!(1.5), &json!(true)));
    let released = released.json();
    assert_eq!(
        (&released["status"], &released["next_action_at"]),
        (&json!("paused"), &Value::Null)
    );
}

#[tokio::test]
async fn a_payment_of_a_period_keeps_what_was_asked_for_while_it_is_open() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let payment = world.newest_payment(&held).await;
    let path = payment_path(&payment);

    let changed = world.server("PUT", &path, &[], r#"{"amount":1,"currency":"EUR"}"#).await;
    let deleted = world.server("DELETE", &path, &[], "").await;
    let mut second = payment_body(&held);
    add(&mut second, &json!({ "kind": "renewal", "period_start": payment["period_start"] }));
    let taken = world.server("POST", "/subscription-payments", &[], second.to_string()).await;
    world.server("PUT", &path, &[], r#"{"status":"canceled"}"#).await;
    let free_again = world.server("POST", "/subscription-payments", &[], second.to_string()).await;

    assert_eq!(changed.problem(), problem(409, "payment_of_period"));
    assert_eq!(changed.json()["fields"], json!(["amount", "currency"]));
    assert_eq!(deleted.problem(), problem(409, "payment_of_period"));
    assert_eq!(deleted.json()["fields"], Value::Null);
    assert_eq!(taken.problem(), problem(409, "payment_of_period"));
    assert_eq!(taken.json()["holder"], payment["id"]);
    assert_eq!(free_again.status, 201, "{free_again:?}");
    assert_eq!(world.server("DELETE", &path, &[], "").await.status, 204);
}

#[tokio::test]
async fn without_billing_its_routes_do_not_exist_and_the_verbs_work() {
    let world = HttpWorld::new().await;
    let held = world.subscription("ann", &json!({})).await;
    let payment = world.made("/subscription-payments", &payment_body(&held)).await;
    let world = world.allowing(&[]);

    for (method, path) in [
        ("GET", "/due-payments".to_owned()),
        ("GET", format!("{}/timeline", path_of(&held))),
        ("POST", format!("{}/change-plan", path_of(&held))),
        ("POST", format!("{}/change-plan/preview", path_of(&held))),
        ("POST", format!("{}/retry", payment_path(&payment))),
    ] {
        for method in [method, "OPTIONS"] {
            let refused = world.server(method, &path, &[], "").await;
            assert_eq!(refused.problem(), problem(404, "route_not_found"), "{method} {path}");
        }
    }
    let document = world.server("GET", "/openapi.json", &[], "").await.json();
    let paths: BTreeSet<_> = document["paths"].as_object().unwrap().keys().cloned().collect();
    let with_billing = openapi_json_for(&[], &[ApiPart::Billing]);
    let with_billing: Value = serde_json::from_str(with_billing).unwrap();
    let with_billing = with_billing["paths"].as_object().unwrap().keys().cloned();
    let missing: Vec<_> = with_billing.filter(|path| !paths.contains(path)).collect();
    let expected = [
        "/due-payments",
        "/subscription-payments/{payment_id}/retry",
        "/subscriptions/{id}/change-plan",
        "/subscriptions/{id}/change-plan/preview",
        "/subscriptions/{id}/discount",
        "/subscriptions/{id}/timeline",
    ];
    assert_eq!(missing, expected);
    let paused = world.server("POST", &format!("{}/pause", path_of(&held)), &[], "").await;
    assert_eq!(paused.json()["status"], "paused");
    let by_clock = json!({ "managed_by": "clock" }).to_string();
    let refused = world.server("PUT", &path_of(&held), &[], by_clock).await;
    assert_eq!(refused.faults(), ["managed_by not_allowed_value"]);
}

/// Puts fields of a subscription, and returns it.
async fn put(world: &HttpWorld, held: &Value, body: Value) -> Value {
    let put = world.server("PUT", &path_of(held), &[], body.to_string()).await;
    assert_eq!(put.status, 200, "{put:?}");
    put.json()
}

/// The retry fell due while the clock did not manage the subscription, and was dropped.
#[tokio::test]
async fn one_that_is_taken_over_during_dunning_is_not_past_due_for_ever() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    world.report(&held, "failed").await;
    put(&world, &held, json!({ "managed_by": "caller" })).await;
    world.auth.clock.advance(Duration::from_hours(48));
    world.billing.advance(200).await.unwrap();

    let taken = put(&world, &held, json!({ "managed_by": "clock" })).await;

    assert_eq!(taken["status"], "past_due");
    assert_eq!(taken["next_action_at"], "2025-02-16T00:00:00.000000Z", "after all retries");
    world.auth.clock.advance(Duration::from_hours(24 * 200));
    world.billing.advance(200).await.unwrap();
    let later = world.server("GET", &path_of(&held), &[], "").await.json();
    assert_eq!((&later["status"], &later["is_active"]), (&json!("unpaid"), &json!(false)));
    world.report(&held, "succeeded").await;
    let paid = world.server("GET", &path_of(&held), &[], "").await.json();
    assert_eq!(paid["status"], "active");
}

#[tokio::test]
async fn a_period_that_an_imported_payment_pays_for_uses_no_credit() {
    for credit in ["4.00", "19.99", "25.00"] {
        for by_request in [false, true] {
            let world = HttpWorld::new().await;
            let held = world.on_clock("ann", &json!({})).await;
            world.report(&held, "succeeded").await;
            put(&world, &held, json!({ "credit": credit })).await;
            let mut payment = payment_body(&held);
            let period = json!({ "kind": "renewal", "period_start": held["renews_at"], "status": "succeeded" });
            add(&mut payment, &period);
            world.made("/subscription-payments", &payment).await;
            world.auth.clock.advance(Duration::from_hours(24 * 32));

            if by_request {
                put(&world, &held, json!({ "metadata": { "a": "b" } })).await;
            } else {
                world.billing.advance(200).await.unwrap();
            }

            let renewed = world.server("GET", &path_of(&held), &[], "").await.json();
            assert_eq!(renewed["current_period_start"], held["renews_at"], "{renewed}");
            let expected: f64 = credit.parse().unwrap();
            assert_eq!(renewed["credit"], json!(expected), "{credit} {by_request}");
        }
    }
}
