//! Subscriptions and payments of a payment provider, as callers see them.

use std::sync::Arc;

use serde_json::{Value, json};
use subscription_core::events::Actor;
use subscription_core::store::{ChangeSet, StoreExt as _};
use subscription_core::{
    BillingCycle, Followed, ObservedPayment, ObservedPeriod, ObservedSubscription, Payment,
    PaymentId, PaymentKind, PaymentStatus, Quantity, Renewal, SeededRandomness, Subscription,
    SubscriptionStatus,
};
use test_support::service_world::{at, of};

use super::world::{HttpWorld, path_of, problem, text};

const PAGE: &str = "https://shop.example.com/billing";

/// The state at the provider: 19.90 USD a month, renewed on 28 February.
fn observed(held: &Value) -> ObservedSubscription {
    ObservedSubscription {
        external_subscription_id: of("sub_1"),
        subscription_plan_id: of(&text(&held["subscription_plan_id"])),
        billing_cycle: BillingCycle::MONTHLY,
        status: SubscriptionStatus::Active,
        starts_at: at("2025-01-31T00:00:00Z"),
        ends_at: None,
        renews_at: Renewal::At(at("2025-02-28T00:00:00Z")),
        trial_ends_at: None,
        resumes_at: None,
        current_period_start: Some(at("2025-01-31T00:00:00Z")),
        quantity: Quantity::ONE,
        price: Some(of("19.90")),
        currency: Some(of("USD")),
        manage_url: Some(of(PAGE)),
    }
}

async fn stored(world: &HttpWorld, held: &Value) -> Arc<Subscription> {
    let id = of(&text(&held["id"]));
    world.auth.store.get_as::<Subscription>(&id).await.unwrap().unwrap()
}

/// A subscription of somebody, followed.
async fn followed(world: &HttpWorld, name: &str) -> Value {
    let held = world.subscription(name, &json!({})).await;
    let before = stored(world, &held).await;
    let now = world.auth.service.now();
    let mut seen = observed(&held);
    seen.external_subscription_id = of(&format!("sub_{name}"));
    let after = before.observe(seen, now);
    let service = world.auth.service.by(Actor::Provider(of("shop")));
    let followed = Followed { before: Some(before), after };
    let set = service.observed_changes(followed, Vec::new(), ChangeSet::default(), now).await;
    world.auth.store.commit(set.unwrap().changes).await.unwrap();
    read(world, &held).await
}

/// A payment of the provider for the running period, in a status.
async fn paid(world: &HttpWorld, held: &Value, status: PaymentStatus, n: u64) -> Value {
    let now = world.auth.service.now();
    let seen = ObservedPayment {
        external_payment_id: of(&format!("pi_{n}")),
        amount: of("19.90"),
        currency: of("USD"),
        status,
        period: Some(ObservedPeriod {
            kind: PaymentKind::Initial,
            start: at("2025-01-31T00:00:00Z"),
            end: Some(at("2025-02-28T00:00:00Z")),
            cycle: BillingCycle::MONTHLY,
            value: of("19.90"),
        }),
    };
    let id = PaymentId::new(now, &SeededRandomness::new(n)).unwrap();
    let before = stored(world, held).await;
    let payment = Payment::observe_new(seen, id, before.id, now);
    let subscription = Followed { before: Some(before), after: None };
    let payments = vec![Followed { before: None, after: Some(payment) }];
    let set =
        world.auth.service.observed_changes(subscription, payments, ChangeSet::default(), now);
    world.auth.store.commit(set.await.unwrap().changes).await.unwrap();
    world.server("GET", &format!("/subscription-payments/{id}"), &[], "").await.json()
}

async fn read(world: &HttpWorld, held: &Value) -> Value {
    world.server("GET", &path_of(held), &[], "").await.json()
}

async fn put(world: &HttpWorld, held: &Value, body: &Value) -> super::world::Answer {
    world.server("PUT", &path_of(held), &[], body.to_string()).await
}

fn payment_path(payment: &Value) -> String {
    format!("/subscription-payments/{}", text(&payment["id"]))
}

/// The record without the fields that no input has.
fn sent_back(record: &Value) -> Value {
    let mut body = record.clone();
    for field in [
        "id",
        "blocked",
        "discount",
        "current_period_start",
        "current_period_end",
        "past_due_since",
        "next_action_at",
        "scheduled_change",
        "manage_url",
        "created_at",
        "updated_at",
        "version",
    ] {
        body.as_object_mut().unwrap().remove(field);
    }
    body
}

#[tokio::test]
async fn the_page_to_manage_it_is_shown_to_operators_and_to_its_user() {
    let world = HttpWorld::new().await;
    let held = followed(&world, "ann").await;
    let ann = world.sign_in("ann").await;

    let mine = world.person("GET", "/me/subscriptions", &ann.bearer).await.json();

    assert_eq!((&held["manage_url"], &held["managed_by"]), (&json!(PAGE), &json!("provider")));
    assert_eq!(mine["data"][0]["manage_url"], PAGE);
    assert_eq!(mine["data"][0]["actions"], json!([]));
    for verb in ["cancel", "resume"] {
        let path = format!("/me/subscriptions/{}/{verb}", text(&held["id"]));
        let refused = world.person("POST", &path, &ann.bearer).await;
        assert_eq!(refused.problem(), problem(409, "managed_by_provider"), "{verb}");
    }
    let path = format!("/events?subject_id={}", text(&held["id"]));
    let events = world.server("GET", &path, &[], "").await.json();
    assert_eq!(events["data"][1]["actor"], "provider:shop");
}

#[tokio::test]
async fn a_caller_changes_user_block_and_metadata_and_sends_the_rest_back() {
    let world = HttpWorld::new().await;
    let held = followed(&world, "ann").await;
    let ben = world.sign_up("ben").await.id;

    let same = put(&world, &held, &sent_back(&held)).await;
    let mut digits = sent_back(&held);
    digits["price"] = json!(19.9);
    let digits = put(&world, &held, &digits).await;
    let mut body = sent_back(&held);
    body["user_id"] = json!(ben);
    body["is_active"] = json!(false);
    body["metadata"] = json!({ "a": "1" });
    let changed = put(&world, &held, &body).await.json();

    assert_eq!((same.status, same.json()), (200, held.clone()));
    assert_eq!((digits.status, digits.json()), (200, held.clone()), "19.9 is 19.90");
    assert_eq!((&changed["user_id"], &changed["blocked"]), (&json!(ben), &json!(true)));
    assert_eq!((&changed["metadata"], &changed["version"]), (&json!({ "a": "1" }), &json!(3)));
    assert_eq!(changed["manage_url"], PAGE);
    let kept = ["status", "renews_at", "price", "external_subscription_id", "managed_by"];
    assert!(kept.iter().all(|field| changed[field] == held[field]), "{changed}");
}

#[tokio::test]
async fn every_other_field_is_the_providers() {
    let world = HttpWorld::new().await;
    let held = followed(&world, "ann").await;
    let plan = world.plan("other").await;

    for (field, value) in [
        ("status", json!("paused")),
        ("subscription_plan_id", plan["id"].clone()),
        ("billing_cycle", json!("yearly")),
        ("starts_at", json!("2025-01-01T00:00:00Z")),
        ("renews_at", json!("2025-03-31T00:00:00Z")),
        ("renews_at", Value::Null),
        ("ends_at", json!("2025-03-31T00:00:00Z")),
        ("currency", json!("EUR")),
        ("external_subscription_id", json!("sub_2")),
        ("external_subscription_id", Value::Null),
        ("price", json!(19.91)),
        ("price", Value::Null),
        ("quantity", json!(2)),
        ("credit", json!(1)),
        ("trial_ends_at", json!("2025-03-31T00:00:00Z")),
        ("resumes_at", json!("2025-03-31T00:00:00Z")),
    ] {
        for by in [None, Some("provider")] {
            let mut body = json!({ field: value, "metadata": { "a": "1" } });
            if let Some(by) = by {
                body["managed_by"] = json!(by);
            }
            let refused = put(&world, &held, &body).await;
            assert_eq!(refused.problem(), problem(409, "managed_by_provider"), "{field}");
            assert_eq!(refused.json()["fields"], json!([field]));
        }
    }
    assert_eq!(read(&world, &held).await, held);
}

#[tokio::test]
async fn nobody_leaves_a_subscription_to_a_provider() {
    let world = HttpWorld::new().await;
    let of_caller = world.subscription("ann", &json!({})).await;
    let of_clock = world.on_clock("ben", &json!({})).await;

    for held in [&of_caller, &of_clock] {
        let refused = put(&world, held, &json!({ "managed_by": "provider" })).await;
        assert_eq!(refused.faults(), ["managed_by not_allowed_value"]);
        assert_eq!(read(&world, held).await, *held);
    }
}

#[tokio::test]
async fn a_subscription_leaves_its_provider_to_its_caller_or_to_the_clock() {
    let world = HttpWorld::new().await;
    let (ann, ben) = (followed(&world, "ann").await, followed(&world, "ben").await);

    let released = put(&world, &ann, &json!({ "managed_by": "caller" })).await.json();
    let taken = put(&world, &ben, &json!({ "managed_by": "clock" })).await.json();

    for (after, by) in [(&released, "caller"), (&taken, "clock")] {
        assert_eq!((&after["managed_by"], &after["manage_url"]), (&json!(by), &Value::Null));
        assert_eq!((&after["price"], &after["currency"]), (&json!(19.90), &json!("USD")));
        assert_eq!(after["renews_at"], "2025-02-28T00:00:00.000000Z");
    }
    assert_eq!(released["next_action_at"], Value::Null);
    assert!(taken["next_action_at"].is_string(), "{taken}");
    // Without a price the clock cannot bill it.
    let cat = followed(&world, "cat").await;
    let free = world.rewrite(&cat, |held| held.billing.as_mut().unwrap().price = None).await;
    let refused = put(&world, &free, &json!({ "managed_by": "clock" })).await;
    assert_eq!(refused.faults(), ["price required"]);
}

#[tokio::test]
async fn a_providers_payment_shows_its_period_and_is_neither_due_nor_retried() {
    let world = HttpWorld::new().await;
    let held = followed(&world, "ann").await;

    for (status, n) in PaymentStatus::all().zip(1..) {
        let payment = paid(&world, &held, status, n).await;

        assert_eq!((&payment["kind"], &payment["status"]), (&json!("initial"), &json!(status)));
        assert_eq!(payment["period_start"], "2025-01-31T00:00:00.000000Z");
        assert_eq!(payment["period_end"], "2025-02-28T00:00:00.000000Z");
        for field in ["due_at", "attempt", "next_attempt_at"] {
            assert_eq!(payment[field], Value::Null, "{field}");
        }
        let path = format!("{}/retry", payment_path(&payment));
        let refused = world.server("POST", &path, &[], "").await;
        assert_eq!(refused.problem(), problem(409, "managed_by_provider"), "{status}");
    }

    world.auth.clock.set(at("2026-01-01T00:00:00Z"));
    for status in ["pending", "processing"] {
        let path = format!("/due-payments?status={status}&before=2026-01-01T00:00:00Z");
        let due = world.server("GET", &path, &[], "").await.json();
        assert_eq!(due["data"], json!([]), "{status}");
    }
    let before = read(&world, &held).await;
    world.billing.advance(100).await.unwrap();
    assert_eq!(read(&world, &held).await, before, "the clock leaves it alone");
}

#[tokio::test]
async fn of_a_providers_payment_callers_change_the_metadata_alone() {
    let world = HttpWorld::new().await;
    let held = followed(&world, "ann").await;
    let other = world.subscription("ben", &json!({})).await;
    let payment = paid(&world, &held, PaymentStatus::Failed, 1).await;
    let path = payment_path(&payment);
    let change = async |body: &Value| world.server("PUT", &path, &[], body.to_string()).await;

    for (field, value) in [
        ("subscription_id", other["id"].clone()),
        ("amount", json!("20")),
        ("currency", json!("EUR")),
        ("external_payment_id", json!("pi_2")),
        ("external_payment_id", Value::Null),
        ("status", json!("succeeded")),
        // A step that the lifecycle does not allow is refused for the same reason.
        ("status", json!("refunded")),
        ("next_attempt_at", json!("2025-03-01T00:00:00Z")),
    ] {
        let refused = change(&json!({ field: value, "metadata": { "a": "1" } })).await;
        assert_eq!(refused.problem(), problem(409, "managed_by_provider"), "{field}");
        assert_eq!(refused.json()["fields"], json!([field]));
    }
    let same = json!({ "amount": 19.9, "currency": "USD", "status": "failed",
        "external_payment_id": "pi_1", "metadata": { "a": "1" } });
    let changed = change(&same).await.json();

    assert_eq!((&changed["metadata"], &changed["version"]), (&json!({ "a": "1" }), &json!(2)));
    assert_eq!((&changed["status"], &changed["amount"]), (&json!("failed"), &json!(19.90)));
    // Released, it is the caller's, but still not collected here.
    put(&world, &held, &json!({ "managed_by": "clock" })).await;
    let retry = world.server("POST", &format!("{path}/retry"), &[], "").await;
    assert_eq!(retry.problem(), problem(409, "managed_by_provider"));
    let later = change(&json!({ "next_attempt_at": "2025-03-01T00:00:00Z" })).await;
    assert_eq!(later.faults(), ["next_attempt_at not_allowed_value"]);
    let before = read(&world, &held).await;
    let succeeded = change(&json!({ "status": "succeeded" })).await;
    assert_eq!((succeeded.status, read(&world, &held).await), (200, before), "no report");
}

#[tokio::test]
async fn a_callers_own_payment_of_a_providers_subscription_is_the_callers() {
    let world = HttpWorld::new().await;
    let held = followed(&world, "ann").await;
    let own = world.made("/subscription-payments", &super::world::payment_body(&held)).await;

    let changed = world.server("PUT", &payment_path(&own), &[], r#"{"status":"succeeded"}"#).await;

    assert_eq!((changed.status, &changed.json()["status"]), (200, &json!("succeeded")));
}

#[tokio::test]
async fn a_providers_payment_and_subscription_are_deleted_at_will() {
    let world = HttpWorld::new().await;
    let held = followed(&world, "ann").await;
    for (status, n) in [(PaymentStatus::Processing, 1), (PaymentStatus::Pending, 2)] {
        let payment = paid(&world, &held, status, n).await;
        let deleted = world.server("DELETE", &payment_path(&payment), &[], "").await;
        assert_eq!(deleted.status, 204);
    }
    let kept = paid(&world, &held, PaymentStatus::Pending, 3).await;

    let deleted = world.server("DELETE", &path_of(&held), &[], "").await;

    assert_eq!(deleted.status, 204);
    let after = world.server("GET", &payment_path(&kept), &[], "").await.json();
    assert_eq!(after, kept, "the provider says what becomes of it");
}

#[tokio::test]
async fn a_deleted_account_takes_its_subscription_from_the_provider() {
    let world = HttpWorld::new().await;
    let held = followed(&world, "ann").await;
    let ann = world.sign_in("ann").await;
    let payment = paid(&world, &held, PaymentStatus::Pending, 1).await;

    let path = format!("/authentication/delete-my-account/{}", ann.id);
    let deleted = world.person("DELETE", &path, &ann.bearer).await;

    assert!((200..300).contains(&deleted.status), "{deleted:?}");
    let after = read(&world, &held).await;
    assert_eq!((&after["status"], &after["managed_by"]), (&json!("expired"), &json!("caller")));
    assert_eq!(after["manage_url"], Value::Null);
    let kept = world.server("GET", &payment_path(&payment), &[], "").await.json();
    assert_eq!(kept["status"], "pending");
}
