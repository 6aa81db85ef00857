//! Deleting an endpoint, and changes while the sending job commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use subscription_core::store::{ChangeSet, Collection, Document, DocumentKey, Key, StoreError};
use subscription_core::webhooks::{EndpointChanges, Resend, Rewind};
use subscription_core::{Error, Store as _};
use test_support::service_world::of;
use test_support::spy_store::{Call, CallCounts, Spy, SpyStore};

use super::world::WebhookWorld;

#[tokio::test]
async fn an_endpoint_is_deleted_with_all_that_is_set_aside_in_one_commit() {
    let store = SpyStore::new(CallCounts::default());
    let world = WebhookWorld::over(Arc::clone(&store) as _);
    let events = world.events(200).await;
    let (id, other) = (world.endpoint().await.endpoint.id, world.endpoint().await.endpoint.id);
    for (nth, event) in events.iter().enumerate() {
        let state = if nth % 2 == 0 { "waiting" } else { "given_up" };
        world.park(id, event, state, Some(event.event.at)).await;
    }
    world.park(other, &events[0], "waiting", None).await;
    let stale = world.webhooks.delete_if(id, Some(7.into())).await.unwrap_err();
    assert!(matches!(stale, Error::Stale { .. }), "{stale}");
    store.spy.take();

    world.webhooks.delete_if(id, Some(1.into())).await.unwrap();

    assert_eq!(store.spy.take().1, 1);
    for collection in ["webhook_endpoint", "webhook_delivery", "webhook_parked"] {
        let left = world.documents(collection).await;
        assert_eq!(left.len(), 1, "{collection}");
        assert!(left[0].key.id.as_str().starts_with(&other.to_string()), "{collection}");
    }
}

/// As an operator's hand or a fault leaves it.
#[tokio::test]
async fn an_endpoint_that_cannot_be_read_is_deleted_and_stops_no_creation() {
    let store = SpyStore::new(CallCounts::default());
    let world = WebhookWorld::over(Arc::clone(&store) as _);
    for collection in ["webhook_endpoint", "webhook_delivery"] {
        let id = world.endpoint().await.endpoint.id;
        let documents = world.documents(collection).await;
        let whole = documents.iter().find(|it| it.key.id.as_str() == id.to_string()).unwrap();
        let version = whole.version.next();
        let damaged = Document { version, body: "{".into(), ..Document::clone(whole) };
        let writes = vec![damaged.into()];
        store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
        assert_eq!(world.webhooks.get(id).await.unwrap_err().code(), "internal", "{collection}");

        let other = world.endpoint().await.endpoint.id;
        world.webhooks.delete_if(id, None).await.unwrap();

        assert_eq!(world.webhooks.get(id).await.unwrap_err().code(), "not_found", "{collection}");
        world.webhooks.get(other).await.unwrap();
    }
}

/// Refuses some commits, as if another process had written the delivery first.
#[derive(Debug, Default)]
struct Losing(AtomicUsize);

#[async_trait]
impl Spy for Losing {
    fn fails(&self, call: Call) -> Option<StoreError> {
        let takes = |left: usize| left.checked_sub(1);
        let loses = call == Call::Commit
            && self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, takes).is_ok();
        let key = || DocumentKey { collection: Collection::named("webhook_delivery"), id: of("x") };
        loses.then(|| StoreError::Conflict(Key::Document(key())))
    }
}

#[tokio::test]
async fn every_change_decides_again_when_the_sending_job_has_committed_first() {
    let store = SpyStore::new(Losing::default());
    let world = WebhookWorld::over(Arc::clone(&store) as _);
    let events = world.events(1).await;
    let id = world.endpoint().await.endpoint.id;
    world.park(id, &events[0], "waiting", None).await;
    let off = EndpointChanges { enabled: Some(false), ..EndpointChanges::default() };
    let webhooks = &world.webhooks;
    let loses = || store.spy.0.store(5, Ordering::SeqCst);

    loses();
    webhooks.update_if(id, None, off).await.unwrap();
    loses();
    webhooks.rotate_secret(id, Duration::ZERO).await.unwrap();
    loses();
    webhooks.resend(id, Resend::All).await.unwrap();
    loses();
    webhooks.rewind(id, Rewind::To(0)).await.unwrap();
    loses();
    webhooks.delete_if(id, None).await.unwrap();

    assert_eq!(store.spy.0.load(Ordering::SeqCst), 0);
    assert_eq!(world.documents("webhook_endpoint").await.len(), 0);
}
