//! `/me`: what the signed-in person sees and may change, and what stays hidden.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::Action;
use subscription_core::auth::{ClientKind, Scope};
use subscription_core::store::PageLimit;
use subscription_http::SelfService;
use test_support::spy_store::{CallCounts, SpyStore};

use super::world::{Answer, HttpWorld, Person, WEB, add, plan_body, problem, text};

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";
const RENEWAL: &str = "2025-02-28T00:00:00.000000Z";

/// Makes a plan and a subscription of a person to it, with what `more` adds.
async fn subscribe(world: &HttpWorld, person: &Person, slug: &str, more: &Value) -> Value {
    let mut plan = plan_body(slug);
    let told = json!({ "description": "For teams.", "features": "api, sso", "node_quota": 3 });
    add(&mut plan, &told);
    let plan = world.made("/subscription-plans", &plan).await;
    let mut body = json!({ "user_id": person.id, "subscription_plan_id": plan["id"] });
    add(&mut body, more);
    world.made("/subscriptions", &body).await
}

async fn verb(world: &HttpWorld, person: &Person, id: &str, verb: &str) -> Answer {
    world.person("POST", &format!("/me/subscriptions/{id}/{verb}"), &person.bearer).await
}

#[tokio::test]
async fn people_see_their_own_access_and_nobody_elses() {
    let world = HttpWorld::new().await;
    let (ann, ben) = (world.sign_up("ann").await, world.sign_up("ben").await);
    subscribe(&world, &ann, "pro", &json!({})).await;

    for (person, has_access) in [(&ann, true), (&ben, false)] {
        let path = format!("/users/{}/entitlement?feature=sso", person.id);
        let expected = world.server("GET", &path, &[], "").await;
        let mine = world.person("GET", "/me/entitlement?feature=sso", &person.bearer).await;

        assert_eq!((mine.status, mine.text()), (200, expected.text()));
        assert_eq!(mine.header("cache-control"), Some("no-store"));
        assert_eq!(mine.json()["has_feature"], has_access);
    }
    for query in ["user_id=x", "feature=", "feature=a&feature=b"] {
        let path = format!("/me/entitlement?{query}");
        let refused = world.person("GET", &path, &ann.bearer).await;
        assert_eq!(refused.problem(), problem(400, "invalid_query"), "{query}");
    }
}

#[tokio::test]
async fn a_subscription_is_shown_with_its_plan_and_without_what_is_the_operators() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let made = subscribe(&world, &ann, "pro", &json!({ "external_subscription_id": "s_1" })).await;

    let mine = world.person("GET", "/me/subscriptions", &ann.bearer).await;

    let id = text(&made["id"]);
    let expected = format!(
        r#"{{"data":[{{"id":"{id}","status":"active","is_active":true,"billing_cycle":"monthly","starts_at":"2025-01-31T00:00:00.000000Z","renews_at":"{RENEWAL}","ends_at":null,"current_period_start":"2025-01-31T00:00:00.000000Z","current_period_end":"{RENEWAL}","quantity":1,"price":null,"currency":null,"credit":null,"discount":null,"trial_ends_at":null,"resumes_at":null,"next_charge":null,"scheduled_change":null,"manage_url":null,"plan":{{"slug":"pro","name":"Pro","description":"For teams.","price":19.99,"billing_cycle":"monthly","features":"api, sso","node_quota":3,"tier":0}},"actions":["cancel"]}}],"has_more":false,"next_cursor":null}}"#
    );
    assert_eq!((mine.status, mine.text()), (200, &*expected));
    assert_eq!(mine.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn subscriptions_are_listed_newest_first_page_by_page_by_status() {
    let world = HttpWorld::new().await;
    let (ann, ben) = (world.sign_up("ann").await, world.sign_up("ben").await);
    for (nth, status) in ["active", "paused", "expired", "active"].into_iter().enumerate() {
        world.auth.clock.advance(Duration::from_secs(1));
        subscribe(&world, &ann, &format!("plan-{nth}"), &json!({ "status": status })).await;
    }
    subscribe(&world, &ben, "other", &json!({})).await;
    let read = async |person: &Person, path: &str| {
        let page = world.person("GET", path, &person.bearer).await;
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        let data = page["data"].as_array().unwrap();
        let slugs: Vec<_> = data.iter().map(|one| text(&one["plan"]["slug"])).collect();
        (slugs, page["next_cursor"].clone())
    };
    let path = "/me/subscriptions?status=active&status=paused&limit=2";

    let (first, cursor) = read(&ann, path).await;
    let next = format!("{path}&cursor={}", text(&cursor));
    let (second, end) = read(&ann, &next).await;

    assert_eq!(
        (first, second),
        (vec!["plan-3".into(), "plan-1".into()], vec!["plan-0".to_owned()])
    );
    assert_eq!(end, Value::Null);
    assert_eq!(read(&ben, "/me/subscriptions").await.0, ["other"]);
    let foreign = world.person("GET", &next, &ben.bearer).await;
    assert_eq!(foreign.problem(), problem(400, "invalid_cursor"));
    for query in [
        "status=sleeping",
        "status=",
        "limit=0",
        "limit=201",
        "limit=1&limit=2",
        "user_id=x",
        "sort=x",
    ] {
        let path = format!("/me/subscriptions?{query}");
        let refused = world.person("GET", &path, &ann.bearer).await;
        assert_eq!(refused.problem(), problem(400, "invalid_query"), "{query}");
    }
    let refused = world.person("GET", "/me/subscriptions?cursor=x", &ann.bearer).await;
    assert_eq!(refused.problem(), problem(400, "invalid_cursor"));
}

#[tokio::test]
async fn a_person_cancels_and_resumes_and_is_the_actor() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let id = text(&subscribe(&world, &ann, "pro", &json!({})).await["id"]);
    let service = &world.auth.service;
    let before = service.events(0, PageLimit::MAX).await.unwrap().len();

    let cancelled = verb(&world, &ann, &id, "cancel").await;
    let again = verb(&world, &ann, &id, "cancel").await;
    let resumed = verb(&world, &ann, &id, "resume").await;
    let twice = verb(&world, &ann, &id, "resume").await;

    let told = cancelled.json();
    assert_eq!(
        (cancelled.status, &told["status"], &told["ends_at"]),
        (200, &json!("cancelled"), &json!(RENEWAL))
    );
    assert_eq!((&told["is_active"], &told["actions"]), (&json!(true), &json!(["resume"])));
    assert_eq!((again.status, again.body), (200, cancelled.body));
    let told = resumed.json();
    assert_eq!(
        (resumed.status, &told["status"], &told["ends_at"]),
        (200, &json!("active"), &Value::Null)
    );
    assert_eq!(told["actions"], json!(["cancel"]));
    assert_eq!((twice.status, twice.body), (200, resumed.body));
    let events = service.events(0, PageLimit::MAX).await.unwrap();
    let actors = events.iter().skip(before).map(|recorded| {
        let actor = &recorded.event.actor;
        format!("{} by {actor}", recorded.event.name())
    });
    let changed = format!("subscription.status_changed by user:{}", ann.id);
    assert_eq!(actors.collect::<Vec<_>>(), [changed.clone(), changed]);
}

#[tokio::test]
async fn a_verb_takes_no_body_or_an_empty_object() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let id = text(&subscribe(&world, &ann, "pro", &json!({})).await["id"]);
    let headers = [("client-id", WEB), ("authorization", &*ann.bearer)];
    let send = async |headers: &[(&str, &str)], verb: &str, body: &str| {
        world.call("POST", &format!("/me/subscriptions/{id}/{verb}"), headers, body).await
    };

    for verb in ["cancel", "resume"] {
        let at = send(&headers, verb, r#"{"at":"now","status":"expired"}"#).await;
        assert_eq!(at.faults(), ["at unknown_field", "status unknown_field"], "{verb}");
        assert_eq!(send(&headers, verb, "{").await.problem(), problem(400, "malformed_json"));
        assert_eq!(send(&headers, verb, "[]").await.faults(), [" wrong_type"], "{verb}");
        let text = [&headers[..], &[("content-type", "text/plain")]].concat();
        let refused = send(&text, verb, "{}").await;
        assert_eq!(refused.problem(), problem(415, "media_type_unsupported"), "{verb}");
        let path = format!("/me/subscriptions/{id}/{verb}?at=now");
        let refused = world.person("POST", &path, &ann.bearer).await;
        assert_eq!(refused.problem(), problem(400, "invalid_query"), "{verb}");
    }
    assert_eq!(send(&headers, "cancel", "{}").await.json()["status"], "cancelled");
    assert_eq!(send(&headers, "resume", " { } ").await.json()["status"], "active");
}

#[tokio::test]
async fn what_has_ended_or_cannot_be_cancelled_is_refused_and_has_no_actions() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let ended = text(&subscribe(&world, &ann, "pro", &json!({})).await["id"]);
    let expired = subscribe(&world, &ann, "old", &json!({ "status": "expired" })).await;
    let paused = subscribe(&world, &ann, "rest", &json!({ "status": "paused" })).await;
    let (expired, paused) = (text(&expired["id"]), text(&paused["id"]));
    verb(&world, &ann, &ended, "cancel").await;
    world.auth.clock.set(RENEWAL.parse().unwrap());
    let ann = world.sign_in("ann").await;

    for (id, name, allowed) in [
        (&ended, "resume", json!(["expired"])),
        (&expired, "cancel", json!([])),
        (&expired, "resume", json!([])),
        (&paused, "resume", json!(["on_trial", "past_due", "cancelled", "expired"])),
    ] {
        let refused = verb(&world, &ann, id, name).await;
        assert_eq!(refused.problem(), problem(409, "invalid_transition"), "{name}");
        assert_eq!(refused.json()["allowed"], allowed, "{name}");
    }
    assert_eq!(verb(&world, &ann, &ended, "cancel").await.status, 200, "nothing to change");
    let mine = world.person("GET", "/me/subscriptions", &ann.bearer).await.json();
    let actions: Vec<_> =
        mine["data"].as_array().unwrap().iter().map(|one| &one["actions"]).collect();
    assert_eq!(actions, [&json!(["cancel"]), &json!([]), &json!([])]);
}

#[tokio::test]
async fn a_verb_that_is_not_listed_has_no_route_no_action_and_no_place_in_the_document() {
    use SelfService::{Cancel, Resume};
    for allowed in [&[][..], &[Cancel], &[Resume], &[Resume, Cancel, Cancel]] {
        let world = HttpWorld::new().await.allowing(allowed);
        let ann = world.sign_up("ann").await;
        let active = text(&subscribe(&world, &ann, "pro", &json!({})).await["id"]);
        let cancelled = text(&subscribe(&world, &ann, "old", &json!({})).await["id"]);
        let service = &world.auth.service;
        service.act(cancelled.parse().unwrap(), Action::Leave).await.unwrap();
        let document = world.call("GET", "/openapi.json", &[], "").await;
        let told = world.person("GET", "/me/subscriptions", &ann.bearer).await.json();

        for (change, name, id, nth) in
            [(Resume, "resume", &cancelled, 0), (Cancel, "cancel", &active, 1)]
        {
            let listed = allowed.contains(&change);
            let actions = if listed { json!([name]) } else { json!([]) };
            assert_eq!(told["data"][nth]["actions"], actions, "{allowed:?}");
            let path = format!("/me/subscriptions/{{id}}/{name}");
            assert_eq!(document.json()["paths"].get(&path).is_some(), listed, "{allowed:?}");
            let path = format!("/me/subscriptions/{id}/{name}");
            let options = world.call("OPTIONS", &path, &[], "").await;
            assert_eq!(options.status, if listed { 204 } else { 404 }, "{allowed:?}");
            let answer = verb(&world, &ann, id, name).await;
            if listed {
                assert_eq!(answer.status, 200, "{allowed:?} {answer:?}");
            } else {
                assert_eq!(answer.problem(), problem(404, "route_not_found"), "{allowed:?}");
            }
        }
    }
}

#[tokio::test]
async fn another_persons_subscription_is_not_told_from_an_unknown_one_nor_by_what_is_read() {
    let store = SpyStore::new(CallCounts::default());
    let world = HttpWorld::over(Arc::<SpyStore<_>>::clone(&store)).await;
    let (ann, ben) = (world.sign_up("ann").await, world.sign_up("ben").await);
    let foreign = text(&subscribe(&world, &ann, "pro", &json!({})).await["id"]);
    let headers = [("client-id", WEB), ("authorization", &*ben.bearer), ("x-request-id", "same")];

    // The first call in a while notes when the session was last seen.
    world.person("GET", "/me/entitlement", &ben.bearer).await;
    for name in ["cancel", "resume"] {
        let asked = async |id: &str| {
            store.spy.take();
            let path = format!("/me/subscriptions/{id}/{name}");
            let refused = world.call("POST", &path, &headers, "").await;
            assert_eq!(refused.problem(), problem(404, "not_found"), "{name} {id}");
            (refused.headers, refused.body, store.spy.take())
        };
        let unknown = asked(NOBODY).await;
        assert_eq!(asked(&foreign).await, unknown, "{name}");
        let (unreadable, body, _) = asked("x").await;
        assert_eq!((unreadable, body), (unknown.0, unknown.1), "{name}");
    }
    let path = format!("/subscriptions/{foreign}");
    let untouched = world.server("GET", &path, &[], "").await.json();
    assert_eq!((&untouched["status"], &untouched["version"]), (&json!("active"), &json!(1)));
}

#[tokio::test]
async fn every_route_asks_for_a_token_of_a_live_session_with_this_client() {
    let world = HttpWorld::new().await;
    world.client("app", ClientKind::Public, Scope::is_public).await;
    let (ann, ben) = (world.sign_up("ann").await, world.sign_up("ben").await);
    let id = text(&subscribe(&world, &ann, "pro", &json!({})).await["id"]);
    let (cancel, resume) =
        (format!("/me/subscriptions/{id}/cancel"), format!("/me/subscriptions/{id}/resume"));
    let routes = [
        ("GET", "/me/entitlement"),
        ("GET", "/me/subscriptions"),
        ("GET", "/me/payments"),
        ("GET", "/me/checkout-link?plan=pro"),
        ("POST", &*cancel),
        ("POST", &*resume),
    ];
    let refused = async |code: &str, headers: &[(&str, &str)]| {
        for (method, path) in routes {
            let answer = world.call(method, path, headers, "").await;
            assert_eq!(answer.problem(), problem(401, code), "{method} {path}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{method} {path}");
        }
    };

    refused("token_missing", &[("client-id", WEB)]).await;
    let cut = &ann.bearer[..ann.bearer.len() - 2];
    for token in ["Bearer x", "bearer a.b.c", cut] {
        refused("token_invalid", &[("client-id", WEB), ("authorization", token)]).await;
    }
    refused("token_invalid", &[("client-id", "app"), ("authorization", &ann.bearer)]).await;
    world.person("POST", "/authentication/tokens/logout", &ben.bearer).await;
    refused("session_revoked", &[("client-id", WEB), ("authorization", &ben.bearer)]).await;
    world.auth.clock.advance(Duration::from_mins(11));
    refused("token_expired", &[("client-id", WEB), ("authorization", &ann.bearer)]).await;
    let untouched = world.server("GET", &format!("/subscriptions/{id}"), &[], "").await.json();
    assert_eq!(untouched["version"], 1);
}

#[tokio::test]
async fn an_account_that_is_being_deleted_is_told_so() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let id = text(&subscribe(&world, &ann, "pro", &json!({})).await["id"]);
    world.auth.close(ann.id.parse().unwrap()).await;

    for (method, path) in [
        ("GET", "/me/entitlement".to_owned()),
        ("GET", "/me/subscriptions".to_owned()),
        ("GET", "/me/payments".to_owned()),
        ("GET", "/me/checkout-link?plan=pro".to_owned()),
        ("POST", format!("/me/subscriptions/{id}/cancel")),
        ("POST", format!("/me/subscriptions/{id}/resume")),
    ] {
        let refused = world.person(method, &path, &ann.bearer).await;
        assert_eq!(refused.problem(), problem(409, "account_closing"), "{path}");
    }
}

/// Makes a subscription of a person to a plan that the clock bills, with what `more` adds.
async fn billed(world: &HttpWorld, person: &Person, slug: &str, more: &Value) -> Value {
    let mut plan = plan_body(slug);
    add(&mut plan, &json!({ "currency": "USD" }));
    let plan = world.made("/subscription-plans", &plan).await;
    let mut body = json!({ "user_id": person.id, "subscription_plan_id": plan["id"] });
    add(&mut body, more);
    world.made("/subscriptions", &body).await
}

async fn read(world: &HttpWorld, made: &Value) -> Value {
    world.server("GET", &format!("/subscriptions/{}", text(&made["id"])), &[], "").await.json()
}

/// The record without what every write changes.
fn unwritten(mut record: Value) -> Value {
    for field in ["version", "updated_at"] {
        record[field] = Value::Null;
    }
    record
}

#[tokio::test]
async fn cancel_and_resume_leave_a_fixed_end_a_trial_and_a_schedule_as_they_were() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let (soon, later) = ("2025-02-11T00:00:00Z", "2025-06-11T00:00:00Z");
    let trial = json!({ "trial_ends_at": soon, "ends_at": soon });
    let cases = [
        ("a gift", subscribe(&world, &ann, "gift", &json!({ "ends_at": soon })).await),
        (
            "a caller's trial",
            subscribe(&world, &ann, "taste", &json!({ "status": "on_trial", "ends_at": soon }))
                .await,
        ),
        ("a fixed term", billed(&world, &ann, "term", &json!({ "ends_at": later })).await),
        ("a trial that does not convert", billed(&world, &ann, "trial", &trial).await),
        ("one without an end", billed(&world, &ann, "endless", &json!({})).await),
        ("a scheduled pause", billed(&world, &ann, "pause", &json!({})).await),
        ("a scheduled change", billed(&world, &ann, "change", &json!({})).await),
    ];
    let path = |nth: usize| format!("/subscriptions/{}", text(&cases[nth].1["id"]));
    let pause = json!({ "resumes_at": later }).to_string();
    world.server("POST", &format!("{}/pause", path(5)), &[], pause).await;
    let change = json!({ "quantity": 2, "effective": "period_end" }).to_string();
    world.server("POST", &format!("{}/change-plan", path(6)), &[], change).await;

    for (name, made) in cases {
        let before = read(&world, &made).await;
        let id = text(&made["id"]);
        let cancelled = verb(&world, &ann, &id, "cancel").await;
        assert_eq!(cancelled.json()["status"], "cancelled", "{name}: {cancelled:?}");
        assert_eq!(cancelled.json()["scheduled_change"], Value::Null, "{name}");
        let resumed = verb(&world, &ann, &id, "resume").await;
        assert_eq!(resumed.status, 200, "{name}: {resumed:?}");
        assert_eq!(unwritten(read(&world, &made).await), unwritten(before.clone()), "{name}");
        // Operators keep what was there too.
        for act in ["cancel", "resume"] {
            let path = format!("/subscriptions/{id}/{act}");
            let acted = world.server("POST", &path, &[], "").await;
            assert_eq!(acted.status, 200, "{name}: {acted:?}");
        }
        assert_eq!(unwritten(read(&world, &made).await), unwritten(before), "{name}");
    }
}

#[tokio::test]
async fn a_person_undoes_only_what_a_person_chose() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    for (slug, by_clock) in [("ours", true), ("theirs", false)] {
        let made = if by_clock {
            billed(&world, &ann, slug, &json!({})).await
        } else {
            subscribe(&world, &ann, slug, &json!({})).await
        };
        let id = text(&made["id"]);
        let operator = async |verb: &str| {
            let path = format!("/subscriptions/{id}/{verb}");
            assert_eq!(world.server("POST", &path, &[], "").await.status, 200);
        };
        operator("cancel").await;

        let refused = verb(&world, &ann, &id, "resume").await;

        assert_eq!(refused.problem(), problem(409, "invalid_transition"), "{slug}");
        assert_eq!(verb(&world, &ann, &id, "cancel").await.json()["actions"], json!([]));
        operator("resume").await;
        verb(&world, &ann, &id, "cancel").await;
        assert_eq!(verb(&world, &ann, &id, "resume").await.json()["status"], "active", "{slug}");
        // Cancelled by both: the operator's choice stays.
        verb(&world, &ann, &id, "cancel").await;
        operator("cancel").await;
        let refused = verb(&world, &ann, &id, "resume").await;
        assert_eq!(refused.problem(), problem(409, "invalid_transition"), "{slug}");
    }
}

#[tokio::test]
async fn a_person_who_is_past_due_leaves_with_the_period_and_the_debt_stays() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let made = billed(&world, &ann, "pro", &json!({})).await;
    let failed = world.report(&made, "failed").await;
    let id = text(&made["id"]);

    let left = verb(&world, &ann, &id, "cancel").await.json();

    assert_eq!((&left["status"], &left["ends_at"]), (&json!("cancelled"), &json!(RENEWAL)));
    let payment = format!("/subscription-payments/{}", text(&failed["id"]));
    let owed = world.server("GET", &payment, &[], "").await.json();
    assert_eq!(
        (&owed["status"], &owed["next_attempt_at"]),
        (&json!("failed"), &failed["next_attempt_at"])
    );
    assert_ne!(owed["next_attempt_at"], Value::Null);
    let refused = verb(&world, &ann, &id, "resume").await;
    assert_eq!(refused.problem(), problem(409, "payment_open"));
    world.report(&made, "succeeded").await;
    assert_eq!(verb(&world, &ann, &id, "resume").await.json()["status"], "active");
}

/// There is no later payment to cancel, and what was paid for must not be lost by a button.
#[tokio::test]
async fn a_subscription_that_is_paid_once_has_nothing_to_cancel() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let made = billed(&world, &ann, "pass", &json!({ "billing_cycle": "one_time" })).await;
    world.report(&made, "succeeded").await;
    let held = read(&world, &made).await;

    let listed = world.person("GET", "/me/subscriptions", &ann.bearer).await.json();
    assert_eq!(listed["data"][0]["actions"], json!(["change_plan"]));
    let refused = verb(&world, &ann, &text(&made["id"]), "cancel").await;

    assert_eq!(refused.problem(), problem(409, "invalid_transition"));
    assert_eq!(read(&world, &made).await, held);
}

#[tokio::test]
async fn a_person_without_access_gains_none_by_leaving_and_only_what_was_never_used_is_forgiven() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let unpaid = billed(&world, &ann, "unpaid", &json!({})).await;
    let failed = world.report(&unpaid, "failed").await;
    let payment = format!("/subscription-payments/{}", text(&failed["id"]));
    world.server("PUT", &payment, &[], r#"{"status":"failed","next_attempt_at":null}"#).await;
    let paused = billed(&world, &ann, "paused", &json!({})).await;
    let path = format!("/subscriptions/{}/pause", text(&paused["id"]));
    world.server("POST", &path, &[], r#"{"effective":"now"}"#).await;
    let ahead =
        billed(&world, &ann, "ahead", &json!({ "starts_at": "2025-03-01T00:00:00Z" })).await;
    let theirs = json!({ "status": "unpaid", "renews_at": "2025-06-01T00:00:00Z" });
    let theirs = subscribe(&world, &ann, "theirs", &theirs).await;

    for (made, status) in
        [(&unpaid, "unpaid"), (&paused, "paused"), (&ahead, "pending"), (&theirs, "unpaid")]
    {
        assert_eq!(read(&world, made).await["status"], status);
        let left = verb(&world, &ann, &text(&made["id"]), "cancel").await.json();
        assert_eq!(
            (&left["status"], &left["is_active"]),
            (&json!("expired"), &json!(false)),
            "{left}"
        );
    }
    assert_eq!(world.server("GET", &payment, &[], "").await.json()["status"], "failed");
}

#[tokio::test]
async fn a_callers_subscription_that_is_past_due_is_not_active_again_by_cancel_and_resume() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let made = subscribe(&world, &ann, "pro", &json!({ "status": "past_due" })).await;
    let id = text(&made["id"]);

    assert_eq!(verb(&world, &ann, &id, "cancel").await.json()["status"], "cancelled");

    let refused = verb(&world, &ann, &id, "resume").await;
    assert_eq!(refused.problem(), problem(409, "invalid_transition"));
}

#[tokio::test]
async fn a_person_leaves_with_the_period_also_where_callers_have_set_a_later_end() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let end = "2025-12-31T00:00:00.000000Z";
    for (slug, is_billed) in [("theirs", false), ("ours", true)] {
        let made = if is_billed {
            billed(&world, &ann, slug, &json!({ "ends_at": end })).await
        } else {
            subscribe(&world, &ann, slug, &json!({ "ends_at": end })).await
        };
        let id = text(&made["id"]);

        let left = verb(&world, &ann, &id, "cancel").await.json();

        assert_eq!(left["ends_at"], RENEWAL, "{slug}");
        assert_eq!(verb(&world, &ann, &id, "resume").await.json()["ends_at"], end, "{slug}");
    }
}

#[tokio::test]
async fn an_end_that_an_operator_sets_meanwhile_survives_the_resume_of_a_person() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let made = subscribe(&world, &ann, "pro", &json!({})).await;
    let (id, end) = (text(&made["id"]), "2025-02-20T00:00:00.000000Z");
    let left = verb(&world, &ann, &id, "cancel").await.json();
    let path = format!("/subscriptions/{id}");
    // A record that is sent back as it was read sets nothing.
    let same = json!({ "ends_at": left["ends_at"], "status": "cancelled" }).to_string();
    world.server("PUT", &path, &[], same).await;
    assert_eq!(verb(&world, &ann, &id, "resume").await.json()["ends_at"], Value::Null);

    verb(&world, &ann, &id, "cancel").await;
    world.server("PUT", &path, &[], json!({ "ends_at": end }).to_string()).await;

    let resumed = verb(&world, &ann, &id, "resume").await.json();
    assert_eq!((&resumed["status"], &resumed["ends_at"]), (&json!("active"), &json!(end)));
}

#[tokio::test]
async fn a_debt_stays_when_the_subscription_is_released_and_taken_over() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    for (slug, fails_first) in [("first", true), ("later", false)] {
        let made = billed(&world, &ann, slug, &json!({})).await;
        let id = text(&made["id"]);
        if fails_first {
            world.report(&made, "failed").await;
        }
        verb(&world, &ann, &id, "cancel").await;
        if !fails_first {
            world.report(&made, "failed").await;
        }
        let path = format!("/subscriptions/{id}");
        for by in ["caller", "clock"] {
            let put = json!({ "managed_by": by }).to_string();
            assert_eq!(world.server("PUT", &path, &[], put).await.status, 200);
            let refused = verb(&world, &ann, &id, "resume").await;
            assert_eq!(refused.status, 409, "{slug} {by}: {refused:?}");
        }
        world.report(&made, "succeeded").await;
        assert_eq!(verb(&world, &ann, &id, "resume").await.json()["status"], "active", "{slug}");
    }
}
