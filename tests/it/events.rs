//! Events name the actor of a change, and an update the fields that it changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use subscription_core::auth::{ClientKind, NewClient, Scope};
use subscription_core::events::{Actor, Change, Event, TypePattern};
use subscription_core::store::{EventQuery, FeedSignal, PageLimit};
use subscription_core::{
    Field, PaymentChanges, PaymentStatus, PlanChanges, SubscriptionChanges, SubscriptionService,
};
use test_support::service_world::{ServiceWorld, at, new_plan, of};
use test_support::spy_store::{LosesACommit, SpyStore};

use crate::auth::world::{AuthWorld, web};
use crate::http::world::HttpWorld;

/// The events after the first `skipped`, each as its name, its fields and its actor.
async fn told(service: &SubscriptionService, skipped: usize) -> Vec<String> {
    let events = service.events(0, PageLimit::MAX).await.unwrap();
    let shown = |event: &Event| {
        let mut name = event.name();
        if let Change::Updated { fields } = &event.change {
            name = format!("{name}[{}]", fields.iter().collect::<Vec<_>>().join(","));
        }
        format!("{name} by {}", event.actor)
    };
    events.iter().skip(skipped).map(|recorded| shown(&recorded.event)).collect()
}

#[test]
fn actors_are_read_as_they_are_written() {
    for text in [
        "client:shop",
        "user:01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77",
        "clock",
        "provider:stripe",
        "command",
        "library",
    ] {
        assert_eq!(of::<Actor>(text).to_string(), text);
        let actor: Actor = serde_json::from_value(json!(text)).unwrap();
        assert_eq!(serde_json::to_value(actor).unwrap(), text);
    }
    for text in ["", "client", "client:", "client:A", "user:1", "clock:1", "nobody", "shop:1"] {
        assert!(text.parse::<Actor>().is_err(), "{text}");
    }
}

#[test]
fn patterns_of_types_are_read_as_they_are_written_and_others_are_refused() {
    for text in [
        "*",
        "plan.*",
        "client.updated",
        "session.revoked",
        "subscription.status_changed",
        "subscription.status_changed.past_due",
        "payment.status_changed.partially_refunded",
    ] {
        assert_eq!(of::<TypePattern>(text).to_string(), text);
    }
    for (text, told) in [
        ("", "plan, subscription, payment, user, session, client"),
        ("*.created", "must be *"),
        ("invoice.*", "must be *"),
        ("plan", "created, updated, deleted"),
        ("plan.*.x", "created, updated, deleted"),
        ("plan. created", "created, updated, deleted"),
        ("client.deleted", "created, updated"),
        ("subscription.status_changed.canceled", "the new status"),
        ("subscription.updated.active", "the new status"),
        ("payment.status_changed.", "the new status"),
    ] {
        let refused = text.parse::<TypePattern>().unwrap_err().to_string();
        assert!(refused.contains(told), "{text}: {refused}");
    }
}

#[tokio::test]
async fn a_signal_is_given_for_commits_that_may_have_written_events_alone() {
    let spy = SpyStore::new(LosesACommit::default());
    let signals = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&signals);
    let store = FeedSignal::new(Arc::clone(&spy), move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let service = SubscriptionService::new(store);
    let signalled = || signals.swap(0, Ordering::SeqCst);

    service.create_plan(new_plan("pro")).await.unwrap();
    assert_eq!(signalled(), 1);
    service.create_plan(new_plan("pro")).await.unwrap_err();
    service.check_store().await.unwrap();
    service.forget_events(1).await.unwrap();
    assert_eq!(signalled(), 0);
    spy.spy.lose_the_next_commit();
    service.create_plan(new_plan("lost")).await.ok();
    assert!(signalled() > 0, "the commit took effect");
}

#[tokio::test]
async fn old_events_are_deleted_a_thousand_at_a_time() {
    let world = ServiceWorld::new();
    for n in 0..1_100 {
        world.plan(&format!("plan-{n}")).await;
    }
    world.clock.advance(Duration::from_hours(24));
    let moment = world.service.now();
    world.plan("new").await;

    for (up_to, deleted) in [
        (Some(0), 0),
        (Some(7), 7),
        (Some(7), 0),
        (None, 1_000),
        (Some(1_050), 43),
        (None, 50),
        (None, 0),
    ] {
        let forgotten = world.service.forget_events_before(moment, up_to).await.unwrap();
        assert_eq!(forgotten, deleted, "{up_to:?}");
    }

    let kept = world.service.event_page(&EventQuery::default()).await.unwrap();
    assert_eq!((kept.items.len(), kept.first_kept, kept.last), (1, 1_101, 1_101));
}

#[test]
fn an_event_without_its_actor_or_its_fields_is_refused() {
    let id = "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77";
    let whole = json!({
        "id": id, "at": "2025-01-31T00:00:00.000000Z", "subject": { "kind": "plan", "id": id },
        "version": 2, "change": "updated", "fields": ["price"], "actor": "clock",
    });
    let read = |value: &Value| serde_json::from_value::<Event>(value.clone());
    assert_eq!(serde_json::to_value(read(&whole).unwrap()).unwrap(), whole);

    for member in ["actor", "fields"] {
        let mut lacking = whole.clone();
        lacking.as_object_mut().unwrap().remove(member);

        let error = read(&lacking).unwrap_err().to_string();

        assert!(error.contains(&format!("missing field `{member}`")), "{error}");
    }
}

#[tokio::test]
async fn a_change_is_the_librarys_unless_another_actor_is_named() {
    let ServiceWorld { service, .. } = ServiceWorld::new();
    let shop = service.by(of("client:shop"));
    let new = new_plan;

    service.create_plan(new("a")).await.unwrap();
    shop.create_plan(new("b")).await.unwrap();
    shop.clone().delete_plan(&of("a")).await.unwrap();
    service.by(Actor::Clock).delete_plan(&of("b")).await.unwrap();
    service.create_plan(new("c")).await.unwrap();

    let expected = [
        "plan.created by library",
        "plan.created by client:shop",
        "plan.deleted by client:shop",
        "plan.deleted by clock",
        "plan.created by library",
    ];
    assert_eq!(told(&service, 0).await, expected);
}

#[tokio::test]
async fn an_update_names_the_fields_that_it_changed_in_the_order_of_the_json() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    let payment = world.payment(subscription.id, |_| {}).await;
    let plan = world.plan("pro").await;
    let service = &world.service;

    let changes = PlanChanges {
        is_active: Some(false),
        price: Some(of("19.990")),
        tier: Some(plan.tier),
        ..PlanChanges::default()
    };
    service.update_plan(&plan.slug, changes).await.unwrap();
    let ends_at = Field::Value(at("2026-01-01T00:00:00Z"));
    let changes = SubscriptionChanges { ends_at, ..SubscriptionChanges::default() };
    service.update_subscription(subscription.id, changes).await.unwrap();
    let renews_at = Field::Value(at("2025-03-05T00:00:00Z"));
    let changes =
        SubscriptionChanges { renews_at, is_active: Some(false), ..SubscriptionChanges::default() };
    service.update_subscription(subscription.id, changes).await.unwrap();
    let changes = PaymentChanges { amount: Some(of("5")), ..PaymentChanges::default() };
    service.update_payment(payment.id, changes).await.unwrap();
    let paid = PaymentChanges::status(PaymentStatus::Succeeded);
    service.update_payment(payment.id, paid).await.unwrap();

    let expected = [
        "plan.updated[price,is_active] by library",
        "subscription.updated[ends_at] by library",
        "subscription.updated[is_active,blocked,renews_at,current_period_start,current_period_end] by library",
        "payment.updated[amount] by library",
        "payment.status_changed by library",
    ];
    assert_eq!(told(service, 4).await, expected);
}

#[tokio::test]
async fn accounts_are_changed_by_their_user_or_by_the_clock() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    let user = format!("user:{}", first.user.id);
    let second = world.sign_in("ada").await;
    world.auth.logout(&web(), &second.access_token).await.unwrap();
    let caller = world.check(&first).await.unwrap();
    world.auth.revoke_all(&caller).await.unwrap();
    let third = world.sign_in("ada").await;
    let caller = world.check(&third).await.unwrap();
    world.clock.advance(Duration::from_hours(7 * 24));
    world.auth.forget_ended_sessions().await.unwrap();
    world.auth.delete_account(&caller, &first.user.id.to_string()).await.unwrap();

    let expected = [
        format!("user.created by {user}"),
        format!("session.created by {user}"),
        format!("user.updated[] by {user}"),
        format!("session.created by {user}"),
        format!("session.revoked by {user}"),
        format!("user.updated[] by {user}"),
        format!("session.revoked by {user}"),
        format!("user.updated[] by {user}"),
        format!("session.created by {user}"),
        "session.deleted by clock".to_owned(),
        "session.deleted by clock".to_owned(),
        format!("session.deleted by {user}"),
        format!("user.deleted by {user}"),
    ];
    assert_eq!(told(&world.service, 0).await, expected);
}

#[tokio::test]
async fn an_update_of_a_client_names_its_fields_and_no_values() {
    let world = AuthWorld::new();
    let (kind, scopes) = (ClientKind::Confidential, [Scope::PlansRead].into());
    let id = of("shop");
    let new = NewClient { id, name: of("Shop"), kind, scopes, origins: [].into() };
    let id = world.auth.create_client(new).await.unwrap().client.id.clone();

    world.auth.rotate_client_key(&id).await.unwrap();
    world.auth.revoke_client(&id).await.unwrap();
    world.auth.restore_client(&id).await.unwrap();

    let expected = [
        "client.created by library",
        "client.updated[keys] by library",
        "client.updated[keys,revoked_at] by library",
        "client.updated[revoked_at] by library",
    ];
    assert_eq!(told(&world.service, 0).await, expected);
}

#[tokio::test]
async fn a_request_acts_as_its_client_and_on_their_own_account_as_its_user() {
    let world = HttpWorld::new().await;
    let service = world.auth.service.clone();
    let skipped = told(&service, 0).await.len();

    let subscription = world.subscription("ada", &json!({})).await;
    let path = format!("/subscriptions/{}", subscription["id"].as_str().unwrap());
    assert_eq!(world.server("DELETE", &path, &[], "").await.status, 204);
    let ada = world.sign_in("ada").await;
    assert_eq!(
        world.person("POST", "/authentication/tokens/revoke-all", &ada.bearer).await.status,
        200
    );
    let world = world.in_development();
    let body = crate::http::world::plan_body("new").to_string();
    let made = world.call("POST", "/subscription-plans", &[("client-id", "till-7")], body).await;
    assert_eq!(made.status, 201);

    let user = format!("by user:{}", ada.id);
    let expected = [
        format!("user.created {user}"),
        format!("session.created {user}"),
        "plan.created by client:server".to_owned(),
        "subscription.created by client:server".to_owned(),
        "subscription.deleted by client:server".to_owned(),
        format!("user.updated[] {user}"),
        format!("session.created {user}"),
        format!("user.updated[] {user}"),
        format!("session.revoked {user}"),
        format!("session.revoked {user}"),
        "plan.created by client:till-7".to_owned(),
    ];
    assert_eq!(told(&service, skipped).await, expected);
}
