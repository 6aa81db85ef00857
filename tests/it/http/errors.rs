//! Every code of the contract, and what problems tell, above all those that are ours to mend.

use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use subscription_core::ManagedBy;
use subscription_http::{Quota, RateLimits};

use super::documented::DOCUMENT;
use super::failing_store::{
    DAMAGED, HANGS, KEY_RACES, Never, PANICS, RECORD_RACES, UNAVAILABLE, failing_store,
    without_provider,
};
use super::plan_changes::Shop;
use super::rates::limited;
use super::snapshots::{Snapshots, exchange};
use super::world::{Answer, HttpWorld, WEB, path_of, plan_body, problem, text};

/// The codes of the contract.
pub(super) const CODES: [(u16, &str); 64] = [
    (400, "malformed_json"),
    (400, "header_invalid"),
    (400, "host_invalid"),
    (400, "path_invalid"),
    (400, "invalid_query"),
    (400, "invalid_cursor"),
    (400, "idempotency_key_invalid"),
    (400, "signature_invalid"),
    (401, "client_id_missing"),
    (401, "client_unknown"),
    (401, "token_missing"),
    (401, "token_invalid"),
    (401, "token_expired"),
    (401, "session_revoked"),
    (401, "session_expired"),
    (401, "identity_rejected"),
    (401, "refresh_token_invalid"),
    (401, "refresh_token_reused"),
    (403, "scope_missing"),
    (403, "email_mismatch"),
    (403, "email_not_verified"),
    (403, "auth_id_mismatch"),
    (404, "route_not_found"),
    (404, "not_found"),
    (404, "account_not_found"),
    (405, "method_not_allowed"),
    (408, "request_timeout"),
    (409, "account_exists"),
    (409, "email_in_use"),
    (409, "account_closing"),
    (409, "slug_taken"),
    (409, "external_id_taken"),
    (409, "plan_in_use"),
    (409, "plan_inactive"),
    (409, "invalid_transition"),
    (409, "payment_settled"),
    (409, "managed_by_clock"),
    (409, "managed_by_provider"),
    (409, "managed_by_caller"),
    (409, "already_subscribed"),
    (409, "payment_open"),
    (409, "payment_of_period"),
    (409, "change_scheduled"),
    (409, "discount_exists"),
    (409, "currency_mismatch"),
    (409, "quote_changed"),
    (409, "customer_conflict"),
    (409, "endpoint_limit"),
    (409, "rotation_in_progress"),
    (409, "key_missing"),
    (409, "parked_full"),
    (409, "idempotency_in_progress"),
    (410, "events_forgotten"),
    (412, "precondition_failed"),
    (413, "body_too_large"),
    (414, "uri_too_long"),
    (415, "media_type_unsupported"),
    (422, "validation_failed"),
    (422, "idempotency_key_reused"),
    (429, "rate_limited"),
    (500, "internal"),
    (503, "store_unavailable"),
    (503, "identity_provider_unavailable"),
    (503, "overloaded"),
];

const PLANS: &str = "/subscription-plans";
const WEB_ONLY: [(&str, &str); 1] = [("client-id", WEB)];

/// An answer of this code; `None` if there is no case for it.
#[expect(clippy::too_many_lines, reason = "an arm for each code")]
async fn answer_of(code: &str) -> Option<Answer> {
    let world = HttpWorld::new().await;
    let plan = plan_body("pro").to_string();
    let key = [("idempotency-key", "k")];
    Some(match code {
        "events_forgotten" => {
            world.server("POST", PLANS, &[], plan).await;
            world.auth.service.forget_events(u64::MAX).await.unwrap();
            world.server("GET", "/events?after=0", &[], "").await
        }
        "malformed_json" => world.server("POST", PLANS, &[], "{").await,
        "header_invalid" => world.server("GET", PLANS, &[("client-id", "x")], "").await,
        "host_invalid" => world.server("GET", PLANS, &[("host", "")], "").await,
        "path_invalid" => world.server("GET", "/%2e%2e", &[], "").await,
        "invalid_query" => world.server("GET", "/subscriptions?x=1", &[], "").await,
        "invalid_cursor" => world.server("GET", "/subscriptions?cursor=x", &[], "").await,
        "idempotency_key_invalid" => {
            world.server("POST", PLANS, &[("idempotency-key", "")], plan).await
        }
        "client_id_missing" => world.call("GET", PLANS, &[], "").await,
        "client_unknown" => world.call("GET", PLANS, &[("client-id", "x")], "").await,
        "scope_missing" => world.call("POST", PLANS, &WEB_ONLY, plan).await,
        "route_not_found" => world.server("GET", "/x", &[], "").await,
        "not_found" => world.server("GET", "/subscriptions/x", &[], "").await,
        "method_not_allowed" => world.server("PATCH", PLANS, &[], "").await,
        "request_timeout" => without_body().await,
        "body_too_large" => world.server("POST", PLANS, &[], " ".repeat(65_537)).await,
        "uri_too_long" => world.server("GET", &format!("/{}", "a".repeat(8_192)), &[], "").await,
        "media_type_unsupported" => {
            world.server("POST", PLANS, &[("content-type", "text/plain")], plan).await
        }
        "validation_failed" => {
            let body = r#"{"slug":"Pro!","price":-1,"billing_cycle":"often","tier":"1","x":null}"#;
            world.server("POST", PLANS, &[], body).await
        }
        "slug_taken" | "idempotency_key_reused" | "precondition_failed" => {
            world.server("POST", PLANS, &key, plan.clone()).await;
            match code {
                "slug_taken" => world.server("POST", PLANS, &[], plan).await,
                "precondition_failed" => {
                    let stale = [("if-match", "\"1\"")];
                    world.server("PUT", "/subscription-plans/pro", &[], r#"{"tier":1}"#).await;
                    world.server("DELETE", "/subscription-plans/pro", &stale, "").await
                }
                _ => world.server("POST", PLANS, &key, plan_body("x").to_string()).await,
            }
        }
        "internal" => in_mood(DAMAGED).await,
        "store_unavailable" => in_mood(UNAVAILABLE).await,
        "overloaded" => in_mood(HANGS).await,
        "idempotency_in_progress" => in_mood(KEY_RACES).await,
        "rate_limited" => rate_limited().await,
        "identity_provider_unavailable" => {
            let world = without_provider().await;
            let body = world.proof("ann", |_| {});
            world.call("POST", "/authentication/sign-in", &WEB_ONLY, body).await
        }
        "external_id_taken" | "plan_in_use" | "plan_inactive" | "invalid_transition"
        | "payment_settled" => about_records(&world, code).await,
        "managed_by_clock"
        | "managed_by_provider"
        | "managed_by_caller"
        | "payment_open"
        | "payment_of_period" => about_billing(&world, code).await,
        "change_scheduled" | "discount_exists" | "currency_mismatch" | "quote_changed" => {
            about_plan_changes(code).await
        }
        "endpoint_limit" | "rotation_in_progress" | "key_missing" | "parked_full" => {
            return super::webhooks::answer_of(&world, code).await;
        }
        "signature_invalid" => {
            let unsigned = [("stripe-signature", "t=1738281600,v1=00")];
            world.call("POST", "/provider-webhooks/stripe", &unsigned, "{}").await
        }
        "customer_conflict" => {
            let bind = async |name| {
                let user = world.sign_up(name).await.id;
                let body = json!({ "source": "stripe", "customer": "cus_1", "user_id": user });
                world.server("POST", "/provider-links", &[], body.to_string()).await
            };
            bind("ann").await;
            bind("ben").await
        }
        "already_subscribed" => {
            let held = world.subscription("ann", &json!({})).await;
            let world = world.with_one_live();
            let body = json!({
                "user_id": held["user_id"], "subscription_plan_id": held["subscription_plan_id"],
            });
            world.server("POST", "/subscriptions", &[], body.to_string()).await
        }
        _ => return about_people(&world, code).await,
    })
}

async fn about_records(world: &HttpWorld, code: &str) -> Answer {
    let settled = json!({ "status": "refunded", "external_payment_id": "p" });
    let payment = world.payment("ann", &settled).await;
    let path = format!("/subscription-payments/{}", text(&payment["id"]));
    let subscription = format!("/subscriptions/{}", text(&payment["subscription_id"]));
    match code {
        "invalid_transition" => {
            world.server("PUT", &subscription, &[], r#"{"status":"pending"}"#).await
        }
        "payment_settled" => world.server("PUT", &path, &[], r#"{"amount":1}"#).await,
        "plan_in_use" => world.server("DELETE", "/subscription-plans/of-ann", &[], "").await,
        "plan_inactive" => {
            let made = world.server("GET", &subscription, &[], "").await.json();
            let plan = "/subscription-plans/of-ann";
            world.server("PUT", plan, &[], r#"{"is_active":false}"#).await;
            let body = json!({
                "user_id": made["user_id"], "subscription_plan_id": made["subscription_plan_id"],
            });
            world.server("POST", "/subscriptions", &[], body.to_string()).await
        }
        _ => {
            let mut body = super::world::payment_body(&json!({ "id": payment["subscription_id"] }));
            body["external_payment_id"] = json!("p");
            world.server("POST", "/subscription-payments", &[], body.to_string()).await
        }
    }
}

async fn about_billing(world: &HttpWorld, code: &str) -> Answer {
    let held = world.on_clock("ann", &json!({})).await;
    let path = path_of(&held);
    let post = async |verb: &str, body: &str| {
        world.server("POST", &format!("{path}/{verb}"), &[], body).await
    };
    match code {
        "managed_by_clock" => {
            world.server("PUT", &path, &[], r#"{"status":"paused","quantity":2}"#).await
        }
        "managed_by_provider" => {
            world.rewrite(&held, |held| held.managed_by = ManagedBy::Provider).await;
            post("cancel", "").await
        }
        "managed_by_caller" => {
            world.server("PUT", &path, &[], r#"{"managed_by":"caller"}"#).await;
            post("pause", r#"{"effective":"period_end"}"#).await
        }
        "payment_open" => {
            world.report(&held, "failed").await;
            post("cancel", r#"{"effective":"period_end"}"#).await;
            post("resume", "").await
        }
        _ => {
            let mut body = super::world::payment_body(&held);
            body["kind"] = json!("initial");
            body["period_start"] = held["starts_at"].clone();
            world.server("POST", "/subscription-payments", &[], body.to_string()).await
        }
    }
}

async fn about_plan_changes(code: &str) -> Answer {
    let shop = Shop::new().await;
    let post = async |body: Value| shop.post("change-plan", &[], &body.to_string()).await;
    match code {
        "change_scheduled" => {
            post(json!({ "quantity": 2, "effective": "period_end" })).await;
            post(shop.to_pro(&json!({}))).await
        }
        "discount_exists" => {
            let half = r#"{"percent":50,"periods":3}"#;
            shop.post("discount", &[], half).await;
            shop.post("discount", &[], half).await
        }
        "currency_mismatch" => {
            let body = json!({ "currency": "EUR" });
            let plan = super::plan_changes::plan(&shop.world, "euros", "25", &body).await;
            post(json!({ "subscription_plan_id": plan["id"] })).await
        }
        _ => {
            let body = r#"{"price":"29.94"}"#;
            shop.world.server("PUT", "/subscription-plans/pro", &[], body).await;
            post(shop.to_pro(&json!({ "at": "2026-04-11T00:00:00Z", "amount_due": "13.33" }))).await
        }
    }
}

async fn about_people(world: &HttpWorld, code: &str) -> Option<Answer> {
    let ann = world.sign_up("ann").await;
    let other = |claims: &mut Value| claims["sub"] = json!("other");
    let email = |claims: &mut Value| claims["email"] = json!("other@example.com");
    let unverified = |claims: &mut Value| claims["email_verified"] = json!(false);
    let enter = |path: &'static str, body: String| world.call("POST", path, &WEB_ONLY, body);
    let (up, back) = ("/authentication/sign-up", "/authentication/sign-in");
    let tokens = "/authentication/tokens";
    let refresh = |token: &str| {
        let body = json!({ "refresh_token": token }).to_string();
        enter("/authentication/refresh-token", body)
    };
    Some(match code {
        "identity_rejected" => {
            enter(back, r#"{"access_token":"x","email":"a@b.example"}"#.into()).await
        }
        "account_not_found" => enter(back, world.proof("ben", |_| {})).await,
        "account_exists" => enter(up, world.proof("ann", |_| {})).await,
        "email_in_use" => enter(up, world.proof("ann", other)).await,
        "account_closing" => {
            world.auth.close(ann.id.parse().unwrap()).await;
            enter(back, world.proof("ann", |_| {})).await
        }
        "email_mismatch" => enter(back, world.proof("ann", email)).await,
        "email_not_verified" => enter(back, world.proof("ann", unverified)).await,
        "auth_id_mismatch" => {
            world.person("DELETE", "/authentication/delete-my-account/x", &ann.bearer).await
        }
        "token_missing" => world.call("GET", tokens, &WEB_ONLY, "").await,
        "token_invalid" => world.person("GET", tokens, "Bearer x").await,
        "token_expired" => {
            world.auth.clock.advance(Duration::from_mins(11));
            world.person("GET", tokens, &ann.bearer).await
        }
        "session_revoked" => {
            world.person("POST", "/authentication/tokens/logout", &ann.bearer).await;
            world.person("GET", tokens, &ann.bearer).await
        }
        "session_expired" => {
            world.auth.clock.advance(Duration::from_hours(15 * 24));
            refresh(&ann.refresh_token).await
        }
        "refresh_token_invalid" => refresh("srt_x").await,
        "refresh_token_reused" => {
            let next = text(&refresh(&ann.refresh_token).await.json()["refresh_token"]);
            refresh(&next).await;
            refresh(&ann.refresh_token).await
        }
        _ => return None,
    })
}

/// The answer to making a plan while the store fails.
async fn in_mood(mood: u8) -> Answer {
    let (world, store) = failing_store().await;
    store.spy.turn(mood);
    let headers = [("idempotency-key", "k"), ("x-request-id", "mine")];
    let plan = plan_body("pro").to_string();
    let answer = world.server("POST", PLANS, &headers, plan);
    tokio::time::timeout(Duration::from_mins(1), answer).await.unwrap()
}

/// The answer to a request whose body never comes.
async fn without_body() -> Answer {
    let (world, _) = failing_store().await;
    let request = Request::post(PLANS)
        .header("host", "localhost")
        .header("client-id", &world.server)
        .header("content-type", "application/json");
    let mut answer = world.send(request.body(Never).unwrap(), None).await;
    answer.sent.body = "(it never comes)".into();
    answer
}

/// The answer to the second sign-in where one in ten seconds is allowed.
async fn rate_limited() -> Answer {
    let sign_in = Some(Quota::new(1, Duration::from_secs(10)));
    let world = limited(&RateLimits::NONE.with_sign_in(sign_in)).await;
    world.call("POST", "/authentication/sign-in", &WEB_ONLY, "{}").await;
    world.call("POST", "/authentication/sign-in", &WEB_ONLY, "{}").await
}

#[tokio::test]
async fn every_code_of_the_contract_has_its_status() {
    for (status, code) in CODES {
        let answer = answer_of(code).await.unwrap_or_else(|| panic!("no case for {code}"));

        assert_eq!(answer.problem(), problem(status, code));
        let told = answer.text();
        assert!(!told.contains("hunter2") && !told.contains("10.0.0.7"), "{told}");
        let order = ["type", "title", "status", "detail", "code", "request_id"];
        let places = order.map(|name| told.find(&format!("\"{name}\":")).unwrap());
        assert!(places.is_sorted(), "{told}");
        let retry = match status {
            429 => Some("10"),
            503 => Some("1"),
            _ => None,
        };
        assert_eq!(answer.header("retry-after"), retry, "{code}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{code}");
        assert_eq!(answer.header("www-authenticate"), challenge(status, code), "{code}");
    }
}

/// The challenge of a 401: a token on the routes that need one, else the client.
fn challenge(status: u16, code: &str) -> Option<&'static str> {
    let by_refresh = ["session_expired"].contains(&code);
    match code {
        _ if status != 401 => None,
        _ if by_refresh => Some("ClientId realm=\"subscription\""),
        _ if code.starts_with("token_") || code.starts_with("session_") => {
            Some("Bearer error=\"invalid_token\"")
        }
        _ => Some("ClientId realm=\"subscription\""),
    }
}

#[tokio::test]
async fn every_code_is_told_as_its_snapshot_has_it() {
    let meanings = DOCUMENT["x-codes"].as_array().unwrap();
    let mut snapshots = Snapshots::of("errors");
    for (status, code) in CODES {
        let row = meanings.iter().find(|row| row["code"] == code).unwrap();
        let answer = answer_of(code).await.unwrap_or_else(|| panic!("no case for {code}"));

        assert_eq!(answer.problem(), problem(status, code));
        snapshots.check(code, &exchange(&text(&row["meaning"]), &answer));
    }
    snapshots.all_hold();
}

#[tokio::test]
async fn a_problem_is_written_as_the_contract_has_it() {
    let world = HttpWorld::new().await;

    let body = r#"{"slug":"pro","price":1,"billing_cycle":"monthly","x":1}"#;
    let refused = world.server("POST", PLANS, &[("x-request-id", "r-1")], body).await;

    let expected = r#"{"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"invalid input: name is required; x is not a field of this input","code":"validation_failed","request_id":"r-1","errors":[{"field":"name","code":"required","message":"is required"},{"field":"x","code":"unknown_field","message":"is not a field of this input"}]}"#;
    assert_eq!(refused.text(), expected);
}

#[tokio::test]
async fn what_is_ours_to_mend_tells_the_request_and_nothing_else() {
    for (mood, status, title, code, detail) in [
        (
            UNAVAILABLE,
            503,
            "Service Unavailable",
            "store_unavailable",
            "the request failed; try again later",
        ),
        (DAMAGED, 500, "Internal Server Error", "internal", "the request failed; try again later"),
        (PANICS, 500, "Internal Server Error", "internal", "the request failed"),
        (
            RECORD_RACES,
            503,
            "Service Unavailable",
            "overloaded",
            "the request failed; try again later",
        ),
        (HANGS, 503, "Service Unavailable", "overloaded", "the server took too long; try again"),
    ] {
        let answer = in_mood(mood).await;

        let expected = json!({
            "type": "about:blank", "title": title, "status": status, "detail": detail,
            "code": code, "request_id": "mine",
        });
        assert_eq!(answer.json(), expected, "{mood}");
        assert_eq!(answer.header("x-request-id"), Some("mine"), "{mood}");
        assert_eq!(answer.header("retry-after"), (status == 503).then_some("1"), "{mood}");
    }
}

#[tokio::test]
async fn a_store_that_is_away_is_not_ready_but_the_process_lives() {
    let (world, store) = failing_store().await;
    store.spy.turn(UNAVAILABLE);

    let ready = world.call("GET", "/health/ready", &[], "").await;
    assert_eq!(ready.problem(), problem(503, "store_unavailable"));
    assert_eq!(world.call("GET", "/health/live", &[], "").await.status, 200);

    store.spy.turn(0);
    world.auth.clock.advance(Duration::from_secs(1));
    assert_eq!(world.call("GET", "/health/ready", &[], "").await.status, 200);
}

#[tokio::test]
async fn a_store_is_asked_whether_it_is_ready_once_a_second_at_the_most() {
    let (world, store) = failing_store().await;
    let ready = async || world.call("GET", "/health/ready", &[], "").await.status;
    let second = || world.auth.clock.advance(Duration::from_secs(1));
    assert_eq!(ready().await, 200);

    store.spy.turn(UNAVAILABLE);
    world.auth.clock.advance(Duration::from_millis(999));
    assert_eq!(ready().await, 200);
    second();
    assert_eq!(ready().await, 503);

    store.spy.turn(0);
    assert_eq!(ready().await, 503);
    second();
    assert_eq!(ready().await, 200);
}
