//! Records that follow their provider: made, taken over, released and attached again.

use serde_json::{Value, json};
use subscription_core::providers::{ObjectKind, ObservedNow, ProviderAccount, Reason};
use subscription_core::store::PageLimit;
use subscription_core::{
    ManagedBy, NewSubscription, PaymentKind, PaymentStatus, SubscriptionChanges, SubscriptionStatus,
};

use super::world::{ADA, World, at, invoice, order, slug, stripe_tea, tea, user};

async fn change(world: &World, fields: &Value) {
    let id = world.subscription().await.id;
    let changes = SubscriptionChanges::from_json(fields.to_string().as_bytes()).unwrap();
    world.service.update_subscription(id, changes).await.unwrap();
}

async fn create(world: &World, fields: &Value) {
    let plan = world.service.plan(&slug("tea")).await.unwrap();
    let mut input = json!({ "user_id": ADA, "subscription_plan_id": plan.id });
    input.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let new = NewSubscription::from_json(input.to_string().as_bytes()).unwrap();
    world.service.create_subscription(new).await.unwrap();
}

#[tokio::test]
async fn a_subscription_is_made_and_followed_with_its_payments() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.set(ObjectKind::Invoice, &invoice("9", "1", 999));
    world.webhook("subscription-invoices", "9", None).await;
    world.webhook("subscriptions", "1", Some(ADA)).await;

    world.advance().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "past_due"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    let states = world.advance().await;

    assert!(states.iter().all(|it| it.ends_with("applied") || it.ends_with("same")), "{states:?}");
    let made = world.subscription().await;
    assert_eq!(made.status, SubscriptionStatus::PastDue);
    assert_eq!((made.managed_by, made.user_id), (ManagedBy::Provider, user(ADA)));
    assert_eq!(made.renews_at, Some(at("2026-02-05T09:00:00Z")), "it is kept");
    let payments = world.payments().await;
    assert_eq!(payments.len(), 1);
    assert_eq!(payments[0].status, PaymentStatus::Succeeded);
    let period = payments[0].asked.as_ref().unwrap();
    assert_eq!(period.kind, PaymentKind::Initial);
    assert_eq!(period.period_end, Some(at("2026-02-05T09:00:00Z")));
    let events = world.service.events(0, PageLimit::default()).await.unwrap();
    let actors: Vec<_> = events[1..].iter().map(|it| it.event.actor.to_string()).collect();
    assert!(actors.iter().all(|actor| actor == "provider:shop"), "{actors:?}");
}

#[tokio::test]
async fn an_invoice_observes_its_subscription_first_and_waits_with_it() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.set(ObjectKind::Invoice, &invoice("9", "1", 999));
    world.webhook("subscription-invoices", "9", None).await;

    assert_eq!(world.advance().await, ["invoice 9 waiting:unknown_customer"]);
    world.providers.bind_customer(&slug("shop"), &"31".parse().unwrap(), user(ADA)).await.unwrap();

    assert_eq!(world.advance().await, ["invoice 9 applied"]);
    assert_eq!(world.payments().await.len(), 1);
}

#[tokio::test]
async fn a_record_of_a_caller_is_taken_over_and_one_of_the_clock_is_not() {
    for (fields, state, external) in [
        (json!({ "external_subscription_id": "ls_1" }), "applied", "ls_1"),
        (json!({ "external_subscription_id": "1" }), "applied", "ls_1"),
        (
            json!({ "external_subscription_id": "ls_1", "managed_by": "clock" }),
            "waiting:managed_by_clock",
            "ls_1",
        ),
        (
            json!({ "external_subscription_id": "1", "managed_by": "clock" }),
            "waiting:unknown_customer",
            "1",
        ),
    ] {
        let world = World::new().await;
        create(&world, &fields).await;
        world.api.set(ObjectKind::Subscription, &tea("1", "active"));
        world.webhook("subscriptions", "1", None).await;

        assert_eq!(world.advance().await, [format!("subscription 1 {state}")], "{fields}");

        let record = world.subscription().await;
        assert_eq!(record.external_subscription_id.as_ref().unwrap().as_str(), external);
        let followed = record.managed_by == ManagedBy::Provider;
        assert_eq!(followed, state == "applied");
    }
}

#[tokio::test]
async fn a_record_with_a_bare_id_on_a_plan_of_another_product_is_not_taken_over() {
    let world = World::new().await;
    let other = world.plan("coffee", &json!({ "product_id": "600" })).await;
    create(&world, &json!({ "external_subscription_id": "1", "subscription_plan_id": other.id }))
        .await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.webhook("subscriptions", "1", Some(ADA)).await;

    world.advance().await;

    assert_eq!(world.subscriptions().await.len(), 2);
}

#[tokio::test]
async fn a_record_that_was_released_is_followed_again_only_when_it_is_attached() {
    for deleted in [false, true] {
        let world = World::new().await;
        world.api.set(ObjectKind::Subscription, &tea("1", "active"));
        world.webhook("subscriptions", "1", Some(ADA)).await;
        world.advance().await;
        for id in ["6", "7", "8", "9"] {
            world.api.set(ObjectKind::Invoice, &invoice(id, "1", 999));
            world.webhook("subscription-invoices", id, None).await;
        }
        world.advance().await;
        let id = world.subscription().await.id;
        if deleted {
            world.service.delete_subscription(id).await.unwrap();
        } else {
            change(&world, &json!({ "managed_by": "caller" })).await;
        }
        world.api.set(ObjectKind::Subscription, &tea("1", "expired"));

        world.webhook("subscriptions", "1", Some(ADA)).await;
        let states = world.advance().await;

        assert!(states.contains(&"subscription 1 ignored:detached".into()), "{states:?}");
        assert_eq!(world.subscriptions().await.len(), usize::from(!deleted));
        world.providers.attach(&slug("shop"), id).await.unwrap();
        world.advance().await;
        let record = world.subscription().await;
        assert_eq!(record.status, SubscriptionStatus::Expired);
        assert_eq!(record.managed_by, ManagedBy::Provider);
        assert_eq!(record.id == id, !deleted, "the same record, unless it is gone");
    }
}

#[tokio::test]
async fn an_invoice_of_a_subscription_that_is_to_be_attached_attaches_it_first() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.set(ObjectKind::Invoice, &invoice("9", "1", 999));
    world.now(ObjectKind::Subscription, "1", Some(ADA)).await;
    change(&world, &json!({ "managed_by": "caller" })).await;
    world.providers.attach(&slug("shop"), world.subscription().await.id).await.unwrap();

    world.now(ObjectKind::Invoice, "9", None).await;

    assert_eq!(world.subscription().await.managed_by, ManagedBy::Provider);
    assert_eq!(world.payments().await.len(), 1);
}

#[tokio::test]
async fn the_user_whom_a_caller_names_for_an_invoice_is_its_subscriptions() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.set(ObjectKind::Invoice, &invoice("9", "1", 999));

    world.now(ObjectKind::Invoice, "9", Some(ADA)).await;

    assert_eq!(world.subscription().await.user_id, user(ADA));
    assert_eq!(world.payments().await.len(), 1);
}

#[tokio::test]
async fn a_payment_stays_one_for_the_period_that_it_was_made_for() {
    let world = World::new().await;
    world.plan("year", &json!({ "variants": ["601"], "billing_cycle": "yearly" })).await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.set(ObjectKind::Invoice, &invoice("9", "1", 999));
    world.now(ObjectKind::Invoice, "9", Some(ADA)).await;
    let mut yearly = tea("1", "active");
    yearly["attributes"]["variant_id"] = json!(601);
    world.api.set(ObjectKind::Subscription, &yearly);
    world.now(ObjectKind::Subscription, "1", None).await;

    let mut refunded = invoice("9", "1", 999);
    refunded["attributes"]["status"] = json!("refunded");
    world.api.set(ObjectKind::Invoice, &refunded);
    world.now(ObjectKind::Invoice, "9", None).await;

    let payment = &world.payments().await[0];
    assert_eq!(payment.status, PaymentStatus::Refunded);
    let period = payment.asked.as_ref().unwrap();
    assert_eq!(period.period_end, Some(at("2026-02-05T09:00:00Z")));
}

#[tokio::test]
async fn a_settled_payment_whose_amount_differs_stays_and_fails_its_event() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.set(ObjectKind::Invoice, &invoice("9", "1", 999));
    world.now(ObjectKind::Subscription, "1", Some(ADA)).await;
    world.webhook("subscription-invoices", "9", None).await;
    world.advance().await;
    world.api.set(ObjectKind::Invoice, &invoice("9", "1", 1));

    world.webhook("subscription-invoices", "9", None).await;

    assert_eq!(world.advance().await, ["invoice 9 applied", "invoice 9 failed:settled_differs"]);
    assert_eq!(world.payments().await[0].amount.to_string(), "9.99");
}

#[tokio::test]
async fn an_invoice_of_nothing_is_ignored() {
    let world = World::new().await;
    world.api.set(ObjectKind::Invoice, &invoice("9", "1", 0));
    world.webhook("subscription-invoices", "9", None).await;

    assert_eq!(world.advance().await, ["invoice 9 ignored:zero_amount"]);
}

#[tokio::test]
async fn an_order_of_a_plan_that_is_paid_once_makes_records_and_any_other_binds_its_customer() {
    let world = World::new().await;
    world.plan("lifetime", &json!({ "variants": ["777"], "billing_cycle": "one_time" })).await;
    world.api.set(ObjectKind::Order, &order("5", 501));
    world.api.set(ObjectKind::Order, &order("6", 777));
    world.webhook("orders", "5", Some(ADA)).await;

    assert_eq!(world.advance().await, ["order 5 ignored:not_a_subscription"]);
    world.webhook("orders", "6", None).await;
    let states = world.advance().await;

    assert!(states.contains(&"order 6 applied".into()), "{states:?}");
    let made = world.subscription().await;
    assert_eq!((made.user_id, made.status), (user(ADA), SubscriptionStatus::Active));
    assert_eq!(made.external_subscription_id.as_ref().unwrap().as_str(), "ls_ord_6");
    assert_eq!(
        world.payments().await[0].external_payment_id.as_ref().unwrap().as_str(),
        "ls_ord_6"
    );
}

#[tokio::test]
async fn the_plan_is_found_by_the_settings_then_by_variant_then_by_product() {
    let mapped =
        |source: ProviderAccount| source.with_plans([("501".to_owned(), slug("gold"))].into());
    let cases = [
        (true, json!({ "product_id": "500" }), "applied", "gold"),
        (false, json!({ "product_id": "500" }), "applied", "tea"),
        (false, json!({ "variants": ["501"] }), "waiting:ambiguous_plan", ""),
    ];
    for (by_settings, fields, state, plan) in cases {
        let world = World::with(|it| if by_settings { mapped(it) } else { it }).await;
        world.plan("gold", &fields).await;
        world.api.set(ObjectKind::Subscription, &tea("1", "active"));
        world.webhook("subscriptions", "1", Some(ADA)).await;

        assert_eq!(world.advance().await, [format!("subscription 1 {state}")]);

        if !plan.is_empty() {
            let plan = world.service.plan(&slug(plan)).await.unwrap();
            assert_eq!(world.subscription().await.subscription_plan_id, plan.id);
        }
    }
}

#[tokio::test]
async fn an_unknown_plan_waits_until_it_is_made_and_two_of_a_product_are_ambiguous() {
    let world = World::new().await;
    let mut object = tea("1", "active");
    object["attributes"]["variant_id"] = json!(601);
    object["attributes"]["product_id"] = json!(600);
    world.api.set(ObjectKind::Subscription, &object);
    world.webhook("subscriptions", "1", Some(ADA)).await;

    assert_eq!(world.advance().await, ["subscription 1 waiting:unknown_plan"]);
    world.plan("a", &json!({ "product_id": "600" })).await;
    world.clock.advance(std::time::Duration::from_mins(1));

    assert_eq!(world.advance().await, ["subscription 1 applied"]);
}

#[tokio::test]
async fn stripe_names_the_user_in_the_metadata_or_in_the_checkout_session() {
    for (named, listed) in [(true, true), (false, true), (false, false)] {
        let world = World::new().await;
        let session = json!({ "id": "cs_1", "subscription": "sub_1", "client_reference_id": ADA });
        world.api.set(ObjectKind::Subscription, &stripe_tea(named.then_some(ADA)));
        world.api.set(ObjectKind::CheckoutSession, &session);
        world.api.list("sessions of sub_1", if listed { vec![session] } else { vec![] });

        let target = if named || !listed {
            (ObjectKind::CheckoutSession, "cs_1")
        } else {
            (ObjectKind::Subscription, "sub_1")
        };
        let observed = world.now(target.0, target.1, None).await;

        let ObservedNow::Subscription(made) = observed else { panic!("{observed:?}") };
        assert_eq!(made.user_id, user(ADA));
        assert_eq!(made.price().unwrap().to_string(), "9.99");
    }
}

#[tokio::test]
async fn a_payment_intent_without_an_invoice_is_no_subscription() {
    let world = World::new().await;

    let observed = world.now(ObjectKind::PaymentIntent, "pi_1", None).await;

    let ObservedNow::EventStatus(status) = observed else { panic!("{observed:?}") };
    assert_eq!(status.reason, Some(Reason::NotASubscription));
}
