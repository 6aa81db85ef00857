//! Changes of plan: what the preview and the execution answer, under conditions and keys, and what they refuse.

use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::{ManagedBy, SubscriptionStatus};
use test_support::service_world::of;

use super::world::{Answer, HttpWorld, add, path_of, plan_body, problem, text};

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";
const START: &str = "2026-04-01T00:00:00Z";
pub(super) const AT: &str = "2026-04-11T00:00:00Z";
/// Both routes, the preview first.
const ROUTES: [&str; 2] = ["change-plan/preview", "change-plan"];

/// A plan of this price in dollars, with what `more` adds.
pub(super) async fn plan(world: &HttpWorld, slug: &str, price: &str, more: &Value) -> Value {
    let mut body = plan_body(slug);
    add(&mut body, &json!({ "price": price, "currency": "USD" }));
    add(&mut body, more);
    world.made("/subscription-plans", &body).await
}

/// Ann's subscription to a plan for 9.99, paid for April and ten days old, and a plan for 29.99.
pub(super) struct Shop {
    pub(super) world: HttpWorld,
    pub(super) held: Value,
    pub(super) pro: Value,
}

impl Shop {
    pub(super) async fn new() -> Self {
        Self::with("monthly").await
    }

    async fn with(cycle: &str) -> Self {
        let world = HttpWorld::new().await;
        world.auth.clock.set(of(START));
        let basic = plan(&world, "basic", "9.99", &json!({ "billing_cycle": cycle })).await;
        let pro = plan(&world, "pro", "29.99", &json!({})).await;
        let user = world.sign_up("ann").await.id;
        let new = json!({ "user_id": user, "subscription_plan_id": basic["id"] });
        let held = world.made("/subscriptions", &new).await;
        world.report(&held, "succeeded").await;
        world.auth.clock.set(of(AT));
        let held = world.server("GET", &path_of(&held), &[], "").await.json();
        Self { world, held, pro }
    }

    pub(super) async fn post(&self, end: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.world.server("POST", &format!("{}/{end}", path_of(&self.held)), headers, body).await
    }

    async fn preview(&self, body: &Value) -> Answer {
        self.post("change-plan/preview", &[], &body.to_string()).await
    }

    pub(super) async fn execute(&self, body: &Value) -> Answer {
        self.post("change-plan", &[], &body.to_string()).await
    }

    /// A change to the plan for 29.99, with what `more` adds.
    pub(super) fn to_pro(&self, more: &Value) -> Value {
        let mut body = json!({ "subscription_plan_id": self.pro["id"] });
        add(&mut body, more);
        body
    }

    pub(super) async fn put(&self, path: &str, body: &str) {
        let put = self.world.server("PUT", path, &[], body).await;
        assert_eq!(put.status, 200, "{put:?}");
    }

    pub(super) async fn read(&self) -> Value {
        self.world.server("GET", &path_of(&self.held), &[], "").await.json()
    }

    /// The whole feed: a read writes none of it.
    async fn feed(&self) -> String {
        let feed = self.world.server("GET", "/events?limit=200", &[], "").await;
        feed.text().to_owned()
    }

    async fn timeline(&self, until: &str) -> Value {
        let path = format!("{}/timeline?until={until}", path_of(&self.held));
        self.world.server("GET", &path, &[], "").await.json()["data"].clone()
    }

    /// Refused by both routes with the same problem, and nothing is written. The problem of the execution.
    pub(super) async fn refuses(&self, body: &Value, code: &str) -> Value {
        let (feed, held) = (self.feed().await, self.read().await);

        let (preview, execution) = (self.preview(body).await, self.execute(body).await);

        assert_eq!(preview.problem(), problem(409, code), "preview {body}");
        assert_eq!(execution.problem(), problem(409, code), "execution {body}");
        assert_eq!((self.feed().await, self.read().await), (feed, held), "{code}");
        let (mut previewed, executed) = (preview.json(), execution.json());
        previewed["request_id"] = executed["request_id"].clone();
        assert_eq!(previewed, executed);
        executed
    }
}

#[tokio::test]
async fn the_preview_of_an_upgrade_has_every_digit_and_writes_nothing() {
    let shop = Shop::new().await;
    let feed = shop.feed().await;

    let quote = shop.preview(&shop.to_pro(&json!({}))).await;

    let expected = format!(
        r#"{{"at":"2026-04-11T00:00:00.000000Z","effective":"now","subscription_plan_id":"{}","billing_cycle":"monthly","quantity":1,"price":29.99,"period_start":"2026-04-01T00:00:00.000000Z","period_end":"2026-05-01T00:00:00.000000Z","lines":[{{"kind":"change","amount":19.99}},{{"kind":"unused","amount":6.66}}],"amount_due":13.33,"currency":"USD","credit_before":0.00,"credit_after":0.00,"renews_at":"2026-05-01T00:00:00.000000Z","next_amount":29.99,"discount":null,"ends_discount":false}}"#,
        text(&shop.pro["id"])
    );
    assert_eq!((quote.status, quote.text()), (200, expected.as_str()));
    assert_eq!(quote.header("etag"), None);
    assert_eq!((shop.read().await, shop.feed().await), (shop.held.clone(), feed));
}

#[tokio::test]
async fn an_upgrade_asks_at_once_for_what_its_quote_says() {
    let shop = Shop::new().await;
    let quote = shop.preview(&shop.to_pro(&json!({}))).await.json();
    shop.world.auth.clock.advance(Duration::from_mins(5));

    let agreed = json!({
        "at": quote["at"], "amount_due": quote["amount_due"], "next_amount": quote["next_amount"], "credit_after": quote["credit_after"],
    });
    let changed = shop.execute(&shop.to_pro(&agreed)).await;

    let shown = changed.json();
    assert_eq!((changed.status, changed.header("etag")), (200, Some("\"2\"")));
    assert_eq!(shown, shop.read().await);
    for (field, value) in [
        ("subscription_plan_id", &shop.pro["id"]),
        ("price", &json!(29.99)),
        ("status", &json!("active")),
        ("renews_at", &shop.held["renews_at"]),
        ("current_period_start", &shop.held["current_period_start"]),
        ("scheduled_change", &Value::Null),
    ] {
        assert_eq!(shown[field], *value, "{field}");
    }
    let due = shop.world.server("GET", "/due-payments", &[], "").await;
    assert!(due.text().contains(r#""amount":13.33,"currency":"USD""#), "{due:?}");
    let asked = &due.json()["data"][0];
    for (field, value) in [
        ("kind", json!("proration")),
        ("status", json!("pending")),
        ("period_start", json!("2026-04-11T00:00:00.000000Z")),
        ("period_end", shop.held["renews_at"].clone()),
        ("due_at", json!("2026-04-11T00:00:00.000000Z")),
    ] {
        assert_eq!(asked[field], value, "{field}");
    }
    let path = "/events?type=subscription.plan_changed";
    let events = shop.world.server("GET", path, &[], "").await.json();
    let event = &events["data"][0];
    let change = json!({
        "from_plan": shop.held["subscription_plan_id"], "to_plan": shop.pro["id"],
    });
    assert_eq!((&event["change"], &event["actor"]), (&change, &json!("client:server")));
    assert_eq!(event["subject"]["id"], shop.held["id"]);
}

#[tokio::test]
async fn a_change_to_what_a_subscription_has_writes_nothing() {
    let shop = Shop::new().await;
    let feed = shop.feed().await;

    for body in [
        json!({ "quantity": 1 }),
        json!({ "billing_cycle": "monthly" }),
        json!({ "subscription_plan_id": shop.held["subscription_plan_id"] }),
        json!({ "quantity": 1, "effective": "period_end" }),
        json!({ "quantity": 1, "proration": "none" }),
    ] {
        let (quote, changed) = (shop.preview(&body).await, shop.execute(&body).await);

        let quote = quote.json();
        assert_eq!((&quote["lines"], &quote["amount_due"]), (&json!([]), &json!(0.0)), "{body}");
        assert_eq!((changed.status, changed.json()), (200, shop.held.clone()), "{body}");
        assert_eq!(shop.feed().await, feed, "{body}");
    }
}

#[tokio::test]
async fn a_scheduled_downgrade_is_shown_foreseen_and_dropped() {
    let shop = Shop::new().await;
    shop.execute(&shop.to_pro(&json!({}))).await;
    shop.world.report(&shop.held, "succeeded").await;
    let later = json!({
        "subscription_plan_id": shop.held["subscription_plan_id"], "quantity": 2,
        "effective": "period_end",
    });
    let quote = shop.preview(&later).await.json();

    let scheduled = shop.execute(&later).await.json();
    let timeline = shop.timeline("2026-05-15T00:00:00Z").await;
    let path = format!("{}/scheduled-change", path_of(&shop.held));
    let dropped = shop.world.server("DELETE", &path, &[], "").await;

    assert_eq!((&quote["lines"], &quote["next_amount"]), (&json!([]), &json!(19.98)));
    assert_eq!(quote["period_end"], scheduled["renews_at"]);
    let expected = json!({
        "action": "change_plan", "effective_at": scheduled["renews_at"],
        "subscription_plan_id": shop.held["subscription_plan_id"], "billing_cycle": "monthly",
        "price": 9.99, "currency": "USD", "quantity": 2,
    });
    assert_eq!(scheduled["scheduled_change"], expected);
    assert_eq!(scheduled["subscription_plan_id"], shop.pro["id"]);
    let steps: Vec<_> = timeline.as_array().unwrap().iter().map(|it| text(&it["step"])).collect();
    assert_eq!(steps, ["reminded", "plan_changed", "period_started"]);
    assert_eq!((&timeline[1]["at"], &timeline[1]["ask"]), (&timeline[2]["at"], &Value::Null));
    let ask = &timeline[2]["ask"];
    assert_eq!((&ask["kind"], &ask["amount"]), (&json!("renewal"), &json!(19.98)));
    assert_eq!((dropped.status, dropped.text()), (204, ""));
    let now = shop.read().await;
    assert_eq!((&now["scheduled_change"], &now["price"]), (&Value::Null, &json!(29.99)));
    let next = &shop.timeline("2026-05-15T00:00:00Z").await[1];
    assert_eq!((&next["step"], &next["ask"]["amount"]), (&json!("period_started"), &json!(29.99)));
}

#[tokio::test]
async fn while_a_payment_is_not_paid_a_plan_changes_only_at_the_end_of_the_period() {
    for status in ["pending", "processing", "failed"] {
        let shop = Shop::new().await;
        shop.execute(&shop.to_pro(&json!({}))).await;
        if status != "pending" {
            shop.world.report(&shop.held, status).await;
        }
        // A payment that fails makes the subscription past due, which another rule refuses.
        shop.world.rewrite(&shop.held, |held| held.status = SubscriptionStatus::Active).await;

        shop.refuses(&json!({ "quantity": 2 }), "payment_open").await;

        let later = json!({ "quantity": 2, "effective": "period_end" });
        assert_eq!(shop.preview(&later).await.status, 200, "{status}");
        assert_eq!(shop.execute(&later).await.status, 200, "{status}");
    }
}

#[tokio::test]
async fn of_two_changes_that_are_scheduled_the_second_is_refused() {
    for (end, body) in
        [("change-plan", r#"{"quantity":2,"effective":"period_end"}"#), ("pause", "{}")]
    {
        let shop = Shop::new().await;
        assert_eq!(shop.post(end, &[], body).await.status, 200);

        for effective in ["now", "period_end"] {
            let body = shop.to_pro(&json!({ "effective": effective }));
            shop.refuses(&body, "change_scheduled").await;
        }
    }
}

#[tokio::test]
async fn another_currency_is_for_the_end_of_a_period_and_without_credit() {
    let shop = Shop::new().await;
    let in_euros = plan(&shop.world, "euros", "25", &json!({ "currency": "EUR" })).await;
    let without = shop.world.plan("without").await;
    let body = |plan: &Value, effective: &str| json!({ "subscription_plan_id": plan["id"], "effective": effective });

    let now = shop.refuses(&body(&in_euros, "now"), "currency_mismatch").await;
    let none = shop.refuses(&body(&without, "period_end"), "currency_mismatch").await;
    shop.put(&path_of(&shop.held), r#"{"credit":"1.00"}"#).await;
    let with_credit = shop.refuses(&body(&in_euros, "period_end"), "currency_mismatch").await;
    shop.put(&path_of(&shop.held), r#"{"credit":0}"#).await;
    let later = shop.execute(&body(&in_euros, "period_end")).await;

    for mismatch in [now, with_credit] {
        assert_eq!((&mismatch["from"], &mismatch["to"]), (&json!("USD"), &json!("EUR")));
        let detail = text(&mismatch["detail"]);
        assert!(detail.contains("paid in USD and the plan in EUR"), "{detail}");
    }
    assert_eq!(
        (&none["from"], &none["detail"]),
        (&Value::Null, &json!("the plan has no currency"))
    );
    assert_eq!(later.json()["scheduled_change"]["currency"], "EUR");
    let of_caller = shop.world.subscription("ben", &json!({})).await;
    let path = format!("{}/change-plan/preview", path_of(&of_caller));
    let refused = shop.world.server("POST", &path, &[], r#"{"quantity":2}"#).await;
    assert_eq!(refused.problem(), problem(409, "currency_mismatch"));
}

#[tokio::test]
async fn a_plan_that_takes_no_new_subscriptions_takes_no_change_either() {
    let shop = Shop::new().await;
    shop.put("/subscription-plans/pro", r#"{"is_active":false}"#).await;

    for effective in ["now", "period_end"] {
        shop.refuses(&shop.to_pro(&json!({ "effective": effective })), "plan_inactive").await;
    }
}

#[tokio::test]
async fn a_plan_changes_only_while_the_subscription_is_pending_on_trial_or_active() {
    use SubscriptionStatus::{Cancelled, Expired, PastDue, Paused, Pending, Unpaid};
    // Pending in a period that has begun: it waits for its first payment.
    for status in [Pending, PastDue, Unpaid, Paused, Cancelled, Expired] {
        let shop = Shop::new().await;
        shop.world.rewrite(&shop.held, |held| held.status = status).await;

        for effective in ["now", "period_end"] {
            let body = shop.to_pro(&json!({ "effective": effective }));
            let refused = shop.refuses(&body, "invalid_transition").await;
            assert_eq!(refused["from"], status.as_str());
        }
    }
    let world = HttpWorld::new().await;
    for (name, more) in [
        ("ann", json!({ "starts_at": "2025-03-01T00:00:00Z" })),
        ("ben", json!({ "trial_ends_at": "2025-02-14T00:00:00Z" })),
    ] {
        let held = world.on_clock(name, &more).await;
        let path = format!("{}/change-plan", path_of(&held));
        let changed = world.server("POST", &path, &[], r#"{"quantity":2}"#).await;
        assert_eq!((changed.status, &changed.json()["quantity"]), (200, &json!(2)), "{name}");
        assert_eq!(world.newest_payment(&held).await, Value::Null, "{name}");
    }
}

#[tokio::test]
async fn a_provider_changes_the_plans_of_its_subscriptions_itself() {
    let shop = Shop::new().await;
    shop.world.rewrite(&shop.held, |held| held.managed_by = ManagedBy::Provider).await;

    let refused = shop.refuses(&shop.to_pro(&json!({})), "managed_by_provider").await;

    assert_eq!(refused["fields"], json!(["subscription_plan_id", "billing_cycle", "quantity"]));
}

#[tokio::test]
async fn for_a_subscription_of_callers_the_preview_tells_the_price_and_nothing_moves() {
    let shop = Shop::new().await;
    let quote = shop.preview(&shop.to_pro(&json!({}))).await;
    shop.put(&path_of(&shop.held), r#"{"managed_by":"caller"}"#).await;
    let (held, feed) = (shop.read().await, shop.feed().await);

    let same = shop.preview(&shop.to_pro(&json!({}))).await;
    let refused = shop.execute(&shop.to_pro(&json!({}))).await;

    assert_eq!((same.status, same.text()), (200, quote.text()));
    assert_eq!(refused.problem(), problem(409, "managed_by_caller"));
    assert_eq!((shop.read().await, shop.feed().await), (held, feed));
    // One that was never billed here has the price of its plan.
    let user = shop.world.sign_up("ben").await.id;
    let new = json!({
        "user_id": user, "subscription_plan_id": shop.held["subscription_plan_id"],
        "managed_by": "caller", "starts_at": START,
    });
    let held = shop.world.made("/subscriptions", &new).await;
    let path = format!("{}/change-plan/preview", path_of(&held));
    let body = shop.to_pro(&json!({})).to_string();
    assert_eq!(shop.world.server("POST", &path, &[], body).await.text(), quote.text());
}

#[tokio::test]
async fn a_quote_that_does_not_hold_any_more_is_refused_with_the_new_one() {
    let shop = Shop::new().await;
    let agreed = |at: &str, due: &str| shop.to_pro(&json!({ "at": at, "amount_due": due }));
    let is_refused = async |body: &Value| {
        let now = shop.preview(&shop.to_pro(&json!({}))).await;
        for route in ROUTES {
            let refused = shop.post(route, &[], &body.to_string()).await;
            assert_eq!(refused.problem(), problem(409, "quote_changed"), "{route} {body}");
            let quote = format!(r#","quote":{}}}"#, now.text());
            assert!(refused.text().ends_with(&quote), "{body}: {refused:?}");
        }
        assert_eq!(shop.read().await, shop.held, "{body}");
    };

    is_refused(&agreed(AT, "13.32")).await;
    let other_next = json!({ "at": AT, "amount_due": 13.33, "next_amount": 9.99 });
    is_refused(&shop.to_pro(&other_next)).await;
    let other_credit = json!({ "at": AT, "amount_due": 13.33, "credit_after": 0.01 });
    is_refused(&shop.to_pro(&other_credit)).await;
    // Too old by a microsecond.
    shop.world.auth.clock.set(of("2026-04-11T00:15:00.000001Z"));
    is_refused(&agreed(AT, "13.33")).await;
    shop.world.auth.clock.set(of("2026-04-11T00:15:00Z"));
    // Its digits end with a zero.
    shop.put("/subscription-plans/pro", r#"{"price":"29.94"}"#).await;
    let now = shop.preview(&agreed(AT, "13.30")).await;
    assert!(now.text().contains(r#""amount_due":13.30,"#), "{now:?}");
    shop.world.auth.clock.set(of(AT));
    is_refused(&agreed(AT, "13.33")).await;
    let refused = shop.execute(&agreed(AT, "13.33")).await;
    assert!(refused.text().contains(r#""amount_due":13.30,"#), "{refused:?}");

    shop.world.auth.clock.set(of("2026-04-11T00:15:00Z"));
    let changed = shop.execute(&agreed(AT, "13.300")).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(shop.world.newest_payment(&shop.held).await["amount"], json!(13.3));
}

#[tokio::test]
async fn a_quote_of_the_period_before_does_not_hold() {
    let shop = Shop::new().await;
    shop.world.auth.clock.set(of("2026-04-30T23:59:59Z"));
    let quote = shop.preview(&shop.to_pro(&json!({}))).await.json();
    shop.world.auth.clock.set(of("2026-05-01T00:00:01Z"));
    while shop.world.billing.advance(10).await.unwrap().steps > 0 {}
    shop.world.report(&shop.held, "succeeded").await;

    let agreed = json!({ "at": quote["at"], "amount_due": quote["amount_due"] });
    let refused = shop.refuses(&shop.to_pro(&agreed), "quote_changed").await;

    assert_eq!(refused["quote"]["period_start"], "2026-05-01T00:00:00.000000Z");
}

#[tokio::test]
async fn every_fault_of_both_bodies_is_in_one_answer_and_nothing_changes() {
    let shop = Shop::new().await;
    let feed = shop.feed().await;
    let agreed = ["at required", "amount_due required"];
    for (body, expected) in [
        (
            r#"{"subscription_plan_id":"x","billing_cycle":"often","quantity":0,"effective":"later","proration":"half","at":"soon","amount_due":-1,"next_amount":"1e3","credit_after":-1,"x":1}"#,
            &[
                "subscription_plan_id bad_format",
                "billing_cycle not_allowed_value",
                "quantity out_of_range",
                "effective not_allowed_value",
                "proration not_allowed_value",
                "at bad_format",
                "amount_due out_of_range",
                "next_amount bad_format",
                "credit_after out_of_range",
                "x unknown_field",
            ][..],
        ),
        (
            r#"{"subscription_plan_id":null,"billing_cycle":null,"quantity":null,"effective":null,"proration":null,"at":null,"amount_due":null,"next_amount":null,"credit_after":null}"#,
            &[
                "subscription_plan_id null_not_allowed",
                "billing_cycle null_not_allowed",
                "quantity null_not_allowed",
                "effective null_not_allowed",
                "proration null_not_allowed",
                "at null_not_allowed",
                "amount_due null_not_allowed",
                "credit_after null_not_allowed",
            ],
        ),
        (
            r#"{"subscription_plan_id":1,"billing_cycle":1,"quantity":"2","effective":1,"proration":1,"at":1,"amount_due":[],"next_amount":{},"credit_after":true}"#,
            &[
                "subscription_plan_id wrong_type",
                "billing_cycle wrong_type",
                "quantity wrong_type",
                "effective wrong_type",
                "proration wrong_type",
                "at wrong_type",
                "amount_due wrong_type",
                "next_amount wrong_type",
                "credit_after wrong_type",
            ],
        ),
        ("{}", &["subscription_plan_id required"]),
        (r#"{"effective":"now","proration":"none"}"#, &["subscription_plan_id required"]),
        (r#"{"quantity":2,"at":"2026-04-11T00:00:00Z"}"#, &agreed[1..]),
        (r#"{"quantity":2,"amount_due":1}"#, &agreed[..1]),
        (r#"{"quantity":2,"next_amount":1}"#, &agreed[..]),
        (r#"{"quantity":2,"credit_after":1}"#, &agreed[..]),
        (r#"{"quantity":1.5}"#, &["quantity wrong_type"]),
        (r#"{"quantity":1000001}"#, &["quantity out_of_range"]),
        ("[]", &[" wrong_type"]),
    ] {
        for route in ROUTES {
            let refused = shop.post(route, &[], body).await;

            assert_eq!(refused.faults(), expected, "{route} {body}");
        }
    }
    for route in ROUTES {
        let half = shop.post(route, &[], r#"{"quantity":"#).await;
        assert_eq!(half.problem(), problem(400, "malformed_json"), "{route}");
        let nothing = shop.post(route, &[("content-type", "application/json")], "").await;
        assert_eq!(nothing.problem(), problem(400, "malformed_json"), "{route}");
        let query = shop.post(&format!("{route}?now=1"), &[], r#"{"quantity":2}"#).await;
        assert_eq!(query.problem(), problem(400, "invalid_query"), "{route}");
    }
    assert_eq!((shop.read().await, shop.feed().await), (shop.held.clone(), feed));
}

#[tokio::test]
async fn a_body_that_does_not_fit_the_records_is_refused_with_its_fields() {
    let shop = Shop::new().await;
    let unknown = json!({
        "subscription_plan_id": NOBODY, "at": "2026-04-11T00:00:00.000001Z", "amount_due": 0,
    });
    let yearly = shop.to_pro(&json!({ "billing_cycle": "yearly", "proration": "none" }));
    let dear = plan(&shop.world, "dear", "999999999999999.99", &json!({})).await;
    let dear = json!({ "subscription_plan_id": dear["id"], "quantity": 2 });
    let once = Shop::with("one_time").await;
    let later = once.to_pro(&json!({ "effective": "period_end" }));
    for (shop, body, expected) in [
        (&shop, unknown, &["subscription_plan_id unknown_reference", "at out_of_range"][..]),
        (&shop, yearly, &["proration not_allowed_value"]),
        (&shop, dear, &["quantity out_of_range"]),
        (&once, later, &["effective not_allowed_value"]),
    ] {
        for route in ROUTES {
            let refused = shop.post(route, &[], &body.to_string()).await;

            assert_eq!(refused.faults(), expected, "{route} {body}");
        }
    }
    for id in ["x", NOBODY] {
        for route in ROUTES {
            let path = format!("/subscriptions/{id}/{route}");
            let refused = shop.world.server("POST", &path, &[], r#"{"quantity":2}"#).await;
            assert_eq!(refused.problem(), problem(404, "not_found"), "{path}");
        }
    }
}

#[tokio::test]
async fn a_change_for_another_version_is_refused_and_one_under_a_key_is_made_once() {
    let shop = Shop::new().await;
    let two = r#"{"quantity":2}"#;
    let version = text(&json!(format!("\"{}\"", shop.held["version"])));

    let stale = shop.post("change-plan", &[("if-match", "\"9\"")], two).await;
    let headers = [("if-match", &*version), ("idempotency-key", "k")];
    let first = shop.post("change-plan", &headers, two).await;
    shop.world.report(&shop.held, "succeeded").await;
    shop.world.auth.clock.advance(Duration::from_hours(1));
    let again = shop.post("change-plan", &headers, two).await;

    assert_eq!(stale.problem(), problem(412, "precondition_failed"));
    assert_eq!((first.status, first.header("idempotency-replayed")), (200, None), "{first:?}");
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let path = format!("{}/payments", path_of(&shop.held));
    let payments = shop.world.server("GET", &path, &[], "").await.json();
    assert_eq!(payments["data"].as_array().map(Vec::len), Some(2), "asked for once: {payments}");
    for (end, body) in [
        ("change-plan", r#"{"quantity":3}"#),
        ("change-plan", r#"{"quantity":2,"effective":"period_end"}"#),
        ("change-plan", r#"{"quantity":2,"proration":"none"}"#),
        ("change-plan", r#"{"quantity":2,"at":"2026-04-11T00:00:00Z","amount_due":1}"#),
        ("cancel", "{}"),
    ] {
        let reused = shop.post(end, &[("idempotency-key", "k")], body).await;
        assert_eq!(reused.problem(), problem(422, "idempotency_key_reused"), "{end} {body}");
    }
    let invalid = shop.post("change-plan", &[("idempotency-key", "")], two).await;
    assert_eq!(invalid.problem(), problem(400, "idempotency_key_invalid"));
    // A preview is a read: both headers mean nothing to it.
    for key in ["k", ""] {
        let headers = [("if-match", "\"9\""), ("idempotency-key", key)];
        let quote = shop.post("change-plan/preview", &headers, r#"{"quantity":3}"#).await;
        assert_eq!((quote.status, quote.header("idempotency-replayed")), (200, None), "{key}");
    }
}
