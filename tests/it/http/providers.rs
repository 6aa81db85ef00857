//! Payment providers over HTTP: webhooks with every fault, and the list of their events.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::Request;
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::Sha256;
use subscription_core::SubscriptionService;
use subscription_core::providers::{
    ApiFailed, ApiPage, ObjectId, ObjectKind, ObjectList, ProviderAccount, ProviderApi,
    ProviderKind, Providers,
};
use subscription_http::RateLimits;
use test_support::service_world::of;

use super::endpoints::Shown;
use super::failing_store::{HANGS, Never, UNAVAILABLE, failing_store};
use super::rates::limited;
use super::world::{Answer, HttpWorld, plan_body, problem, text};

const SECRET: &str = "whsec_0123456789abcdef";

/// The subscription that the provider has.
pub(super) const SUBSCRIPTION: &str = "sub_1";

const WEBHOOK: &str = "/provider-webhooks/stripe";

/// The time of the worlds, in seconds since 1970.
const NOW: u64 = 1_738_281_600;

/// A provider with one subscription.
#[derive(Debug)]
struct OneSubscription;

#[async_trait]
impl ProviderApi for OneSubscription {
    async fn object(&self, kind: ObjectKind, id: &ObjectId) -> Result<Option<Value>, ApiFailed> {
        let is_known = kind == ObjectKind::Subscription && id.as_str() == SUBSCRIPTION;
        Ok(is_known.then(|| {
            let price = json!({
                "id": "price_1", "product": "prod_1", "unit_amount": 1999, "currency": "usd",
                "recurring": { "interval": "month", "interval_count": 1 },
            });
            json!({
                "id": SUBSCRIPTION, "livemode": false, "customer": "cus_1", "metadata": {},
                "status": "active", "start_date": NOW, "created": NOW,
                "cancel_at_period_end": false, "cancel_at": null, "pause_collection": null,
                "items": { "data": [{
                    "price": price, "quantity": 2,
                    "current_period_start": NOW, "current_period_end": NOW + 28 * 86_400,
                }] },
            })
        }))
    }

    async fn page(&self, _: &ObjectList, _: Option<&str>) -> Result<ApiPage, ApiFailed> {
        Ok(ApiPage::default())
    }
}

/// Two sources: `stripe`, which has one subscription, and `lemons`, which has none.
pub(super) fn providers_of(service: &SubscriptionService) -> Providers {
    let source = |name, kind, secret: &str| {
        ProviderAccount::new(
            of(name),
            kind,
            vec![SecretString::from(secret)],
            Arc::new(OneSubscription),
        )
    };
    let stripe = source("stripe", ProviderKind::Stripe, SECRET);
    let lemons = source("lemons", ProviderKind::LemonSqueezy, "a_secret_of_the_lemons");
    Providers::new(service.clone(), vec![stripe, lemons])
}

/// The body of an event about a subscription.
pub(super) fn event(id: &str, subscription: &str) -> String {
    json!({
        "id": id, "livemode": false, "type": "customer.subscription.updated",
        "data": { "object": { "id": subscription } },
    })
    .to_string()
}

/// The signature of a body at the time of the worlds.
pub(super) fn signature(body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{NOW}.{body}").as_bytes());
    let mac = mac.finalize().into_bytes();
    mac.iter().fold(format!("t={NOW},v1="), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

impl HttpWorld {
    /// Sends a webhook that Stripe signed.
    pub(super) async fn webhook(&self, body: &str) -> Answer {
        let signature = signature(body);
        self.call("POST", WEBHOOK, &[("stripe-signature", &signature)], body).await
    }

    /// The state and reason of every event.
    async fn states(&self) -> Vec<String> {
        let events = self.server("GET", "/provider-events", &[], "").await.json();
        let events = events["data"].as_array().unwrap().clone();
        let shown = |event: &Value| format!("{} {}", text(&event["state"]), event["reason"]);
        let mut states: Vec<_> = events.iter().map(shown).collect();
        states.sort();
        states
    }

    pub(super) async fn sync(&self, body: &Value) -> Answer {
        self.server("POST", "/provider-syncs", &[], body.to_string()).await
    }

    pub(super) async fn link(&self, body: &Value) -> Answer {
        self.server("POST", "/provider-links", &[], body.to_string()).await
    }
}

/// The plan that the provider sells.
pub(super) async fn sold(world: &HttpWorld) {
    let mut plan = plan_body("pro");
    plan["variants"] = json!(["price_1"]);
    world.made("/subscription-plans", &plan).await;
}

/// The answers of each endpoint, for their snapshots.
pub(super) async fn shown(world: &HttpWorld, route: &str) -> Shown {
    sold(world).await;
    let ann = world.sign_up("ann").await.id;
    let taken = world.webhook(&event("evt_1", SUBSCRIPTION)).await;
    let events = world.server("GET", "/provider-events", &[], "").await;
    let path = format!("/provider-events/{}", text(&events.json()["data"][0]["id"]));
    let get = |path: &'static str| world.server("GET", path, &[], "");
    match route {
        "POST /provider-webhooks/{source}" => vec![
            ("The event is stored.", taken),
            ("It was stored before.", world.webhook(&event("evt_1", SUBSCRIPTION)).await),
        ],
        "GET /providers" => vec![("Two providers.", get("/providers").await)],
        "GET /provider-events" => vec![
            ("An event that is to be applied.", events),
            ("None that waits.", get("/provider-events?state=waiting").await),
        ],
        "GET /provider-events/{event_id}" => {
            vec![("The event.", world.server("GET", &path, &[], "").await)]
        }
        "POST /provider-events/{event_id}/replay" => {
            let path = format!("{path}/replay");
            vec![("Nobody knows the customer.", world.server("POST", &path, &[], "").await)]
        }
        "GET /provider-links" => {
            let body = json!({ "source": "stripe", "customer": "cus_1", "user_id": ann });
            world.link(&body).await;
            world.sync(&json!({ "source": "stripe", "subscription": SUBSCRIPTION })).await;
            vec![
                ("A customer and a subscription.", get("/provider-links").await),
                ("None of the other provider.", get("/provider-links?source=lemons").await),
            ]
        }
        "POST /provider-links" => {
            let body = json!({ "source": "stripe", "customer": "cus_1", "user_id": ann });
            vec![("The customer is bound to a user.", world.link(&body).await)]
        }
        _ => {
            let one = json!({ "source": "stripe", "subscription": SUBSCRIPTION });
            let waits = world.sync(&one).await;
            let mut of_ann = one.clone();
            of_ann["user_id"] = json!(ann);
            vec![
                ("Nobody knows the customer.", waits),
                ("The caller says whose it is.", world.sync(&of_ann).await),
                ("All objects.", world.sync(&json!({ "source": "stripe" })).await),
            ]
        }
    }
}

#[tokio::test]
async fn a_webhook_is_stored_once_whatever_else_it_carries() {
    let world = HttpWorld::new().await;
    let body = event("evt_1", SUBSCRIPTION);
    let signed = signature(&body);
    for headers in [
        vec![("stripe-signature", &*signed)],
        vec![("stripe-signature", &*signed), ("content-type", "text/plain")],
        vec![("stripe-signature", &*signed), ("client-id", "nobody")],
        vec![("stripe-signature", &*signed), ("content-encoding", "gzip")],
    ] {
        let taken = world.call("POST", WEBHOOK, &headers, body.clone()).await;
        assert_eq!((taken.status, taken.json()), (200, json!({ "received": true })), "{headers:?}");
    }
    assert_eq!(world.states().await, ["pending null"]);
}

#[tokio::test]
async fn a_webhook_that_nobody_signed_gets_one_answer_for_all_faults_and_is_not_stored() {
    let world = HttpWorld::new().await;
    let (body, other) = (event("evt_1", SUBSCRIPTION), event("evt_2", SUBSCRIPTION));
    let good = signature(&body);
    let mut answers = Vec::new();
    for headers in [
        vec![],
        vec![("stripe-signature", "")],
        vec![("stripe-signature", "t=1738281600,v0=00")],
        vec![("stripe-signature", &*good), ("stripe-signature", &*good)],
        vec![("x-signature", &*good)],
        vec![("stripe-signature", &*signature(&other))],
    ] {
        let mut headers: Vec<_> = headers;
        headers.push(("x-request-id", "same"));
        let refused = world.call("POST", WEBHOOK, &headers, body.clone()).await;
        assert_eq!(refused.problem(), problem(400, "signature_invalid"), "{headers:?}");
        answers.push(refused.text().to_owned());
    }
    world.auth.clock.advance(Duration::from_secs(301));
    assert_eq!(world.webhook(&body).await.problem(), problem(400, "signature_invalid"));
    answers.dedup();
    assert_eq!(answers.len(), 1);
    assert_eq!(world.states().await, Vec::<String>::new());
}

#[tokio::test]
async fn what_a_signed_webhook_says_never_gets_an_error() {
    let world = HttpWorld::new().await;
    let live = event("evt_2", SUBSCRIPTION).replace("false", "true");
    for body in ["", "[", "{}", r#"{"type":"invoice.paid"}"#, r#"{"type":"x.y"}"#, &*live] {
        let taken = world.webhook(body).await;
        assert_eq!(taken.status, 200, "{body}: {taken:?}");
    }
    let states = world.states().await;
    assert!(states.contains(&r#"ignored "other_mode""#.to_owned()), "{states:?}");
    assert!(states.contains(&r#"failed "unreadable""#.to_owned()), "{states:?}");
}

#[tokio::test]
async fn a_webhook_leads_to_its_source_alone_without_a_query_and_by_post() {
    let world = HttpWorld::new().await;
    for path in ["/provider-webhooks/paypal", "/provider-webhooks/%20stripe", "/provider-webhooks/"]
    {
        let refused = world.call("POST", path, &[], "{}").await;
        assert_eq!(refused.problem(), problem(404, "route_not_found"), "{path}");
    }
    let refused = world.call("POST", &format!("{WEBHOOK}?x=1"), &[], "{}").await;
    assert_eq!(refused.problem(), problem(400, "invalid_query"));
    let refused = world.call("GET", WEBHOOK, &[], "").await;
    assert_eq!(refused.problem(), problem(405, "method_not_allowed"));
    assert_eq!(refused.header("allow"), Some("POST, OPTIONS"));
}

#[tokio::test]
async fn a_webhook_has_a_mebibyte_and_not_a_byte_more() {
    let world = HttpWorld::new().await;
    let most = " ".repeat(1_048_576);
    assert_eq!(world.webhook(&most).await.status, 200);

    let refused = world.webhook(&format!("{most} ")).await;

    assert_eq!(refused.problem(), problem(413, "body_too_large"));
    assert_eq!(text(&refused.json()["detail"]), "a body has at most 1,048,576 bytes");
}

#[tokio::test]
async fn an_address_sends_five_hundred_webhooks_at_once_and_then_waits_five_seconds() {
    let world = limited(&RateLimits::production()).await;
    let send = |peer: &'static str| world.call_from(peer, "POST", WEBHOOK, &[], "{}");
    for nth in 0..500 {
        assert_eq!(send("203.0.113.7").await.status, 400, "{nth}");
    }

    let refused = send("203.0.113.7").await;

    assert_eq!(refused.problem(), problem(429, "rate_limited"));
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(send("203.0.113.8").await.status, 400);
    world.auth.clock.advance(Duration::from_secs(1));
    for nth in 0..100 {
        assert_eq!(send("203.0.113.7").await.status, 400, "{nth}");
    }
    assert_eq!(send("203.0.113.7").await.status, 429);
}

#[tokio::test]
async fn thirty_two_large_webhooks_arrive_at_once_and_small_ones_beside_them() {
    let world = HttpWorld::new().await;
    let large = || {
        let request = Request::post(WEBHOOK).header("host", "localhost").body(Never).unwrap();
        world.api.answer(request, None)
    };
    let arriving: Vec<_> = (0..32).map(|_| tokio::spawn(large())).collect();
    // Each runs until it waits for its body.
    tokio::task::yield_now().await;

    let refused = large().await;

    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(world.webhook(&event("evt_1", SUBSCRIPTION)).await.status, 200);
    for one in arriving {
        assert!(!one.is_finished());
        one.abort();
        assert!(one.await.unwrap_err().is_cancelled());
    }
    let next = tokio::spawn(large());
    tokio::task::yield_now().await;
    assert!(!next.is_finished());
}

#[tokio::test]
async fn a_webhook_that_cannot_be_stored_is_to_be_sent_again() {
    let (world, store) = failing_store().await;
    for (mood, code) in [(UNAVAILABLE, "store_unavailable"), (HANGS, "overloaded")] {
        store.spy.turn(mood);
        let refused = world.webhook(&event("evt_1", SUBSCRIPTION)).await;
        assert_eq!(refused.problem(), problem(503, code));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    let never = Request::post(WEBHOOK).header("host", "localhost").body(Never).unwrap();
    let slow = world.send(never, None).await;
    assert_eq!(slow.problem(), problem(408, "request_timeout"));
}

#[tokio::test]
async fn events_are_listed_by_each_filter_and_page_by_page() {
    let world = HttpWorld::new().await;
    for nth in 0..3 {
        world.webhook(&event(&format!("evt_{nth}"), SUBSCRIPTION)).await;
    }
    world.webhook(&event("evt_live", "sub_2").replace("false", "true")).await;
    for (query, count) in [
        ("", 4),
        ("source=stripe", 4),
        ("source=lemons", 0),
        ("state=pending", 3),
        ("state=ignored&reason=other_mode", 1),
        ("reason=unreadable", 0),
        ("object=sub_1", 3),
        ("object=sub_2&state=ignored", 1),
    ] {
        let page = world.server("GET", &format!("/provider-events?{query}"), &[], "").await.json();
        assert_eq!(page["data"].as_array().unwrap().len(), count, "{query}: {page}");
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/provider-events?state=pending&limit=1{cursor}");
        let page = world.server("GET", &path, &[], "").await.json();
        seen.extend(page["data"].as_array().unwrap().iter().map(|event| text(&event["id"])));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
        let other =
            world.server("GET", &format!("/provider-events?limit=1{cursor}"), &[], "").await;
        assert_eq!(other.problem(), problem(400, "invalid_cursor"));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3);
    for query in [
        "source=My%20Shop",
        "state=done",
        "reason=x",
        "object=a%2Fb",
        "x=1",
        "state=same&state=same",
    ] {
        let refused = world.server("GET", &format!("/provider-events?{query}"), &[], "").await;
        assert_eq!(refused.problem(), problem(400, "invalid_query"), "{query}");
    }
    for path in ["/provider-events/x", "/provider-events/01940000-0000-7000-8000-000000000000"] {
        let missing = world.server("GET", path, &[], "").await;
        assert_eq!(missing.problem(), problem(404, "not_found"), "{path}");
        let missing = world.server("POST", &format!("{path}/replay"), &[], "").await;
        assert_eq!(missing.problem(), problem(404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn without_providers_there_are_no_routes_and_no_metrics() {
    let world = HttpWorld::new().await;
    world.webhook(&event("evt_1", SUBSCRIPTION)).await;
    world.call("POST", WEBHOOK, &[], "{}").await;
    let metrics = world.call("GET", "/metrics", &[], "").await;
    for line in [
        "subscription_http_provider_events_total{source=\"stripe\",state=\"pending\"} 1",
        "subscription_http_provider_signature_refused_total{source=\"stripe\"} 1",
        "subscription_http_provider_drift_total{source=\"lemons\"} 0",
    ] {
        assert!(metrics.text().contains(line), "{line} in {}", metrics.text());
    }

    let world = world.in_development();

    for (method, path) in [
        ("POST", WEBHOOK),
        ("GET", "/providers"),
        ("GET", "/provider-events"),
        ("GET", "/provider-links"),
        ("POST", "/provider-links"),
        ("POST", "/provider-syncs"),
    ] {
        let refused = world.server(method, path, &[], "").await;
        assert_eq!(refused.problem(), problem(404, "route_not_found"), "{method} {path}");
    }
    let document = world.call("GET", "/openapi.json", &[], "").await.json();
    assert!(document["paths"].get("/providers").is_none());
    let metrics = world.call("GET", "/metrics", &[], "").await;
    assert!(!metrics.text().contains("provider_"), "{}", metrics.text());
}
