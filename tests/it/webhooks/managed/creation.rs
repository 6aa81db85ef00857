//! Creating endpoints: where they begin, how many there are, and idempotency keys.

use subscription_core::accounts::Scope;
use subscription_core::webhooks::{FirstEvent, NewEndpoint, Webhooks};
use subscription_core::{Error, ErrorKind};
use test_support::service_world::{faults, once, wrong};
use tokio::task::JoinSet;

use super::world::{WebhookWorld, new_endpoint};

#[tokio::test]
async fn an_endpoint_begins_where_its_creator_says() {
    let world = WebhookWorld::new();
    world.events(5).await;
    world.service.forget_events(2).await.unwrap();
    let from = async |from| {
        let created = world.webhooks.create(NewEndpoint { from, ..new_endpoint() }).await;
        created.map(|created| (created.endpoint.cursor, created.endpoint.behind))
    };

    assert_eq!(from(FirstEvent::Now).await.unwrap(), (5, 0));
    assert_eq!(from(FirstEvent::Start).await.unwrap(), (2, 3));
    assert_eq!(from(FirstEvent::After(2)).await.unwrap(), (2, 3));
    assert_eq!(from(FirstEvent::After(5)).await.unwrap(), (5, 0));
    assert_eq!(faults(from(FirstEvent::After(6)).await), ["from out_of_range"]);
    let deleted = from(FirstEvent::After(1)).await.unwrap_err();
    assert!(matches!(deleted, Error::EventsForgotten { first_kept: 3 }), "{deleted}");
    assert_eq!((deleted.kind(), deleted.code()), (ErrorKind::Gone, "events_forgotten"));
}

#[tokio::test]
async fn an_endpoint_of_a_feed_without_events_begins_at_the_first() {
    let world = WebhookWorld::new();

    for from in [FirstEvent::Now, FirstEvent::Start, FirstEvent::After(0)] {
        let created = world.webhooks.create(NewEndpoint { from, ..new_endpoint() }).await;
        assert_eq!(created.unwrap().endpoint.cursor, 0, "{from:?}");
    }
}

#[tokio::test]
async fn the_faults_of_an_endpoint_that_is_built_in_code_are_found_too() {
    let world = WebhookWorld::new();
    let types = vec!["session.*".parse().unwrap()];
    let url = "http://10.0.0.1".parse().unwrap();

    let new = NewEndpoint { url, types, description: "\n".into(), from: FirstEvent::Now };
    let refused = world.webhooks.create(new).await;

    let expected =
        ["url not_allowed_value", "types[0] not_allowed_value", "description control_character"];
    assert_eq!(faults(refused), expected);
}

#[tokio::test]
async fn events_of_users_need_the_scope_to_read_them() {
    let world = WebhookWorld::new();
    let new = NewEndpoint { types: vec!["user.created".parse().unwrap()], ..new_endpoint() };

    let refused = world.webhooks.within(&[Scope::WebhooksWrite].into()).create(new.clone()).await;

    assert_eq!(wrong(refused), (ErrorKind::Forbidden, "scope_missing"));
    let within = world.webhooks.within(&[Scope::UsersRead].into());
    assert!(within.create(new).await.is_ok());
}

/// A flood of endpoints of attack W9.
#[tokio::test(flavor = "multi_thread")]
async fn there_are_100_endpoints_at_most_however_many_are_created_at_once() {
    let world = WebhookWorld::new();

    let mut tasks = JoinSet::new();
    for _ in 0..130 {
        let webhooks = world.webhooks.clone();
        tasks.spawn(async move { webhooks.create(new_endpoint()).await });
    }
    let created = tasks.join_all().await;

    let (created, refused): (Vec<_>, Vec<_>) = created.into_iter().partition(Result::is_ok);
    assert_eq!((created.len(), refused.len()), (Webhooks::ENDPOINTS_MAX, 30));
    for refused in refused {
        assert_eq!(wrong(refused), (ErrorKind::Conflict, "endpoint_limit"));
    }
    let id = created[0].as_ref().unwrap().endpoint.id;
    world.webhooks.delete_if(id, None).await.unwrap();
    assert!(world.webhooks.create(new_endpoint()).await.is_ok());
}

#[tokio::test]
async fn a_second_request_with_the_same_key_returns_the_endpoint_and_its_secret() {
    let world = WebhookWorld::new();
    let create =
        |new: NewEndpoint, client, key| world.webhooks.create_once(new, Some(once(client, key)));
    let first = create(new_endpoint(), "shop", "k").await.unwrap();

    let again = create(new_endpoint(), "shop", "k").await.unwrap();

    assert!(!first.replayed && again.replayed);
    assert_eq!(again.endpoint, first.endpoint);
    assert_eq!(again.secret.unwrap().expose(), first.secret.unwrap().expose());
    let other = NewEndpoint { description: "x".into(), ..new_endpoint() };
    assert_eq!(wrong(create(other.clone(), "shop", "k").await).1, "idempotency_key_reused");
    for (client, key) in [("shop", "k2"), ("web", "k")] {
        let created = create(other.clone(), client, key).await.unwrap();
        assert!(!created.replayed && created.endpoint.id != first.endpoint.id, "{client} {key}");
    }
}

#[tokio::test]
async fn a_repeated_creation_has_no_secret_once_it_was_rotated_and_creates_anew_once_it_is_deleted()
{
    let world = WebhookWorld::new();
    let create = || world.webhooks.create_once(new_endpoint(), Some(once("shop", "k")));
    let first = create().await.unwrap();
    let id = first.endpoint.id;
    world.webhooks.rotate_secret(id, std::time::Duration::ZERO).await.unwrap();

    let again = create().await.unwrap();

    assert!(again.replayed && again.secret.is_none());
    world.webhooks.delete_if(id, None).await.unwrap();
    let anew = create().await.unwrap();
    // A sender that has read the old one must not take the new one for it.
    assert!(!anew.replayed && anew.endpoint.id != id);
    assert_eq!(world.documents("webhook_request").await.len(), 1);
    assert_ne!(anew.secret.unwrap().expose(), first.secret.unwrap().expose());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_creations_with_one_key_at_the_same_time_one_is_made() {
    let world = WebhookWorld::new();
    // Another process has queues of its own.
    let other = WebhookWorld::over(std::sync::Arc::clone(&world.store));

    let mut tasks = JoinSet::new();
    for nth in 0..10 {
        let webhooks = if nth % 2 == 0 { &world.webhooks } else { &other.webhooks }.clone();
        let idempotency = Some(once("shop", "k"));
        tasks.spawn(async move { webhooks.create_once(new_endpoint(), idempotency).await });
    }
    let created: Vec<_> = tasks.join_all().await.into_iter().map(Result::unwrap).collect();

    assert_eq!(created.iter().filter(|created| !created.replayed).count(), 1);
    assert_eq!(world.documents("webhook_endpoint").await.len(), 1);
    let secrets: Vec<_> = created.iter().map(|it| it.secret.as_ref().unwrap().expose()).collect();
    assert!(secrets.iter().all(|secret| *secret == secrets[0]));
}
