//! `POST /me/subscriptions/{id}/change-plan`: a person changes the plan of an own subscription by a quote.

use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::store::PageLimit;
use subscription_http::RateLimits;

use super::world::{Answer, HttpWorld, add, plan_body, problem, text};

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";

/// A subscription of Ann to the plan for 10, half of its month over, and the plans that she may change to.
pub(super) struct Shop {
    pub(super) world: HttpWorld,
    ann: String,
    pub(super) link: String,
    pub(super) held: Value,
    basic: Value,
    pub(super) pro: Value,
}

impl Shop {
    pub(super) async fn new() -> Self {
        Self::limited(&RateLimits::NONE).await
    }

    pub(super) async fn limited(limits: &RateLimits) -> Self {
        let world = HttpWorld::new().await.changing_to(&["basic", "pro", "gone"], limits);
        let mut plans = Vec::new();
        for (slug, price) in [("basic", 5), ("own", 10), ("pro", 20), ("vip", 90)] {
            let mut plan = plan_body(slug);
            add(&mut plan, &json!({ "currency": "USD", "price": price }));
            plans.push(world.made("/subscription-plans", &plan).await);
        }
        let ann = world.sign_up("ann").await.id;
        let body = json!({ "user_id": ann, "subscription_plan_id": plans[1]["id"] });
        let held = world.made("/subscriptions", &body).await;
        let shop = Self {
            link: String::new(),
            basic: plans[0].clone(),
            pro: plans[2].clone(),
            world,
            ann,
            held,
        };
        shop.report("succeeded").await;
        shop.world.auth.clock.advance(Duration::from_hours(14 * 24));
        let link = shop.world.portal_link(&shop.ann).await;
        Self { link, ..shop }
    }

    /// Reports the newest payment, and returns the status that it then has.
    async fn report(&self, status: &str) -> String {
        let payment = self.world.newest_payment(&self.held).await;
        let path = format!("/subscription-payments/{}", text(&payment["id"]));
        let body = json!({ "status": status }).to_string();
        let reported = self.world.server("PUT", &path, &[], body).await;
        assert_eq!(reported.status, 200, "{reported:?}");
        text(&reported.json()["status"])
    }

    pub(super) async fn send(&self, headers: &[(&str, &str)], body: &Value) -> Answer {
        let path = format!("/me/subscriptions/{}/change-plan", text(&self.held["id"]));
        self.send_to(&path, headers, body).await
    }

    async fn send_to(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut all = vec![("authorization", &*self.link)];
        all.extend_from_slice(headers);
        self.world.call("POST", path, &all, body.to_string()).await
    }

    /// The body that agrees to the present quote of a plan.
    pub(super) async fn agreed(&self, plan: &Value) -> Value {
        let quoted = self.send(&[], &json!({ "subscription_plan_id": plan["id"] })).await;
        assert_eq!(quoted.problem(), problem(409, "quote_changed"));
        let quote = &quoted.json()["quote"];
        let mut body = json!({ "subscription_plan_id": plan["id"] });
        for name in ["at", "amount_due", "next_amount", "credit_after"] {
            body[name] = quote[name].clone();
        }
        body
    }

    /// The response of `GET /me/subscriptions`: the plan, the coming plan with its date, the actions.
    async fn seen(&self) -> (String, Option<String>, Value) {
        let page = self.world.portal("GET", "/me/subscriptions", &self.link).await.json();
        let it = &page["data"][0];
        let coming = &it["scheduled_change"];
        let coming = coming["plan"]["slug"].as_str().map(|slug| {
            format!("{slug} {}", coming["effective_at"].as_str().unwrap_or("when paid"))
        });
        (text(&it["plan"]["slug"]), coming, it["actions"].clone())
    }
}

#[tokio::test]
async fn a_dearer_plan_is_had_once_its_payment_has_succeeded() {
    for (report, plan) in [("succeeded", "pro"), ("failed", "own"), ("canceled", "own")] {
        let shop = Shop::new().await;
        assert_eq!(shop.seen().await, ("own".into(), None, json!(["cancel", "change_plan"])));
        let agreed = shop.agreed(&shop.pro).await;

        let changed = shop.send(&[], &agreed).await;

        assert_eq!(changed.status, 200, "{changed:?}");
        let waits = ("own".into(), Some("pro when paid".into()), json!(["cancel", "resume"]));
        assert_eq!(shop.seen().await, waits);
        let payment = shop.world.newest_payment(&shop.held).await;
        assert_eq!(
            (&payment["kind"], &payment["status"]),
            (&json!("proration"), &json!("pending"))
        );
        assert_eq!(payment["amount"], agreed["amount_due"]);
        let again = shop.send(&[], &agreed).await;
        assert_eq!(again.problem(), problem(409, "change_scheduled"));

        let then = shop.report(report).await;

        assert_eq!(then, if report == "succeeded" { "succeeded" } else { "canceled" });
        assert_eq!(shop.seen().await, (plan.into(), None, json!(["cancel", "change_plan"])));
        let events = shop.world.auth.service.events(0, PageLimit::MAX).await.unwrap();
        let by_ann = events
            .iter()
            .filter(|recorded| recorded.event.actor.to_string() == format!("user:{}", shop.ann));
        let names: Vec<_> = by_ann.map(|recorded| recorded.event.name()).collect();
        assert_eq!(names[names.len() - 2..], ["subscription.updated", "payment.created"]);
    }
}

#[tokio::test]
async fn a_cheaper_plan_comes_with_the_next_period_unless_it_is_taken_back() {
    let shop = Shop::new().await;
    let agreed = shop.agreed(&shop.basic).await;
    assert_eq!(
        (agreed["amount_due"].as_f64(), agreed["credit_after"].as_f64()),
        (Some(0.0), Some(0.0))
    );

    assert_eq!(shop.send(&[], &agreed).await.status, 200);

    let on = format!("basic {}", text(&shop.held["renews_at"]));
    assert_eq!(shop.seen().await, ("own".into(), Some(on), json!(["cancel", "resume"])));
    let resume = format!("/me/subscriptions/{}/resume", text(&shop.held["id"]));
    assert_eq!(shop.send_to(&resume, &[], &json!({})).await.status, 200);
    assert_eq!(shop.seen().await, ("own".into(), None, json!(["cancel", "change_plan"])));
}

#[tokio::test]
async fn a_change_is_taken_back_with_its_payment_but_not_while_money_is_on_its_way() {
    let shop = Shop::new().await;
    let resume = format!("/me/subscriptions/{}/resume", text(&shop.held["id"]));
    let agreed = shop.agreed(&shop.pro).await;
    shop.send(&[], &agreed).await;
    shop.report("processing").await;
    let refused = shop.send_to(&resume, &[], &json!({})).await;
    assert_eq!(refused.problem(), problem(409, "payment_open"));
    shop.report("failed").await;
    shop.world.auth.clock.advance(Duration::from_secs(1));
    let agreed = shop.agreed(&shop.pro).await;
    shop.send(&[], &agreed).await;

    assert_eq!(shop.send_to(&resume, &[], &json!({})).await.status, 200);

    assert_eq!(shop.world.newest_payment(&shop.held).await["status"], "canceled");
    assert_eq!(shop.seen().await, ("own".into(), None, json!(["cancel", "change_plan"])));
}

#[tokio::test]
async fn a_plan_that_is_not_offered_and_any_other_term_are_refused() {
    let shop = Shop::new().await;
    let vip = shop.world.server("GET", "/subscription-plans/vip", &[], "").await.json();
    let pro = &shop.pro["id"];
    for body in [
        json!({ "subscription_plan_id": vip["id"] }),
        json!({ "subscription_plan_id": shop.held["subscription_plan_id"] }),
        json!({ "subscription_plan_id": NOBODY }),
        json!({ "quantity": 2 }),
        json!({ "subscription_plan_id": pro, "quantity": 1_000_000 }),
        json!({ "subscription_plan_id": pro, "effective": "period_end" }),
        json!({ "subscription_plan_id": pro, "proration": "none" }),
        json!({ "subscription_plan_id": pro, "billing_cycle": "yearly" }),
        json!({ "subscription_plan_id": pro, "price": 1 }),
        json!({}),
    ] {
        let refused = shop.send(&[], &body).await;
        assert_eq!(refused.problem(), problem(422, "validation_failed"), "{body}");
    }
    assert_eq!(shop.send(&[], &Value::Null).await.status, 422);
    let mut cheap = shop.agreed(&shop.pro).await;
    cheap["amount_due"] = json!(1);
    assert_eq!(shop.send(&[], &cheap).await.problem(), problem(409, "quote_changed"));
    assert_eq!(shop.seen().await.1, None);
}

#[tokio::test]
async fn the_subscription_of_somebody_else_is_as_unknown_as_one_that_is_not() {
    let shop = Shop::new().await;
    let theirs = shop.world.on_clock("bob", &json!({})).await;
    let caller = shop.world.subscription("eve", &json!({})).await;
    let agreed = shop.agreed(&shop.pro).await;
    for body in [agreed, json!({ "subscription_plan_id": shop.pro["id"] })] {
        let mut answers = Vec::new();
        for id in [NOBODY, &text(&theirs["id"]), &text(&caller["id"])] {
            let path = format!("/me/subscriptions/{id}/change-plan");
            let refused = shop.send_to(&path, &[], &body).await;
            assert_eq!(refused.problem(), problem(404, "not_found"));
            let request = refused.header("x-request-id").unwrap();
            answers.push(refused.text().replace(request, ""));
        }
        assert!(answers.windows(2).all(|two| two[0] == two[1]), "{answers:?}");
    }
}

#[tokio::test]
async fn a_repeated_key_changes_once_and_is_for_one_change() {
    let shop = Shop::new().await;
    let agreed = shop.agreed(&shop.pro).await;
    let key = [("idempotency-key", "one-dialog")];

    let first = shop.send(&key, &agreed).await;
    let again = shop.send(&key, &agreed).await;

    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let path = format!("/subscriptions/{}/payments", text(&shop.held["id"]));
    let payments = shop.world.server("GET", &path, &[], "").await.json();
    assert_eq!(payments["data"].as_array().unwrap().len(), 2, "one payment for the change");
    let other = json!({ "subscription_plan_id": shop.basic["id"] });
    let reused = shop.send(&key, &other).await;
    assert_eq!(reused.problem(), problem(422, "idempotency_key_reused"));
}

#[tokio::test]
async fn without_the_setting_there_is_no_route() {
    let shop = Shop::new().await;
    let agreed = shop.agreed(&shop.pro).await;
    let path = format!("/me/subscriptions/{}/change-plan", text(&shop.held["id"]));
    let Shop { world, link, .. } = shop;
    let world = world.allowing(&[]);

    let refused = world.call("POST", &path, &[("authorization", &link)], agreed.to_string()).await;

    assert_eq!(refused.problem(), problem(404, "route_not_found"));
}
