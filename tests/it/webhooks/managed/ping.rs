//! Pings.

use serde_json::{Value, json};
use subscription_core::store::PageLimit;
use subscription_core::webhooks::{DeliveryResult, EndpointChanges};

use super::world::{URL, WebhookWorld};

#[tokio::test]
async fn a_ping_is_one_signed_delivery_that_is_in_no_feed() {
    let world = WebhookWorld::new();
    let id = world.endpoint().await.endpoint.id;
    let before = world.webhooks.get(id).await.unwrap();

    let pinged = world.webhooks.ping(id).await.unwrap();

    assert_eq!((pinged.outcome, pinged.status, pinged.duration_ms), ("delivered", Some(204), 0));
    let sent = world.receiver.sent();
    let [ping] = &*sent else { panic!("{sent:?}") };
    assert_eq!(ping.url.as_str(), URL);
    let body: Value = serde_json::from_slice(&ping.body).unwrap();
    assert_eq!(body["type"], "webhook.ping");
    assert_eq!(body["timestamp"], "2025-01-31T00:00:00.000000Z");
    assert!(body.get("sequence").is_none(), "{body}");
    assert_eq!(ping.timestamp, 1_738_281_600);
    assert_eq!(world.service.events(0, PageLimit::MAX).await.unwrap(), []);
    assert_eq!(world.webhooks.get(id).await.unwrap(), before);
}

#[tokio::test]
async fn a_ping_that_is_accepted_ends_a_stall_and_others_do_not() {
    let world = WebhookWorld::new();
    let events = world.events(1).await;
    let id = world.endpoint().await.endpoint.id;
    let now = world.service.now();
    let later = now.saturating_add(std::time::Duration::from_hours(1));
    let stall = json!({ "since": now, "reason": "failing", "probes": 1, "next_at": later });
    world
        .rewrite("webhook_delivery", id, |delivery| {
            delivery["stall"] = stall;
            delivery["failing_since"] = json!(now);
        })
        .await;
    world.park(id, &events[0], "waiting", Some(later)).await;

    for (outcome, name, status) in [
        (DeliveryResult::answered(500), "refused", Some(500)),
        (DeliveryResult::answered(302), "refused", Some(302)),
        (DeliveryResult::TimedOut, "timed_out", None),
        (DeliveryResult::Unreachable, "unreachable", None),
        (DeliveryResult::Blocked, "blocked", None),
    ] {
        world.receiver.answers(outcome);
        let pinged = world.webhooks.ping(id).await.unwrap();
        assert_eq!((pinged.outcome, pinged.status), (name, status));
        let stalled = world.webhooks.get(id).await.unwrap();
        assert_eq!(stalled.stalled_since, Some(now), "{name}");
    }
    world.receiver.answers(DeliveryResult::answered(200));
    world.webhooks.ping(id).await.unwrap();

    let ended = world.webhooks.get(id).await.unwrap();
    assert_eq!((ended.stalled_since, ended.failing_since), (None, None));
    assert_eq!((ended.last_success_at, ended.next_attempt_at), (Some(now), Some(now)));
    assert_eq!(world.documents("webhook_delivery").await[0].due_at, Some(now));
}

#[tokio::test]
async fn an_endpoint_that_is_disabled_can_be_pinged_and_stays_so() {
    let world = WebhookWorld::new();
    let id = world.endpoint().await.endpoint.id;
    let off = EndpointChanges { enabled: Some(false), ..EndpointChanges::default() };
    world.webhooks.update_if(id, None, off).await.unwrap();

    let pinged = world.webhooks.ping(id).await.unwrap();

    assert_eq!(pinged.outcome, "delivered");
    assert!(!world.webhooks.get(id).await.unwrap().enabled);
}
