//! The verbs of subscriptions: what they answer, under conditions and keys, and what they refuse.

use serde_json::{Value, json};
use subscription_core::ManagedBy;

use super::world::{Answer, HttpWorld, path_of, problem, text};

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";
const VERBS: [&str; 3] = ["cancel", "resume", "pause"];
const NOW: &str = r#"{"effective":"now"}"#;

async fn act(world: &HttpWorld, held: &Value, verb: &str, body: &str) -> Answer {
    act_with(world, held, verb, &[], body).await
}

async fn act_with(
    world: &HttpWorld,
    held: &Value,
    verb: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    world.server("POST", &format!("{}/{verb}", path_of(held)), headers, body).await
}

async fn read(world: &HttpWorld, held: &Value) -> Value {
    world.server("GET", &path_of(held), &[], "").await.json()
}

#[tokio::test]
async fn a_verb_on_a_subscription_of_callers_is_an_update_of_its_status() {
    let world = HttpWorld::new().await;
    for (nth, (before, verb, body, status)) in [
        ("active", "cancel", "", "cancelled"),
        ("active", "cancel", r#"{"effective":"period_end"}"#, "cancelled"),
        ("past_due", "cancel", "{}", "cancelled"),
        ("active", "cancel", NOW, "expired"),
        ("active", "pause", "", "paused"),
        ("on_trial", "pause", NOW, "paused"),
        ("paused", "resume", "", "active"),
        ("cancelled", "resume", "{}", "active"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("user{nth}");
        let held = world.subscription(&name, &json!({ "status": before })).await;

        let acted = act(&world, &held, verb, body).await;

        assert_eq!((acted.status, &acted.json()["status"]), (200, &json!(status)), "{verb} {body}");
        assert_eq!(acted.header("etag"), Some("\"2\""));
        assert_eq!(read(&world, &held).await, acted.json());
        let again = act(&world, &held, verb, body).await;
        assert_eq!((again.status, again.json()), (200, acted.json()), "{verb} {body}");
    }
}

#[tokio::test]
async fn a_pause_of_callers_keeps_its_end_but_cannot_be_scheduled() {
    let world = HttpWorld::new().await;
    let held = world.subscription("ann", &json!({})).await;

    let refused = act(&world, &held, "pause", r#"{"effective":"period_end"}"#).await;
    let paused = act(&world, &held, "pause", r#"{"resumes_at":"2025-03-01T00:00:00Z"}"#).await;

    assert_eq!(refused.problem(), problem(409, "managed_by_caller"));
    assert_eq!(refused.json()["fields"], json!(["scheduled_change"]));
    assert_eq!(paused.json()["resumes_at"], "2025-03-01T00:00:00.000000Z");
    let path = format!("{}/scheduled-change", path_of(&held));
    let none = world.server("DELETE", &path, &[], "").await;
    assert_eq!(none.problem(), problem(404, "not_found"));
}

#[tokio::test]
async fn a_scheduled_pause_is_shown_dropped_by_resume_and_by_its_deletion() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let path = format!("{}/scheduled-change", path_of(&held));

    let paused = act(&world, &held, "pause", r#"{"resumes_at":"2025-04-01T00:00:00Z"}"#).await;
    let resumed = act(&world, &held, "resume", "").await;
    act(&world, &held, "pause", "").await;
    let stale = world.server("DELETE", &path, &[("if-match", "\"1\"")], "").await;
    let dropped = world.server("DELETE", &path, &[("if-match", "\"4\"")], "").await;

    let expected = json!({
        "action": "pause", "effective_at": "2025-02-28T00:00:00.000000Z",
        "resumes_at": "2025-04-01T00:00:00.000000Z",
    });
    assert_eq!(paused.json()["scheduled_change"], expected);
    assert_eq!(paused.json()["status"], "active");
    assert_eq!(resumed.json()["scheduled_change"], Value::Null);
    assert_eq!(stale.problem(), problem(412, "precondition_failed"));
    assert_eq!((dropped.status, dropped.text()), (204, ""));
    assert_eq!(read(&world, &held).await["scheduled_change"], Value::Null);
    let again = world.server("DELETE", &path, &[], "").await;
    assert_eq!(again.problem(), problem(404, "not_found"));
}

#[tokio::test]
async fn a_cancellation_at_once_cancels_open_payments() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;

    let cancelled = act(&world, &held, "cancel", NOW).await.json();

    assert_eq!((&cancelled["status"], &cancelled["is_active"]), (&json!("expired"), &json!(false)));
    assert_eq!(cancelled["ends_at"], "2025-01-31T00:00:00.000000Z");
    assert_eq!(world.newest_payment(&held).await["status"], "canceled");
}

#[tokio::test]
async fn a_verb_for_another_version_is_refused_and_changes_nothing() {
    let world = HttpWorld::new().await;
    let held = world.subscription("ann", &json!({})).await;

    for verb in VERBS {
        for tag in ["\"2\"", "W/\"1\"", "\"x\"", ""] {
            let stale = act_with(&world, &held, verb, &[("if-match", tag)], "").await;
            let told = (stale.problem(), stale.json()["current_version"].clone());
            assert_eq!(told, (problem(412, "precondition_failed"), json!(1)), "{verb} {tag}");
        }
    }
    assert_eq!(read(&world, &held).await, held);
    let one_of = [("if-match", "\"7\", \"1\"")];
    let paused = act_with(&world, &held, "pause", &one_of, "").await;
    assert_eq!((paused.status, paused.header("etag")), (200, Some("\"2\"")));
    let any = act_with(&world, &held, "resume", &[("if-match", "*")], "").await;
    assert_eq!((any.status, any.header("etag")), (200, Some("\"3\"")));
}

#[tokio::test]
async fn a_verb_under_a_key_is_applied_once_and_its_answer_repeated() {
    let world = HttpWorld::new().await;
    let (held, other) =
        (world.on_clock("ann", &json!({})).await, world.on_clock("ben", &json!({})).await);
    let key = [("idempotency-key", "k")];

    let first = act_with(&world, &held, "pause", &key, NOW).await;
    act(&world, &held, "resume", "").await;
    let again = act_with(&world, &held, "pause", &key, NOW).await;
    let stale = [("idempotency-key", "k"), ("if-match", "\"1\"")];
    let conditional = act_with(&world, &held, "pause", &stale, NOW).await;

    assert_eq!((first.status, first.header("idempotency-replayed")), (200, None), "{first:?}");
    for again in [&again, &conditional] {
        assert_eq!((again.status, &again.body), (200, &first.body));
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
    }
    assert_eq!(read(&world, &held).await["status"], "active");
    for (held, verb, body) in [(&held, "pause", ""), (&held, "cancel", NOW), (&other, "pause", NOW)]
    {
        let reused = act_with(&world, held, verb, &key, body).await;
        assert_eq!(reused.problem(), problem(422, "idempotency_key_reused"), "{verb} {body}");
    }
    let invalid = act_with(&world, &held, "cancel", &[("idempotency-key", "")], "").await;
    assert_eq!(invalid.problem(), problem(400, "idempotency_key_invalid"));
}

#[tokio::test]
async fn every_fault_of_a_verb_is_in_one_answer_and_nothing_changes() {
    let world = HttpWorld::new().await;
    let (held, by_clock) =
        (world.subscription("ann", &json!({})).await, world.on_clock("ben", &json!({})).await);
    for (verb, body, expected) in [
        (
            "cancel",
            r#"{"effective":"later","x":1}"#,
            &["effective not_allowed_value", "x unknown_field"][..],
        ),
        ("cancel", r#"{"effective":null}"#, &["effective null_not_allowed"]),
        ("cancel", r#"{"effective":1}"#, &["effective wrong_type"]),
        ("cancel", r#"{"resumes_at":null}"#, &["resumes_at unknown_field"]),
        ("cancel", "[]", &[" wrong_type"]),
        ("resume", r#"{"effective":"now"}"#, &["effective unknown_field"]),
        ("resume", "null", &[" wrong_type"]),
        (
            "pause",
            r#"{"effective":"","resumes_at":"soon","y":{}}"#,
            &["effective not_allowed_value", "resumes_at bad_format", "y unknown_field"],
        ),
        ("pause", r#"{"resumes_at":1}"#, &["resumes_at wrong_type"]),
    ] {
        for held in [&held, &by_clock] {
            let refused = act(&world, held, verb, body).await;

            assert_eq!(refused.faults(), expected, "{verb} {body}");
            assert_eq!(read(&world, held).await, *held);
        }
    }
    for (body, expected) in [
        (r#"{"resumes_at":"2025-02-28T00:00:00Z"}"#, "resumes_at out_of_range"),
        (r#"{"effective":"now","resumes_at":"2025-01-31T00:00:00Z"}"#, "resumes_at out_of_range"),
    ] {
        assert_eq!(act(&world, &by_clock, "pause", body).await.faults(), [expected], "{body}");
    }
    for verb in VERBS {
        let half = act(&world, &held, verb, "{").await;
        assert_eq!(half.problem(), problem(400, "malformed_json"), "{verb}");
        let query = act(&world, &held, &format!("{verb}?now=true"), "").await;
        assert_eq!(query.problem(), problem(400, "invalid_query"), "{verb}");
    }
}

#[tokio::test]
async fn a_verb_that_the_status_does_not_allow_is_refused() {
    let world = HttpWorld::new().await;
    for (nth, (status, verb, body, to)) in [
        ("unpaid", "cancel", r#"{"effective":"period_end"}"#, "cancelled"),
        ("pending", "pause", "", "paused"),
        ("unpaid", "resume", "", "active"),
        ("expired", "resume", "", "active"),
        ("expired", "pause", NOW, "paused"),
    ]
    .into_iter()
    .enumerate()
    {
        let more = match status {
            "pending" => json!({ "starts_at": "2025-03-01T00:00:00Z" }),
            status => json!({ "status": status }),
        };
        let held = world.on_clock(&format!("user{nth}"), &more).await;

        let refused = act(&world, &held, verb, body).await;

        assert_eq!(refused.problem(), problem(409, "invalid_transition"), "{status} {verb}");
        let told = refused.json();
        assert_eq!((&told["from"], &told["to"]), (&json!(status), &json!(to)), "{verb}");
        assert_eq!(read(&world, &held).await, held);
    }
}

#[tokio::test]
async fn a_providers_subscription_takes_no_verb_and_keeps_its_fields() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let held = world.rewrite(&held, |held| held.managed_by = ManagedBy::Provider).await;

    for verb in VERBS {
        let refused = act(&world, &held, verb, "").await;
        assert_eq!(refused.problem(), problem(409, "managed_by_provider"), "{verb}");
    }
    for end in ["scheduled-change", "timeline"] {
        let method = if end == "timeline" { "GET" } else { "DELETE" };
        let path = format!("{}/{end}", path_of(&held));
        let refused = world.server(method, &path, &[], "").await;
        assert_eq!(refused.problem(), problem(409, "managed_by_provider"), "{end}");
    }
    let body = r#"{"price":1,"status":"active","ends_at":"2026-01-01T00:00:00Z","metadata":{}}"#;
    let refused = world.server("PUT", &path_of(&held), &[], body).await;
    assert_eq!(refused.problem(), problem(409, "managed_by_provider"));
    assert_eq!(refused.json()["fields"], json!(["ends_at", "price"]));
}

#[tokio::test]
async fn verbs_of_a_subscription_that_there_is_not_are_refused() {
    let world = HttpWorld::new().await;

    for id in ["x", NOBODY] {
        for (method, end) in [
            ("POST", "cancel"),
            ("POST", "resume"),
            ("POST", "pause"),
            ("DELETE", "scheduled-change"),
            ("GET", "timeline"),
        ] {
            let refused =
                world.server(method, &format!("/subscriptions/{id}/{end}"), &[], "").await;
            assert_eq!(refused.problem(), problem(404, "not_found"), "{id} {end}");
        }
    }
}

#[tokio::test]
async fn people_cancel_and_resume_what_the_clock_manages() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let (ann, id) = (world.sign_in("ann").await, text(&held["id"]));
    let mine = async |verb: &str| {
        let path = format!("/me/subscriptions/{id}/{verb}");
        world.person("POST", &path, &ann.bearer).await
    };

    let cancelled = mine("cancel").await.json();
    let resumed = mine("resume").await.json();
    act(&world, &held, "pause", "").await;
    mine("resume").await;
    let scheduled = read(&world, &held).await["scheduled_change"].clone();
    act(&world, &held, "pause", NOW).await;
    let paused = mine("resume").await;
    act(&world, &held, "resume", "").await;
    world.report(&held, "failed").await;
    mine("cancel").await;
    let behind = mine("resume").await;

    assert_eq!(
        (&cancelled["status"], &cancelled["actions"]),
        (&json!("cancelled"), &json!(["resume"]))
    );
    assert_eq!(resumed["status"], "active");
    assert_eq!(resumed["actions"], json!(["cancel", "change_plan"]));
    assert_eq!(scheduled["action"], "pause", "a pause is not the user's to end");
    assert_eq!(paused.problem(), problem(409, "invalid_transition"));
    assert_eq!(behind.problem(), problem(409, "payment_open"));
    let listed = world.person("GET", "/me/subscriptions", &ann.bearer).await.json();
    assert_eq!(listed["data"][0]["actions"], json!([]));
}
