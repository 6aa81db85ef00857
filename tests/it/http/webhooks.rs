//! The endpoints of webhooks over HTTP: scopes, limits, conditions, secrets and what is logged.

use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::auth::{ClientKind, Scope};
use subscription_core::events::RecordedEvent;
use subscription_core::store::PageLimit;
use subscription_core::webhooks::{DeliveryResult, EndpointId};
use subscription_http::{ApiPart, RateLimits, openapi_json_for};
use test_support::service_world::{at, of};

use super::endpoints::Shown;
use super::rates::limited;
use super::world::{Answer, HttpWorld, WEB, plan_body, problem, text};
use crate::webhooks::managed::world::{URL, park, rewrite};

pub(super) const ENDPOINTS: &str = "/webhook-endpoints";
const KEY: [(&str, &str); 1] = [("idempotency-key", "order-1")];

impl HttpWorld {
    /// A new endpoint, with its secret.
    pub(super) async fn endpoint(&self) -> Value {
        self.made(ENDPOINTS, &json!({ "url": URL })).await
    }

    /// An event of a new plan.
    async fn recorded(&self, slug: &str) -> RecordedEvent {
        self.plan(slug).await;
        self.auth.service.events(0, PageLimit::MAX).await.unwrap().pop().unwrap()
    }

    /// Sets an event of a new plan aside.
    pub(super) async fn parked(&self, endpoint: &Value, slug: &str, state: &str) -> RecordedEvent {
        let event = self.recorded(slug).await;
        let due = (state != "behind").then(|| at("2025-01-31T01:00:00Z"));
        park(&*self.auth.store, id_of(endpoint), &event, state, due).await;
        event
    }
}

fn id_of(endpoint: &Value) -> EndpointId {
    of(&text(&endpoint["id"]))
}

pub(super) fn path_of(endpoint: &Value) -> String {
    format!("{ENDPOINTS}/{}", text(&endpoint["id"]))
}

/// Answers of a route, for its snapshot.
#[expect(clippy::too_many_lines, reason = "an arm for each route")]
pub(super) async fn shown(world: &HttpWorld, route: &str) -> Option<Shown> {
    let all = json!({
        "url": "https://shop.example/webhooks?shop=1", "types": ["subscription.*", "user.created"],
        "description": "The shop", "from": "start",
    });
    let all = all.to_string();
    let post = async |path: &str, headers: &[(&str, &str)], body: &str| {
        world.server("POST", path, headers, body).await
    };
    if route == "POST /webhook-endpoints" {
        let least = json!({ "url": URL }).to_string();
        return Some(vec![
            ("All that it has.", post(ENDPOINTS, &KEY, &all).await),
            ("The same request again: the same secret.", post(ENDPOINTS, &KEY, &all).await),
            ("The least that it takes.", post(ENDPOINTS, &[], &least).await),
        ]);
    }
    let endpoint = post(ENDPOINTS, &[], &all).await.json();
    let path = path_of(&endpoint);
    world.auth.clock.advance(Duration::from_mins(5));
    let (_, pattern) = route.split_once(' ')?;
    Some(match (route.split_once(' ')?.0, pattern.rsplit_once('/')?.1) {
        ("GET", "webhook-endpoints") => {
            world.endpoint().await;
            super::endpoints::listed(world, &format!("{ENDPOINTS}?limit=1")).await
        }
        ("GET", "{endpoint_id}") => {
            tried(world, &endpoint).await;
            vec![("An endpoint that is stalled.", world.server("GET", &path, &[], "").await)]
        }
        ("PUT", _) => {
            let known = [("if-match", "\"1\"")];
            let changes = r#"{"types":["*"],"enabled":false}"#;
            vec![
                ("Only what is sent changes.", world.server("PUT", &path, &known, changes).await),
                ("Nothing is sent, nothing changes.", world.server("PUT", &path, &[], "{}").await),
            ]
        }
        ("DELETE", _) => {
            vec![("The endpoint is gone.", world.server("DELETE", &path, &[], "").await)]
        }
        (_, "rotate-secret") => {
            let path = format!("{path}/rotate-secret");
            let at_once = r#"{"overlap_hours":0}"#;
            vec![
                ("Both secrets sign for a day.", post(&path, &[], "").await),
                ("The old ones end at once.", post(&path, &[], at_once).await),
            ]
        }
        (_, "ping") => {
            let path = format!("{path}/ping");
            let accepted = post(&path, &[], "").await;
            world.receiver.answers(DeliveryResult::TimedOut);
            vec![("It is accepted.", accepted), ("There is no answer.", post(&path, &[], "").await)]
        }
        (_, "rewind") => {
            world.plan("pro").await;
            let path = format!("{path}/rewind");
            let since = r#"{"since":"2025-01-31T00:00:00Z"}"#;
            vec![
                ("Events are skipped.", post(&path, &[], r#"{"to":1}"#).await),
                ("Events from a moment on are sent again.", post(&path, &[], since).await),
            ]
        }
        (_, "resend") => {
            let event = world.parked(&endpoint, "pro", "given_up").await;
            let path = format!("{path}/resend");
            let one = json!({ "sequence": event.sequence }).to_string();
            vec![
                ("One event is sent again.", post(&path, &[], &one).await),
                ("All are.", post(&path, &[], r#"{"all":true}"#).await),
            ]
        }
        (_, "parked") => {
            for (slug, state) in [("pro", "waiting"), ("team", "given_up")] {
                world.parked(&endpoint, slug, state).await;
            }
            super::endpoints::listed(world, &format!("{path}/parked?limit=1")).await
        }
        _ => return None,
    })
}

/// Writes tries, and the stall of an endpoint.
async fn tried(world: &HttpWorld, endpoint: &Value) {
    let now = at("2025-01-31T00:00:00Z");
    let next = at("2025-01-31T00:20:00Z");
    let id = text(&endpoint["id"]);
    rewrite(&*world.auth.store, "webhook_delivery", &id, |delivery| {
        delivery["stall"] =
            json!({ "since": now, "reason": "failing", "probes": 3, "next_at": next });
        delivery["failing_since"] = json!(now);
        delivery["recent"] = json!([
            { "at": now, "sequence": 2, "type": "plan.updated", "attempt": 4, "outcome": "timed_out", "duration_ms": 15_000 },
            { "at": now, "sequence": 1, "type": "plan.created", "attempt": 1, "outcome": "answered", "status": 204, "duration_ms": 8 },
        ]);
    })
    .await;
}

/// An answer of a code that only endpoints have; `None` if it is another one.
pub(super) async fn answer_of(world: &HttpWorld, code: &str) -> Option<Answer> {
    let endpoint = world.endpoint().await;
    let path = path_of(&endpoint);
    let post = async |path: &str, body: &str| world.server("POST", path, &[], body).await;
    Some(match code {
        "endpoint_limit" => {
            for _ in 1..100 {
                world.endpoint().await;
            }
            post(ENDPOINTS, &json!({ "url": URL }).to_string()).await
        }
        "rotation_in_progress" => {
            let path = format!("{path}/rotate-secret");
            post(&path, "").await;
            post(&path, r#"{"overlap_hours":1}"#).await
        }
        "key_missing" => {
            let (store, id) = (&*world.auth.store, text(&endpoint["id"]));
            rewrite(store, "webhook_endpoint", &id, |body| body["secret"]["key_id"] = json!(9))
                .await;
            post(&format!("{path}/ping"), "").await
        }
        "parked_full" => {
            for nth in 0..100 {
                world.parked(&endpoint, &format!("plan-{nth}"), "waiting").await;
            }
            let event = world.parked(&endpoint, "last", "given_up").await;
            let one = json!({ "sequence": event.sequence }).to_string();
            post(&format!("{path}/resend"), &one).await
        }
        _ => return None,
    })
}

#[tokio::test]
async fn the_routes_exist_only_where_webhooks_are_configured() {
    let world = HttpWorld::new().await;
    let path = path_of(&world.endpoint().await);
    let world = world.allowing(&[]);

    for path in [ENDPOINTS, &*path, &*format!("{path}/parked")] {
        for method in ["GET", "OPTIONS"] {
            let refused = world.server(method, path, &[], "").await;
            assert_eq!(refused.problem(), problem(404, "route_not_found"), "{method} {path}");
        }
    }
    let has = |parts: &[ApiPart]| openapi_json_for(&[], parts).contains(ENDPOINTS);
    assert!(has(&[ApiPart::Webhooks]) && !has(&[ApiPart::Billing, ApiPart::Clock]));
}

/// Attack W8; the matrix has all other callers.
#[tokio::test]
async fn events_of_users_are_for_clients_that_may_read_users() {
    let world = HttpWorld::new().await;
    let may = |scope| matches!(scope, Scope::WebhooksRead | Scope::WebhooksWrite);
    let client = world.client("hooks", ClientKind::Confidential, may).await;
    let call = |method: &'static str, path: String, body: Value| {
        let (world, client) = (&world, &client);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        async move { world.call(method, &path, &[("client-id", client)], body).await }
    };
    let users = json!({ "url": URL, "types": ["user.created"] });

    let refused = call("POST", ENDPOINTS.to_owned(), users.clone()).await;

    assert_eq!(refused.problem(), problem(403, "scope_missing"));
    let endpoint = world.made(ENDPOINTS, &users).await;
    let path = path_of(&endpoint);
    let moved = call("PUT", path.clone(), json!({ "url": "https://mine.example" })).await;
    assert_eq!(moved.problem(), problem(403, "scope_missing"));
    world.sign_up("ann").await;
    let event = world.auth.service.events(0, PageLimit::MAX).await.unwrap();
    let event = event.iter().find(|event| event.event.name() == "user.created").unwrap();
    park(&*world.auth.store, id_of(&endpoint), event, "waiting", None).await;
    let hidden = call("GET", format!("{path}/parked"), Value::Null).await.json();
    assert_eq!(hidden["data"][0]["event"], Value::Null);
    let shown = world.server("GET", &format!("{path}/parked"), &[], "").await.json();
    assert_eq!(shown["data"][0]["event"]["type"], "user.created");
    let public = world.call("GET", ENDPOINTS, &[("client-id", WEB)], "").await;
    assert_eq!(public.problem(), problem(403, "scope_missing"));
}

/// A delivery contains the whole record, so a client gets no more by an endpoint than by a request.
#[tokio::test]
async fn an_endpoint_sends_only_what_its_manager_may_read() {
    let world = HttpWorld::new().await;
    let cases = [
        ("plan.*", &[Scope::PlansRead][..]),
        ("subscription.status_changed.expired", &[Scope::SubscriptionsRead]),
        ("payment.created", &[Scope::PaymentsRead]),
        ("user.*", &[Scope::UsersRead]),
        ("*", &[Scope::PlansRead, Scope::SubscriptionsRead, Scope::PaymentsRead]),
    ];
    for (nth, (types, scopes)) in cases.into_iter().enumerate() {
        let body = json!({ "url": URL, "types": [types] });
        let endpoint = world.made(ENDPOINTS, &body).await;
        let path = path_of(&endpoint);
        for missing in scopes.iter().map(Some).chain([None]) {
            let may = |scope: Scope| {
                scope == Scope::WebhooksWrite
                    || (scopes.contains(&scope) && missing != Some(&scope))
            };
            let name = format!("hooks-{nth}-{}", missing.map_or("all", |it| it.as_str()));
            let client = world.client(&name.replace(':', "-"), ClientKind::Confidential, may).await;
            let call = async |method: &str, path: &str, body: &Value| {
                let body = if body.is_null() { String::new() } else { body.to_string() };
                world.call(method, path, &[("client-id", &client)], body).await
            };
            let tries = [
                ("POST", ENDPOINTS.to_owned(), body.clone(), 201),
                ("PUT", path.clone(), json!({ "url": "https://mine.example" }), 200),
                ("PUT", path.clone(), json!({ "enabled": false }), 200),
                ("PUT", path.clone(), json!({ "enabled": true }), 200),
                ("POST", format!("{path}/rotate-secret"), json!({ "overlap_hours": 0 }), 200),
                ("POST", format!("{path}/rewind"), json!({ "to": 0 }), 200),
                ("POST", format!("{path}/resend"), json!({ "all": true }), 202),
            ];
            for (method, path, body, status) in tries {
                let answer = call(method, &path, &body).await;
                let is_free = missing.is_none() || body == json!({ "enabled": false });
                if is_free {
                    assert_eq!(answer.status, status, "{types} {method} {path} {body}");
                } else {
                    assert_eq!(answer.problem(), problem(403, "scope_missing"), "{types} {path}");
                    let detail = text(&answer.json()["detail"]);
                    assert!(detail.contains(missing.unwrap().as_str()), "{detail}");
                }
            }
        }
    }
}

/// Attack W9: pings, rewinds and resends.
#[tokio::test]
async fn an_endpoint_is_pinged_rewound_and_resent_30_times_a_minute_together() {
    let world = limited(&RateLimits::production()).await;
    let (first, other) = (path_of(&world.endpoint().await), path_of(&world.endpoint().await));
    let verbs = [("ping", ""), ("rewind", r#"{"to":0}"#), ("resend", r#"{"all":true}"#)];
    let call = async |path: &str, nth: usize| {
        let (verb, body) = verbs[nth % 3];
        world.server("POST", &format!("{path}/{verb}"), &[], body).await
    };
    for nth in 0..30 {
        assert!(call(&first, nth).await.status < 300, "{nth}");
    }

    for nth in 0..3 {
        let refused = call(&first, nth).await;
        assert_eq!(refused.problem(), problem(429, "rate_limited"), "{nth}");
        assert_eq!(refused.header("retry-after"), Some("2"));
    }
    assert_eq!(world.receiver.sent().len(), 10);
    assert_eq!(call(&other, 0).await.status, 200);
    assert_eq!(world.server("GET", &first, &[], "").await.status, 200);
    world.auth.clock.advance(Duration::from_secs(2));
    assert_eq!(call(&first, 0).await.status, 200);
}

#[tokio::test]
async fn every_fault_of_a_body_is_told_at_once_over_http() {
    let world = HttpWorld::new().await;
    let path = path_of(&world.endpoint().await);
    let new = r#"{"url":"http://10.0.0.1","types":["session.*"],"description":1,"from":-1,"x":1}"#;
    let of_new = [
        "url not_allowed_value",
        "types[0] not_allowed_value",
        "description wrong_type",
        "from out_of_range",
        "x unknown_field",
    ];
    let changes = r#"{"url":7,"types":[],"description":"\u0007","enabled":"yes","from":0}"#;
    let of_changes = [
        "url wrong_type",
        "types too_short",
        "description control_character",
        "enabled wrong_type",
        "from unknown_field",
    ];
    let cases: [(&str, String, &str, &[&str]); 5] = [
        ("POST", ENDPOINTS.to_owned(), new, &of_new),
        ("PUT", path.clone(), changes, &of_changes),
        (
            "POST",
            format!("{path}/rotate-secret"),
            r#"{"overlap_hours":-1,"x":1}"#,
            &["overlap_hours out_of_range", "x unknown_field"],
        ),
        (
            "POST",
            format!("{path}/rewind"),
            r#"{"to":null,"since":1,"x":1}"#,
            &[
                "since not_allowed_value",
                "to null_not_allowed",
                "since wrong_type",
                "x unknown_field",
            ],
        ),
        (
            "POST",
            format!("{path}/resend"),
            r#"{"all":"yes","x":1}"#,
            &["all wrong_type", "x unknown_field"],
        ),
    ];

    for (method, path, body, expected) in cases {
        let refused = world.server(method, &path, &[], body).await;
        assert_eq!(refused.faults(), expected, "{method} {path}");
    }
}

#[tokio::test]
async fn a_secret_is_shown_at_creation_and_rotation_and_no_answer_is_stored_by_caches() {
    let world = HttpWorld::new().await;
    let created = world.server("POST", ENDPOINTS, &[], json!({ "url": URL }).to_string()).await;
    let path = path_of(&created.json());

    let rotated = world.server("POST", &format!("{path}/rotate-secret"), &[], "").await;
    let shown = world.server("GET", &path, &[("if-none-match", "\"2\"")], "").await;
    let listed = world.server("GET", ENDPOINTS, &[], "").await;

    assert!(text(&created.json()["secret"]).starts_with("whsec_"));
    assert_ne!(created.json()["secret"], rotated.json()["secret"]);
    assert_eq!((shown.status, shown.header("etag")), (200, Some("\"2\"")));
    for answer in [&created, &rotated, &shown, &listed] {
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer:?}");
    }
    for answer in [&shown, &listed] {
        assert!(!answer.text().contains("secret\"") && !answer.text().contains("whsec_"));
    }
}

#[tokio::test]
async fn a_change_is_made_if_the_version_matches() {
    let world = HttpWorld::new().await;
    let path = path_of(&world.endpoint().await);
    let put = async |tag: &str| {
        world.server("PUT", &path, &[("if-match", tag)], r#"{"description":"x"}"#).await
    };

    assert_eq!(put("\"2\"").await.problem(), problem(412, "precondition_failed"));
    assert_eq!(put("\"1\"").await.header("etag"), Some("\"2\""));
    let stale = world.server("DELETE", &path, &[("if-match", "\"1\"")], "").await;
    assert_eq!(stale.problem(), problem(412, "precondition_failed"));
    assert_eq!(world.server("DELETE", &path, &[("if-match", "\"2\"")], "").await.status, 204);
    assert_eq!(world.server("GET", &path, &[], "").await.problem(), problem(404, "not_found"));
}

#[tokio::test]
async fn a_place_in_the_feed_that_is_deleted_is_gone() {
    let world = HttpWorld::new().await;
    let path = path_of(&world.endpoint().await);
    for slug in ["a", "b"] {
        world.server("POST", "/subscription-plans", &[], plan_body(slug).to_string()).await;
    }
    world.auth.service.forget_events(1).await.unwrap();

    let body = json!({ "url": URL, "from": 0 }).to_string();
    let created = world.server("POST", ENDPOINTS, &[], body).await;
    let rewound = world.server("POST", &format!("{path}/rewind"), &[], r#"{"to":0}"#).await;

    for gone in [created, rewound] {
        assert_eq!(gone.problem(), problem(410, "events_forgotten"));
        assert!(text(&gone.json()["detail"]).contains("all from 2 on are stored"), "{gone:?}");
    }
}

#[tokio::test]
async fn a_key_of_another_request_is_refused() {
    let world = HttpWorld::new().await;
    let post = async |body: &str| world.server("POST", ENDPOINTS, &KEY, body).await;
    let first = post(r#"{"url":"https://a.example"}"#).await;

    let again = post(r#"{"url":"https://a.example/","types":["*"]}"#).await;
    let other = post(r#"{"url":"https://b.example"}"#).await;

    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.json(), first.json());
    assert_eq!(other.problem(), problem(422, "idempotency_key_reused"));
}

#[tokio::test]
async fn the_sending_job_is_woken_by_every_change() {
    let world = HttpWorld::new().await;
    let woken = async || {
        tokio::select! {
            biased;
            () = world.webhook_signal.wait() => true,
            () = std::future::ready(()) => false,
        }
    };
    let endpoint = world.endpoint().await;
    let path = path_of(&endpoint);
    assert!(woken().await && !woken().await);

    for (method, end, body) in [
        ("PUT", "", r#"{"enabled":false}"#),
        ("POST", "/rotate-secret", "{}"),
        ("POST", "/ping", ""),
        ("POST", "/rewind", r#"{"to":0}"#),
        ("POST", "/resend", r#"{"all":true}"#),
        ("DELETE", "", ""),
    ] {
        let answer = world.server(method, &format!("{path}{end}"), &[], body).await;
        assert!(answer.status < 300, "{method} {end}: {answer:?}");
        assert!(woken().await, "{method} {end}");
    }
    world.server("GET", ENDPOINTS, &[], "").await;
    assert!(!woken().await);
}
