//! Whose a subscription is.

use std::sync::atomic::Ordering;

use subscription_core::providers::{ObjectKind, ObservedNow, Reason};
use subscription_core::{Conflict, Error, ErrorKind};

use super::world::{ADA, BOB, World, slug, stripe_tea, tea, user};

#[tokio::test]
async fn the_first_binding_of_a_customer_stays_and_another_user_is_a_conflict() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.set(ObjectKind::Subscription, &tea("2", "active"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    world.advance().await;

    world.webhook("subscriptions", "2", Some(BOB)).await;

    let states = world.advance().await;
    assert_eq!(states, ["subscription 1 applied", "subscription 2 waiting:customer_conflict"]);
    let taken =
        world.providers.bind_customer(&slug("shop"), &"31".parse().unwrap(), user(BOB)).await;
    assert!(matches!(taken, Err(Error::Conflict(Conflict::CustomerConflict))), "{taken:?}");
    // A caller says whose it is, also in a conflict. The binding stays.
    let observed = world.now(ObjectKind::Subscription, "2", Some(BOB)).await;
    let ObservedNow::Subscription(made) = observed else { panic!("{observed:?}") };
    assert_eq!(made.user_id, user(BOB));
    world.providers.bind_customer(&slug("shop"), &"31".parse().unwrap(), user(ADA)).await.unwrap();
}

#[tokio::test]
async fn a_waiting_subscription_is_applied_once_its_customer_is_bound() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.webhook("subscriptions", "1", None).await;
    assert_eq!(world.advance().await, ["subscription 1 waiting:unknown_customer"]);

    world.providers.bind_customer(&slug("shop"), &"31".parse().unwrap(), user(BOB)).await.unwrap();

    assert_eq!(world.advance().await, ["subscription 1 applied"]);
    assert_eq!(world.subscription().await.user_id, user(BOB));
}

/// The customer is bound after it was looked for, and before the event that waits for it is stored.
#[tokio::test]
async fn an_event_that_is_stored_while_its_customer_is_bound_does_not_wait() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &stripe_tea(None));
    world.api.holds_page.store(true, Ordering::SeqCst);
    let other = world.restarted(|source| source);
    let observed =
        tokio::spawn(async move { other.now(ObjectKind::Subscription, "sub_1", None).await });
    world.api.held.notified().await;

    let customer = "cus_Ada".parse().unwrap();
    world.providers.bind_customer(&slug("stripe"), &customer, user(ADA)).await.unwrap();
    world.api.release.notify_one();

    assert!(matches!(observed.await.unwrap(), ObservedNow::EventStatus(_)));
    assert_eq!(world.advance().await, ["subscription sub_1 applied"]);
}

#[tokio::test]
async fn a_binding_wakes_more_events_than_a_page_has() {
    let world = World::with(|source| source.with_limited(false)).await;
    for id in 1..=250 {
        let id = id.to_string();
        world.api.set(ObjectKind::Subscription, &tea(&id, "active"));
        world.webhook("subscriptions", &id, None).await;
    }
    let states = world.advance().await;
    assert!(states.iter().all(|it| it.ends_with("waiting:unknown_customer")), "{states:?}");

    world.providers.bind_customer(&slug("shop"), &"31".parse().unwrap(), user(ADA)).await.unwrap();

    let due = world.providers.advance(500).await.unwrap().events.into_values().sum::<usize>();
    assert_eq!(due, 250);
}

#[tokio::test]
async fn a_binding_by_an_event_wakes_the_other_events_of_the_customer() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.set(ObjectKind::Subscription, &tea("2", "active"));
    world.webhook("subscriptions", "1", None).await;
    world.advance().await;

    world.webhook("subscriptions", "2", Some(ADA)).await;
    world.advance().await;

    assert_eq!(world.advance().await, ["subscription 1 applied", "subscription 2 applied"]);
}

#[tokio::test]
async fn a_user_must_have_an_account_unless_any_is_taken() {
    let world = World::with(|source| source.with_any_user(false)).await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));

    world.webhook("subscriptions", "1", Some(ADA)).await;
    let bound =
        world.providers.bind_customer(&slug("shop"), &"31".parse().unwrap(), user(ADA)).await;

    assert_eq!(world.advance().await, ["subscription 1 waiting:unknown_customer"]);
    assert_eq!(bound.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(world.documents("provider_link").await.len(), 0);
}

#[tokio::test]
async fn events_of_a_customer_of_a_deleted_user_are_ignored_and_the_customer_can_be_bound_again() {
    let before = World::new().await;
    before.api.set(ObjectKind::Subscription, &tea("1", "active"));
    before.webhook("subscriptions", "1", Some(ADA)).await;
    before.advance().await;
    // From now on users need an account, and this one has none.
    let world = before.restarted(|source| source.with_any_user(false));
    world.api.set(ObjectKind::Subscription, &tea("2", "active"));

    world.webhook("subscriptions", "2", None).await;

    let states = world.advance().await;
    assert!(states.contains(&"subscription 2 ignored:detached".into()), "{states:?}");
    let again = world.restarted(|source| source.with_any_user(true));
    let taken =
        again.providers.bind_customer(&slug("shop"), &"31".parse().unwrap(), user(BOB)).await;
    assert!(matches!(taken, Err(Error::Conflict(Conflict::CustomerConflict))), "the user exists");
}

#[tokio::test]
async fn after_five_observations_in_a_second_a_caller_waits() {
    let world = World::new().await;

    for _ in 0..5 {
        let observed = world.now(ObjectKind::Subscription, "1", None).await;
        let ObservedNow::EventStatus(status) = observed else { panic!("{observed:?}") };
        assert_eq!(status.reason, Some(Reason::NotFound));
    }

    let observed = world.now(ObjectKind::Subscription, "1", None).await;
    assert!(matches!(observed, ObservedNow::Limited(_)), "{observed:?}");
}
