//! A stranger binds the customer of a victim: the victim's purchase is never the stranger's.

use std::time::Duration;

use serde_json::json;
use subscription_core::SubscriptionChanges;
use subscription_core::providers::{ObjectKind, ObservedNow, Reason, SyncKind};

use super::sync::sync;
use super::world::{
    ADA as VICTIM, BOB as STRANGER, World, invoice, order, slug, stripe_tea, tea, unavailable, user,
};

async fn bind(world: &World, source: &str, customer: &str, to: &str) {
    let customer = customer.parse().unwrap();
    world.providers.bind_customer(&slug(source), &customer, user(to)).await.unwrap();
}

async fn synced(world: &World, source: &str, object: &str) -> ObservedNow {
    let object = object.parse().unwrap();
    world.providers.sync_object(&slug(source), &object, false).await.unwrap()
}

#[track_caller]
fn assert_conflict(observed: &ObservedNow) {
    let ObservedNow::EventStatus(status) = observed else { panic!("{observed:?}") };
    assert_eq!(status.reason, Some(Reason::CustomerConflict));
}

/// The stranger has bought under the victim's address, so that customer 31 is bound; then the victim buys.
async fn after_a_purchase_of_the_victim() -> World {
    let world = World::new().await;
    world.api.set(ObjectKind::Order, &order("1", 501));
    world.webhook("orders", "1", Some(STRANGER)).await;
    world.advance().await;
    world.api.set(ObjectKind::Subscription, &tea("2", "active"));
    world.api.set(ObjectKind::Invoice, &invoice("20", "2", 999));
    world.api.list("subscriptions", vec![tea("2", "active")]);
    world.api.list("invoices", vec![invoice("20", "2", 999)]);
    world.webhook("subscriptions", "2", Some(VICTIM)).await;
    let states = world.advance().await;
    assert_eq!(
        states,
        ["order 1 ignored:not_a_subscription", "subscription 2 waiting:customer_conflict"]
    );
    world
}

#[tokio::test]
async fn whatever_observes_the_purchase_next_it_waits_until_an_operator_says_whose_it_is() {
    let world = after_a_purchase_of_the_victim().await;

    world.webhook("subscription-invoices", "20", None).await;
    let states = world.advance().await;
    assert_eq!(states[0], "invoice 20 waiting:customer_conflict");
    assert_conflict(&world.now(ObjectKind::Subscription, "2", None).await);
    assert_conflict(&synced(&world, "shop", "ls_2").await);
    for kind in [SyncKind::All, SyncKind::Nightly] {
        let counts = sync(&world, kind, false).await;
        assert_eq!((counts.made, counts.waiting), (0, 2));
    }
    for _ in 0..45 {
        world.clock.advance(Duration::from_hours(24));
        world.advance().await;
    }
    let states = world.states().await;
    assert!(states.iter().all(|it| it.ends_with("waiting:customer_conflict")), "{states:?}");
    assert_eq!((states.len(), world.subscriptions().await.len()), (4, 0));

    let observed = world.now(ObjectKind::Subscription, "2", Some(VICTIM)).await;

    let ObservedNow::Subscription(made) = observed else { panic!("{observed:?}") };
    assert_eq!(made.user_id, user(VICTIM));
    let states = world.advance().await;
    assert!(!states.iter().any(|it| it.contains("waiting")), "{states:?}");
    assert_eq!(world.payments().await.len(), 1);
}

#[tokio::test]
async fn an_order_that_is_no_purchase_of_a_plan_binds_nobody() {
    let mut free = order("1", 501);
    free["attributes"]["total"] = json!(0);
    let mut unmapped = order("1", 4_242);
    unmapped["attributes"]["first_order_item"]["product_id"] = json!(4_200);
    let mut failed = order("1", 501);
    failed["attributes"]["status"] = json!("failed");
    for order in [free, unmapped, failed] {
        let world = World::new().await;
        world.api.set(ObjectKind::Order, &order);
        world.webhook("orders", "1", Some(STRANGER)).await;

        assert_eq!(world.advance().await, ["order 1 ignored:not_a_subscription"]);

        assert_eq!(world.documents("provider_link").await.len(), 0, "{order}");
        world.api.set(ObjectKind::Subscription, &tea("2", "active"));
        world.webhook("subscriptions", "2", Some(VICTIM)).await;
        world.advance().await;
        assert_eq!(world.subscription().await.user_id, user(VICTIM));
    }
}

#[tokio::test]
async fn an_order_of_a_plan_that_is_paid_once_binds_only_if_it_was_paid_with_an_amount() {
    for (field, value, links) in
        [("total", json!(0), 1), ("status", json!("failed"), 1), ("status", json!("paid"), 2)]
    {
        let world = World::new().await;
        world.plan("lifetime", &json!({ "variants": ["777"], "billing_cycle": "one_time" })).await;
        let mut bought = order("1", 777);
        bought["attributes"][field] = value;
        world.api.set(ObjectKind::Order, &bought);
        world.webhook("orders", "1", Some(STRANGER)).await;

        assert_eq!(world.advance().await, ["order 1 applied"]);

        assert_eq!(world.subscription().await.user_id, user(STRANGER));
        assert_eq!(world.documents("provider_link").await.len(), links, "{bought}");
    }
}

#[tokio::test]
async fn at_stripe_the_checkout_session_is_read_though_the_customer_is_bound() {
    let world = World::new().await;
    bind(&world, "stripe", "cus_Ada", STRANGER).await;
    world.api.set(ObjectKind::Subscription, &stripe_tea(None));
    let session = json!({ "id": "cs_1", "subscription": "sub_1", "client_reference_id": VICTIM });
    world.api.set(ObjectKind::CheckoutSession, &session);
    world.api.list("sessions of sub_1", vec![session]);

    assert_conflict(&world.now(ObjectKind::Subscription, "sub_1", None).await);
    assert_conflict(&world.now(ObjectKind::CheckoutSession, "cs_1", None).await);
    assert_conflict(&synced(&world, "stripe", "sub_1").await);
    world.clock.advance(Duration::from_hours(7));
    let states = world.advance().await;
    assert!(states.iter().all(|it| it.ends_with("waiting:customer_conflict")), "{states:?}");
    assert_eq!((states.len(), world.subscriptions().await.len()), (2, 0));

    world.now(ObjectKind::CheckoutSession, "cs_1", Some(VICTIM)).await;

    assert_eq!(world.subscription().await.user_id, user(VICTIM));
    let states = world.advance().await;
    assert!(!states.iter().any(|it| it.contains("waiting")), "{states:?}");
}

#[tokio::test]
async fn a_binding_by_an_operator_decides_what_waits_and_nothing_that_comes_later() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.set(ObjectKind::Invoice, &invoice("9", "1", 999));
    world.webhook("subscriptions", "1", Some(VICTIM)).await;
    world.webhook("subscriptions", "1", Some(STRANGER)).await;
    world.webhook("subscription-invoices", "9", None).await;
    let states = world.advance().await;
    assert!(states.iter().all(|it| it.ends_with("waiting:customer_conflict")), "{states:?}");

    bind(&world, "shop", "31", VICTIM).await;

    let states = world.advance().await;
    assert!(!states.iter().any(|it| it.contains("waiting")), "{states:?}");
    assert_eq!(world.subscription().await.user_id, user(VICTIM));
    assert_eq!(world.payments().await.len(), 1);
    world.api.set(ObjectKind::Subscription, &tea("2", "active"));
    world.webhook("subscriptions", "2", Some(STRANGER)).await;
    let states = world.advance().await;
    assert!(states.contains(&"subscription 2 waiting:customer_conflict".into()), "{states:?}");
    // The binding stands already, and decides all the same.
    bind(&world, "shop", "31", VICTIM).await;
    world.advance().await;
    let all = world.subscriptions().await;
    assert!(all.len() == 2 && all.iter().all(|it| it.user_id == user(VICTIM)), "{all:?}");
}

#[tokio::test]
async fn the_word_of_a_caller_counts_for_every_event_of_the_object() {
    let world = after_a_purchase_of_the_victim().await;
    *world.api.fails.lock().unwrap() = Some(unavailable);
    world.now(ObjectKind::Subscription, "2", Some(VICTIM)).await;
    *world.api.fails.lock().unwrap() = None;
    world.clock.advance(Duration::from_secs(3));
    let other = world.restarted(|source| source);
    other.webhook("subscription-invoices", "20", None).await;
    let events = other.events().await;
    let is_invoice = |kind| kind == Some(ObjectKind::Invoice);
    let mut events = events.iter();
    let event = events.find(|it| is_invoice(it.event.object.as_ref().map(|object| object.kind)));

    other.providers.replay(&event.unwrap().id).await.unwrap();

    assert_eq!(other.subscription().await.user_id, user(VICTIM));
}

#[tokio::test]
async fn a_caller_who_names_nobody_that_exists_does_not_make_events_due_again_and_again() {
    let before = World::new().await;
    bind(&before, "shop", "31", VICTIM).await;
    let world = before.restarted(|source| source.with_any_user(false));
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.now(ObjectKind::Subscription, "1", Some(STRANGER)).await;
    world.clock.advance(Duration::from_secs(2));
    world.webhook("subscriptions", "1", None).await;

    let applied = world.providers.advance(100).await.unwrap();

    let states = world.states().await;
    assert!(states.iter().all(|it| it.ends_with("waiting:unknown_customer")), "{states:?}");
    let next = applied.next_at.unwrap().since(world.service.now());
    assert!(next > Duration::from_secs(50), "{next:?}");
}

#[tokio::test]
async fn a_purchase_whose_customer_is_bound_to_a_deleted_user_waits_if_it_names_another() {
    let before = World::new().await;
    bind(&before, "shop", "31", STRANGER).await;
    // From now on users need an account, and the stranger has none any more.
    let world = before.restarted(|source| source.with_any_user(false));
    world.api.set(ObjectKind::Subscription, &tea("2", "active"));
    world.webhook("subscriptions", "2", Some(VICTIM)).await;

    assert_eq!(world.advance().await, ["subscription 2 waiting:customer_conflict"]);
}

/// Webhooks come in any order: nothing names the victim when the invoice is the first.
#[tokio::test]
async fn a_name_that_comes_too_late_moves_no_record_and_is_listed_until_an_operator_decides() {
    for by_change in [true, false] {
        let world = World::new().await;
        bind(&world, "shop", "31", STRANGER).await;
        world.api.set(ObjectKind::Subscription, &tea("2", "active"));
        world.api.set(ObjectKind::Invoice, &invoice("20", "2", 999));
        world.webhook("subscription-invoices", "20", None).await;
        assert_eq!(world.advance().await, ["invoice 20 applied"]);
        let made = world.subscription().await;
        assert_eq!(made.user_id, user(STRANGER));

        world.api.set(ObjectKind::Subscription, &tea("2", "expired"));
        world.webhook("subscriptions", "2", Some(VICTIM)).await;
        let conflict = ["invoice 20 applied", "subscription 2 waiting:customer_conflict"];
        assert_eq!(world.advance().await, conflict);
        let followed = world.subscription().await;
        assert_eq!((followed.user_id, followed.status.as_str()), (user(STRANGER), "expired"));
        world.now(ObjectKind::Subscription, "2", None).await;
        world.clock.advance(Duration::from_hours(7));
        assert_eq!(world.advance().await, conflict);

        if by_change {
            let change = json!({ "user_id": VICTIM }).to_string();
            let change = SubscriptionChanges::from_json(change.as_bytes()).unwrap();
            world.service.update_subscription(made.id, change).await.unwrap();
        } else {
            bind(&world, "shop", "31", STRANGER).await;
        }

        world.clock.advance(Duration::from_hours(7));
        assert_eq!(world.advance().await, ["invoice 20 applied", "subscription 2 same"]);
        let owner = if by_change { VICTIM } else { STRANGER };
        assert_eq!(world.subscription().await.user_id, user(owner));
        // Later events name the victim too.
        world.webhook("subscriptions", "2", Some(VICTIM)).await;
        let states = world.advance().await;
        assert!(!states.iter().any(|it| it.contains("waiting")), "{states:?}");
    }
}
