//! Old state never overwrites new state, whatever the workers do at the same time.

use std::sync::atomic::Ordering;

use subscription_core::providers::{EventState, ObjectKind};
use subscription_core::{PlanChanges, SubscriptionStatus};

use super::world::{ADA, World, at, slug, tea};

/// Their state goes from X to Y and back to X. A slow worker has fetched Y, a fast one finds X, which is what our
/// record has.
#[tokio::test]
async fn a_state_that_came_and_went_is_not_written_late() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    world.advance().await;
    let version = world.subscription().await.version;
    world.api.set(ObjectKind::Subscription, &tea("1", "expired"));
    world.webhook("subscriptions", "1", None).await;
    world.clock.advance(std::time::Duration::from_secs(2));
    let slow = world.restarted(|source| source);
    world.api.holds.store(true, Ordering::SeqCst);
    let slow = tokio::spawn(async move { slow.providers.advance(10).await.unwrap() });
    world.api.held.notified().await;

    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.now(ObjectKind::Subscription, "1", None).await;
    world.api.release.notify_one();
    slow.await.unwrap();

    let record = world.subscription().await;
    assert_eq!(record.status, SubscriptionStatus::Active);
    assert_eq!(record.version, version, "the state in between was never written");
}

#[tokio::test]
async fn an_observation_without_a_difference_moves_the_link() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.now(ObjectKind::Subscription, "1", Some(ADA)).await;
    let link = |documents: Vec<std::sync::Arc<subscription_core::store::Document>>| {
        let label = |it: &&std::sync::Arc<subscription_core::store::Document>| {
            it.label.as_ref().unwrap().as_str() == "shop:subscription"
        };
        documents.iter().find(label).unwrap().version.get()
    };
    let before = link(world.documents("provider_link").await);

    world.now(ObjectKind::Subscription, "1", None).await;

    assert_eq!(link(world.documents("provider_link").await), before + 1);
}

#[tokio::test]
async fn two_workers_that_make_the_same_record_make_one() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    let slow = world.restarted(|source| source);
    world.api.holds.store(true, Ordering::SeqCst);
    let slow = tokio::spawn(async move { slow.providers.advance(10).await.unwrap() });
    world.api.held.notified().await;

    world.advance().await;
    world.api.release.notify_one();
    slow.await.unwrap();

    assert_eq!(world.subscription().await.version.get(), 1);
    let event = &world.events().await[0].event;
    assert_eq!((event.state, event.attempts), (EventState::Applied, 1), "it is answered once");
}

/// The plans are read once for a round of events.
#[tokio::test]
async fn a_plan_that_changes_while_an_object_is_fetched_is_read_again() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    let other = world.restarted(|source| source);
    world.api.holds.store(true, Ordering::SeqCst);
    let advanced = tokio::spawn(async move { other.providers.advance(10).await.unwrap() });
    world.api.held.notified().await;

    let changes = PlanChanges::from_json(br#"{"price":"19.99"}"#).unwrap();
    world.service.update_plan(&slug("tea"), changes).await.unwrap();
    world.api.release.notify_one();
    advanced.await.unwrap();

    assert_eq!(world.subscription().await.price().unwrap().to_string(), "19.99");
}

#[tokio::test]
async fn an_object_that_ends_while_it_is_fetched_has_its_end() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "expired"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    let other = world.restarted(|source| source);
    world.api.holds.store(true, Ordering::SeqCst);
    let advanced = tokio::spawn(async move { other.providers.advance(10).await.unwrap() });
    world.api.held.notified().await;

    world.clock.set(at("2026-03-05T09:00:01Z"));
    world.api.release.notify_one();
    advanced.await.unwrap();

    assert_eq!(world.subscription().await.ends_at, Some(at("2026-03-05T09:00:00Z")));
}

/// A change set holds a thousand records.
#[tokio::test]
async fn more_events_of_one_object_than_a_commit_holds_are_answered() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    for _ in 0..1_010 {
        world.clock.advance(std::time::Duration::from_micros(1));
        world.webhook("subscriptions", "1", Some(ADA)).await;
    }

    let applied = world.providers.advance(2_000).await.unwrap();

    assert_eq!(applied.events.values().sum::<usize>(), 1_010);
    assert_eq!(world.subscription().await.version.get(), 1);
}

#[tokio::test]
async fn a_worker_that_crashes_after_its_fetch_leaves_the_event_pending() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.webhook("subscriptions", "1", Some(ADA)).await;
    let crashing = world.restarted(|source| source);
    world.api.holds.store(true, Ordering::SeqCst);
    let crashing = tokio::spawn(async move { crashing.providers.advance(10).await.map(drop) });
    world.api.held.notified().await;
    crashing.abort();
    crashing.await.unwrap_err();

    assert_eq!(world.states().await, ["subscription 1 pending"]);

    assert_eq!(world.advance().await, ["subscription 1 applied"]);
}

#[tokio::test]
async fn one_fetch_answers_all_events_of_an_object_and_the_next_is_a_second_later() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    for _ in 0..50 {
        world.clock.advance(std::time::Duration::from_micros(1));
        world.webhook("subscriptions", "1", Some(ADA)).await;
    }

    let applied = world.providers.advance(100).await.unwrap();
    world.webhook("subscriptions", "1", Some(ADA)).await;
    let again = world.providers.advance(100).await.unwrap();

    assert_eq!(applied.events.values().sum::<usize>(), 50);
    assert_eq!(world.api.fetches(), 1);
    assert!(!again.more);
    let wait =
        again.next_at.unwrap().since(subscription_core::SubscriptionService::now(&world.service));
    assert!(
        wait > std::time::Duration::from_millis(900) && wait <= std::time::Duration::from_secs(1)
    );
    world.clock.advance(wait);
    world.providers.advance(100).await.unwrap();
    assert_eq!(world.api.fetches(), 2);
}
