//! Taking webhooks in.

use serde_json::json;
use subscription_core::SubscriptionStatus;
use subscription_core::providers::{ObjectKind, Received};

use super::world::{ADA, World, signature, slug, tea, user};

#[tokio::test]
async fn a_webhook_is_stored_once_and_pending() {
    let world = World::new().await;
    let body = json!({ "meta": { "event_name": "subscription_created", "test_mode": true },
        "data": { "type": "subscriptions", "id": "1" } });

    assert_eq!(world.send(&body).await, Received::Stored);
    assert_eq!(world.send(&body).await, Received::Known);

    assert_eq!(world.states().await, ["subscription 1 pending"]);
    assert_eq!(world.api.fetches(), 0, "it is applied later");
}

#[tokio::test]
async fn a_webhook_that_is_not_understood_is_kept_with_its_reason() {
    let world = World::new().await;
    let hint = |r#type: &str, id: &str, test: bool| json!({ "meta": { "event_name": "x", "test_mode": test }, "data": { "type": r#type, "id": id } });

    assert_eq!(world.send(&hint("subscriptions", "a/b", true)).await, Received::Stored);
    assert_eq!(world.send(&hint("subscriptions", "2", false)).await, Received::Stored);
    assert_eq!(world.send(&hint("license-keys", "3", true)).await, Received::Unlisted);

    assert_eq!(
        world.advance().await,
        [" failed:unreadable", "subscription 2 ignored:other_mode"],
        "nothing of them is fetched"
    );
    assert_eq!(world.api.fetches(), 0);
    let counters = &world.providers.counters()[&slug("shop")];
    assert_eq!(counters.unlisted, 1);
}

/// Lemon Squeezy has no ids of events: a state that comes back within a second has the same bytes.
#[tokio::test]
async fn the_same_bytes_again_are_applied_again_unless_they_cannot_be_read() {
    let world = World::new().await;
    let hint = |id: &str| json!({ "meta": { "event_name": "x", "test_mode": true }, "data": { "type": "subscriptions", "id": id } });
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.providers.bind_customer(&slug("shop"), &"31".parse().unwrap(), user(ADA)).await.unwrap();
    world.send(&hint("1")).await;
    world.send(&hint("a/b")).await;
    assert_eq!(world.advance().await, [" failed:unreadable", "subscription 1 applied"]);
    world.api.set(ObjectKind::Subscription, &tea("1", "expired"));

    assert_eq!(world.send(&hint("1")).await, Received::Known);
    assert_eq!(world.send(&hint("a/b")).await, Received::Known);

    assert_eq!(world.states().await, [" failed:unreadable", "subscription 1 pending"]);
    world.advance().await;
    assert_eq!(world.subscription().await.status, SubscriptionStatus::Expired);
}

#[tokio::test]
async fn a_webhook_without_a_signature_that_fits_is_not_stored() {
    let world = World::new().await;
    let body = b"{}";
    let signed = signature(body);
    let other = signature(b"{ }");
    let take = async |source: &str, signatures: &[&[u8]]| {
        world.providers.receive_webhook(&slug(source), signatures, body).await.unwrap()
    };

    assert_eq!(take("elsewhere", &[signed.as_bytes()]).await, Received::UnknownSource);
    for signatures in [&[][..], &[other.as_bytes()], &[signed.as_bytes(), signed.as_bytes()]] {
        assert_eq!(take("shop", signatures).await, Received::SignatureInvalid);
    }

    assert_eq!(world.states().await, [""; 0]);
    assert_eq!(world.providers.counters()[&slug("shop")].signatures_refused, 3);
}
