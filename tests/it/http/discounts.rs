//! Discounts over HTTP: with a new subscription, on the payment, in quotes and figures, and what is refused.

use serde_json::{Value, json};
use test_support::service_world::of;

use super::plan_changes::{Shop, plan};
use super::world::{Answer, HttpWorld, add, path_of, problem, text};

async fn subscribe(world: &HttpWorld, plan: &Value, more: &Value) -> Answer {
    let user = world.sign_up("ann").await.id;
    create(world, &user, plan, more).await
}

async fn create(world: &HttpWorld, user: &str, plan: &Value, more: &Value) -> Answer {
    let mut new = json!({ "user_id": user, "subscription_plan_id": plan["id"] });
    add(&mut new, more);
    world.server("POST", "/subscriptions", &[], new.to_string()).await
}

async fn payments(world: &HttpWorld, subscription: &Value) -> Vec<Value> {
    let path = format!("{}/payments", path_of(subscription));
    let mut page = world.server("GET", &path, &[], "").await.json();
    let mut data = std::mem::take(page["data"].as_array_mut().unwrap());
    data.reverse();
    data
}

#[tokio::test]
async fn a_new_subscription_has_it_from_its_first_period() {
    let world = HttpWorld::new().await;
    let pro = plan(&world, "pro", "19.99", &json!({})).await;

    let made =
        subscribe(&world, &pro, &json!({ "discount": { "percent": 20, "periods": 3 } })).await;

    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    let expected =
        json!({ "percent": 20, "amount": null, "periods": 3, "periods_left": 2, "applied": true });
    assert_eq!(made["discount"], expected);
    let payment = payments(&world, &made).await.remove(0);
    assert_eq!(payment["amount"], json!(15.99));
    assert!(payment.get("lines").is_none(), "lists do not have the lines");
    let path = format!("/subscription-payments/{}", text(&payment["id"]));
    let payment = world.server("GET", &path, &[], "").await.json();
    let lines =
        json!([{ "kind": "period", "amount": 19.99 }, { "kind": "discount", "amount": 4.00 }]);
    assert_eq!(payment["lines"], lines);
    let now = world.server("GET", "/stats/now", &[], "").await.json();
    assert_eq!(now["money"][0]["mrr"], json!(15.99));
}

#[tokio::test]
async fn the_lines_of_a_payment_are_what_they_were_after_a_retry_and_a_change() {
    let shop = Shop::new().await;
    let seats = shop.execute(&json!({ "quantity": 2 })).await;
    assert_eq!(seats.status, 200, "{seats:?}");
    let last = payments(&shop.world, &shop.held).await.pop().unwrap();
    let path = format!("/subscription-payments/{}", text(&last["id"]));
    let read = async || shop.world.server("GET", &path, &[], "").await.json();
    let lines = read().await["lines"].clone();
    assert_eq!(
        lines,
        json!([{ "kind": "change", "amount": 13.32 }, { "kind": "unused", "amount": 6.66 }])
    );

    shop.put(&path, r#"{"status":"failed"}"#).await;
    shop.put(&path_of(&shop.held), r#"{"price":"5.00"}"#).await;
    let retry = shop.world.server("POST", &format!("{path}/retry"), &[], "").await;

    assert_eq!(retry.status, 200, "{retry:?}");
    assert_eq!(read().await["lines"], lines);
}

#[tokio::test]
async fn a_period_that_an_imported_payment_has_paid_uses_neither_credit_nor_discount() {
    for (percent, credit) in [(50, "0"), (100, "0"), (50, "4.00")] {
        let world = HttpWorld::new().await;
        world.auth.clock.set(of("2026-04-01T00:00:00Z"));
        let pro = plan(&world, "pro", "10.00", &json!({})).await;
        let discount = json!({ "percent": percent, "periods": 2 });
        let made = subscribe(&world, &pro, &json!({ "discount": discount })).await.json();
        world.server("PUT", &path_of(&made), &[], json!({ "credit": credit }).to_string()).await;
        let paid = json!({
            "subscription_id": made["id"], "amount": "10.00", "currency": "USD", "status": "succeeded",
            "kind": "renewal", "period_start": made["renews_at"], "period_end": "2026-06-01T00:00:00Z",
        });
        let paid = world.server("POST", "/subscription-payments", &[], paid.to_string()).await;
        assert_eq!(paid.status, 201, "{paid:?}");

        world.auth.clock.set(of("2026-05-02T00:00:00Z"));
        world.server("PUT", &path_of(&made), &[], r#"{"metadata":{"a":"b"}}"#).await;

        let held = world.server("GET", &path_of(&made), &[], "").await.json();
        assert_eq!(held["discount"]["periods_left"], json!(1), "{percent} {credit}");
        assert_eq!(held["discount"]["applied"], json!(false), "{percent} {credit}");
        assert_eq!(text(&held["current_period_start"]), "2026-05-01T00:00:00.000000Z");
        let value = &world.auth.service.subscription(text(&made["id"]).parse().unwrap()).await;
        let billing = value.as_ref().unwrap().billing.clone().unwrap();
        assert_eq!(billing.period_value.to_string(), "10.00", "{percent} {credit}");
        assert_eq!(billing.credit.value(), of::<subscription_core::Amount>(credit).value());
    }
}

#[tokio::test]
async fn every_fault_of_the_input_is_named() {
    let world = HttpWorld::new().await;
    let pro = plan(&world, "pro", "10.00", &json!({})).await;
    let user = world.sign_up("ann").await.id;
    for (discount, faults) in [
        (json!({}), vec!["discount.percent required", "discount.periods required"]),
        (
            json!({ "percent": 100.001, "periods": 0 }),
            vec!["discount.percent out_of_range", "discount.periods out_of_range"],
        ),
        (
            json!({ "percent": 5, "amount": 5, "periods": 121 }),
            vec!["discount.periods out_of_range", "discount.amount not_allowed_value"],
        ),
        (
            json!({ "amount": "0", "periods": null, "code": "X" }),
            vec!["discount.amount out_of_range", "discount.code unknown_field"],
        ),
        (json!({ "amount": "1.001", "periods": 1 }), vec!["discount.amount out_of_range"]),
        (json!(5), vec!["discount wrong_type"]),
        (json!(null), vec!["discount null_not_allowed"]),
    ] {
        let refused = create(&world, &user, &pro, &json!({ "discount": discount })).await;
        assert_eq!(refused.status, 422, "{discount}: {refused:?}");
        let found = refused.json()["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|fault| format!("{} {}", text(&fault["field"]), text(&fault["code"])))
            .collect::<Vec<_>>();
        assert_eq!(found, faults, "{discount}");
    }
    let caller = json!({ "managed_by": "caller", "discount": { "percent": 5, "periods": 1 } });
    let refused = create(&world, &user, &pro, &caller).await;
    assert_eq!(refused.faults(), ["discount not_allowed_value"], "{refused:?}");
}

#[tokio::test]
async fn a_discount_is_of_the_clock_alone_and_a_release_ends_it() {
    let shop = Shop::new().await;
    let half = r#"{"percent":50,"periods":null}"#;
    assert_eq!(shop.post("discount", &[], half).await.status, 200);

    shop.put(&path_of(&shop.held), r#"{"managed_by":"caller"}"#).await;

    assert_eq!(shop.read().await["discount"], Value::Null);
    let refused = shop.post("discount", &[], half).await;
    assert_eq!(refused.problem(), problem(409, "managed_by_caller"));
    let path = format!("{}/discount", path_of(&shop.held));
    let refused = shop.world.server("DELETE", &path, &[], "").await;
    assert_eq!(refused.problem(), problem(409, "managed_by_caller"));
}

#[tokio::test]
async fn two_tabs_give_one_discount() {
    let shop = Shop::new().await;
    let one = shop.post("discount", &[("idempotency-key", "a")], r#"{"percent":50,"periods":1}"#);
    let two = shop.post("discount", &[("idempotency-key", "b")], r#"{"percent":50,"periods":1}"#);

    let (one, two) = tokio::join!(one, two);

    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(shop.read().await["discount"]["periods_left"], json!(1));
}

#[tokio::test]
async fn its_event_names_the_field() {
    let shop = Shop::new().await;
    shop.post("discount", &[], r#"{"percent":50,"periods":1}"#).await;

    let path = format!("/events?subject_id={}&limit=200", text(&shop.held["id"]));
    let events = shop.world.server("GET", &path, &[], "").await.json();

    let last = events["data"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["type"], json!("subscription.updated"));
    assert_eq!(last["change"]["fields"], json!(["discount"]));
}

impl Shop {
    async fn set_clock(&self, at: &str) {
        self.world.auth.clock.set(of(at));
    }

    /// Lets the due steps be taken, and returns the amounts of all payments, the oldest first.
    async fn charged(&self) -> Value {
        self.put(&path_of(&self.held), r#"{"metadata":{"seen":"now"}}"#).await;
        self.put(&path_of(&self.held), r#"{"metadata":null}"#).await;
        let payments = payments(&self.world, &self.held).await;
        payments.iter().map(|payment| payment["amount"].clone()).collect()
    }
}

/// The change of plan rewrites a credit of 0.00, which is no charge for the running period.
#[tokio::test]
async fn a_scheduled_plan_ends_it_if_the_credit_is_used_up() {
    let shop = Shop::new().await;
    shop.post("discount", &[], r#"{"percent":50,"periods":null}"#).await;
    shop.put(&path_of(&shop.held), r#"{"credit":"0.00"}"#).await;
    let later = shop.to_pro(&json!({ "effective": "period_end" }));
    assert_eq!(shop.execute(&later).await.status, 200);

    shop.set_clock("2026-05-02T00:00:00Z").await;
    let preview = shop.post("change-plan/preview", &[], r#"{"quantity":2}"#).await;

    // The first of May asks for a payment, so the change is refused until it is made.
    assert_eq!(preview.problem(), problem(409, "payment_open"));
    assert_eq!(shop.charged().await, json!([9.99, 29.99]));
    assert_eq!(shop.read().await["discount"], Value::Null);
}

/// A discount is for the periods that have not begun, even if nobody has taken the step that begins them.
#[tokio::test]
async fn one_that_is_given_or_removed_after_a_renewal_is_for_the_next_one() {
    let shop = Shop::new().await;
    shop.set_clock("2026-05-01T00:00:03Z").await;

    let given = shop.post("discount", &[], r#"{"percent":50,"periods":3}"#).await.json();

    assert_eq!(text(&given["current_period_start"]), "2026-05-01T00:00:00.000000Z");
    assert_eq!(given["discount"]["applied"], json!(false));
    shop.set_clock("2026-06-01T00:00:00Z").await;
    assert_eq!(shop.charged().await, json!([9.99, 9.99, 4.99]));

    shop.set_clock("2026-07-01T00:00:03Z").await;
    let path = format!("{}/discount", path_of(&shop.held));
    let version = format!("\"{}\"", shop.read().await["version"]);
    let stale = [("if-match", version.as_str())];
    let stale = shop.world.server("DELETE", &path, &stale, "").await;
    assert_eq!(stale.status, 412, "the renewal has changed the version");
    assert_eq!(shop.world.server("DELETE", &path, &[], "").await.status, 204);
    shop.set_clock("2026-08-01T00:00:00Z").await;
    assert_eq!(shop.charged().await, json!([9.99, 9.99, 4.99, 4.99, 9.99]));
}

/// Life 20 of the design.
#[tokio::test]
async fn after_a_period_that_an_imported_payment_has_paid_it_goes_on() {
    let world = HttpWorld::new().await;
    world.auth.clock.set(of("2026-04-01T00:00:00Z"));
    let pro = plan(&world, "pro", "10.00", &json!({})).await;
    let half = json!({ "discount": { "percent": 50, "periods": 2 } });
    let held = subscribe(&world, &pro, &half).await.json();
    let paid = json!({
        "subscription_id": held["id"], "amount": "10.00", "currency": "USD", "status": "succeeded",
        "kind": "renewal", "period_start": held["renews_at"], "period_end": "2026-06-01T00:00:00Z",
    });
    world.made("/subscription-payments", &paid).await;
    let shop = Shop { world, held, pro };

    for day in ["2026-05-01", "2026-06-01", "2026-07-01"] {
        shop.set_clock(&format!("{day}T00:00:00Z")).await;
        shop.charged().await;
    }

    let mut payments = payments(&shop.world, &shop.held).await;
    payments.sort_by_key(|payment| text(&payment["period_start"]).clone());
    let of = |name: &str| payments.iter().map(|payment| payment[name].clone()).collect::<Value>();
    let starts = of("period_start").to_string();
    for day in ["2026-04-01", "2026-05-01", "2026-06-01", "2026-07-01"] {
        assert!(starts.contains(day), "{starts}");
    }
    assert_eq!(of("amount"), json!([5.00, 10.00, 5.00, 10.00]));
}

#[tokio::test]
async fn a_key_that_is_sent_again_gives_nothing_more() {
    let shop = Shop::new().await;
    let half = r#"{"percent":50,"periods":1}"#;
    let key = [("idempotency-key", "offer-1")];
    let first = shop.post("discount", &key, half).await;
    let path = format!("{}/discount", path_of(&shop.held));
    shop.world.server("DELETE", &path, &[], "").await;

    let again = shop.post("discount", &key, half).await;

    assert_eq!((again.status, again.header("idempotency-replayed")), (200, Some("true")));
    assert_eq!(again.json()["version"], first.json()["version"]);
    assert_eq!(shop.read().await["discount"], Value::Null);
    let other = shop.post("discount", &key, r#"{"percent":60,"periods":1}"#).await;
    assert_eq!(other.problem(), problem(422, "idempotency_key_reused"));
}
