//! Calls that manage endpoints, while the job sends.

use subscription_core::webhooks::{
    DeliveryResult, DisabledReason, EndpointChanges, EndpointId, Resend, Rewind, Webhooks,
};

use super::world::{SendingWorld, Standing, settle};
use crate::auth::world::server_key;

async fn enable(world: &SendingWorld, id: EndpointId, enabled: bool) {
    let changes = EndpointChanges { enabled: Some(enabled), ..EndpointChanges::default() };
    world.webhooks.update_if(id, None, changes).await.unwrap();
}

#[tokio::test]
async fn a_disabled_endpoint_is_sent_nothing_and_continues_once_it_is_enabled() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(1).await;
    world.run().await;

    enable(&world, id, false).await;
    world.plans(2).await;
    world.run().await;
    assert_eq!(world.receivers.take(), [1]);
    enable(&world, id, true).await;
    world.run().await;

    assert_eq!(world.receivers.take(), [2, 3]);
}

#[tokio::test]
async fn a_deleted_endpoint_is_sent_nothing_more() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(20).await;
    world.receivers.hold("a.example");
    let (receivers, wake) = (world.receivers.clone(), Standing::default());
    let (webhooks, clock) = (world.webhooks.clone(), world.clock.clone());

    let story = async {
        settle().await;
        assert_eq!(receivers.take().len(), 8);
        webhooks.delete_if(id, None).await.unwrap();
        clock.advance(std::time::Duration::from_secs(2));
        receivers.release(8);
        settle().await;
        wake.stop();
    };
    let (ran, ()) = tokio::join!(world.sender.run(&wake), story);
    ran.unwrap();
    world.run().await;

    assert!(world.receivers.take().is_empty());
    assert!(world.webhooks.get(id).await.is_err());
    assert!(!world.webhooks.counters().endpoints.contains_key(&id));
}

#[tokio::test]
async fn a_rewind_sends_again_what_was_delivered_and_what_was_parked() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(4).await;
    world.receivers.answer_to(3, DeliveryResult::answered(500));
    world.run().await;
    world.receivers.take();
    world.receivers.answer(DeliveryResult::answered(200));

    world.webhooks.rewind(id, Rewind::To(1)).await.unwrap();
    let next_at = world.run().await;

    assert_eq!((world.receivers.take(), next_at), (vec![2, 3, 4], None));
    assert_eq!((world.shown(id).await.cursor, world.parked(id).await), (4, vec![]));
}

#[tokio::test]
async fn a_rewind_while_deliveries_are_in_flight_wins() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(3).await;
    world.run().await;
    world.plans(1).await;
    world.receivers.take();
    world.receivers.hold("a.example");
    let (receivers, wake) = (world.receivers.clone(), Standing::default());
    let webhooks = world.webhooks.clone();

    let story = async {
        settle().await;
        assert_eq!(receivers.take(), [4]);
        webhooks.rewind(id, Rewind::To(1)).await.unwrap();
        receivers.release(100);
        settle().await;
        wake.stop();
    };
    let (ran, ()) = tokio::join!(world.sender.run(&wake), story);
    ran.unwrap();
    world.run().await;

    let sent = world.receivers.take();
    assert!([2, 3, 4].iter().all(|sequence| sent.contains(sequence)), "{sent:?}");
    assert_eq!(world.shown(id).await.cursor, 4);
}

#[tokio::test]
async fn an_event_that_was_given_up_is_sent_again_with_ten_new_tries() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(1).await;
    world.receivers.answer(DeliveryResult::answered(500));
    let mut next_at = world.run().await;
    while world.parked(id).await[0].1 == "waiting" {
        next_at = world.run_at(next_at).await;
    }
    world.receivers.take();

    world.webhooks.resend(id, Resend::One(1)).await.unwrap();
    world.run().await;
    assert_eq!(world.parked(id).await, [(1, "waiting".to_owned(), 1)]);
    world.receivers.answer(DeliveryResult::answered(200));
    world.webhooks.resend(id, Resend::All).await.unwrap();
    world.run().await;

    assert_eq!((world.receivers.take(), world.parked(id).await), (vec![1, 1], vec![]));
}

#[tokio::test]
async fn an_endpoint_that_gets_another_url_is_no_longer_stalled() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(6).await;
    world.receivers.answer(DeliveryResult::answered(500));
    world.run().await;
    world.receivers.take();
    world.receivers.answer(DeliveryResult::answered(200));

    world.webhooks.update_if(id, None, url("https://b.example/")).await.unwrap();
    world.run().await;

    let sent = world.receivers.take_all();
    assert_eq!(sent.len(), 6);
    assert!(sent.iter().all(|it| it.request.url.as_str() == "https://b.example/"));
}

fn url(url: &str) -> EndpointChanges {
    EndpointChanges { url: Some(url.parse().unwrap()), ..EndpointChanges::default() }
}

#[tokio::test]
async fn an_endpoint_whose_server_key_is_missing_is_disabled_and_nothing_is_sent() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    world.plans(1).await;
    for (number, key) in [
        (2, "a key that only our own server ever has"),
        (1, "another key that only a thief would have"),
    ] {
        let keys = server_key(number, key.as_bytes());
        let webhooks = Webhooks::new(world.service.clone(), keys, world.receivers.clone());
        world.sender = webhooks.with_clock(world.clock.clone()).sender();

        world.run().await;

        let shown = world.shown(id).await;
        assert_eq!(shown.disabled_reason, Some(DisabledReason::KeyMissing), "{number}");
        assert!(world.receivers.take().is_empty());
        enable(&world, id, true).await;
    }
}
