//! Changing, listing and reading endpoints.

use serde_json::json;
use subscription_core::accounts::Scope;
use subscription_core::store::PageLimit;
use subscription_core::webhooks::{EndpointChanges, NewEndpoint};
use subscription_core::{Error, ErrorKind, Version};
use test_support::service_world::{faults, wrong};

use super::world::{URL, WebhookWorld, new_endpoint};

fn enabled(enabled: bool) -> EndpointChanges {
    EndpointChanges { enabled: Some(enabled), ..EndpointChanges::default() }
}

#[tokio::test]
async fn a_change_is_made_to_the_version_that_was_read_and_wakes_the_sending_job() {
    let world = WebhookWorld::new();
    let endpoint = world.endpoint().await.endpoint;
    world.clock.advance(std::time::Duration::from_mins(1));
    let changes = EndpointChanges {
        url: Some("https://other.example/".parse().unwrap()),
        types: Some(vec!["plan.*".parse().unwrap()]),
        description: Some("The other shop".into()),
        enabled: None,
    };
    let update =
        |version: u64| world.webhooks.update_if(endpoint.id, Some(version.into()), changes.clone());

    let shown = update(1).await.unwrap();

    assert_eq!((&*shown.url, &*shown.description), ("https://other.example/", "The other shop"));
    assert_eq!(shown.types[0].to_string(), "plan.*");
    assert_eq!(shown.version, Version::from(2));
    assert!(shown.updated_at > shown.created_at);
    assert_eq!(world.webhooks.get(endpoint.id).await.unwrap(), shown);
    let delivery = &world.documents("webhook_delivery").await[0];
    assert_eq!((delivery.version, delivery.due_at), (2.into(), Some(shown.updated_at)));
    let stale = update(1).await.unwrap_err();
    assert!(matches!(stale, Error::Stale { current, .. } if current == 2.into()), "{stale}");
}

#[tokio::test]
async fn a_change_of_nothing_writes_nothing() {
    let world = WebhookWorld::new();
    let endpoint = world.endpoint().await.endpoint;
    let same = EndpointChanges {
        url: Some(URL.parse().unwrap()),
        types: Some(endpoint.types.clone()),
        description: Some("".into()),
        enabled: Some(true),
    };

    for changes in [EndpointChanges::default(), same] {
        let changed = world.webhooks.update_if(endpoint.id, None, changes).await.unwrap();
        assert_eq!(changed, endpoint);
    }
    let bad = EndpointChanges { types: Some(Vec::new()), ..EndpointChanges::default() };
    let refused = world.webhooks.update_if(endpoint.id, None, bad).await;
    assert_eq!(faults(refused), ["types too_short"]);
}

#[tokio::test]
async fn who_may_not_read_users_cannot_send_their_events_elsewhere() {
    let world = WebhookWorld::new();
    let new = NewEndpoint { types: vec!["user.*".parse().unwrap()], ..new_endpoint() };
    let id = world.webhooks.create(new).await.unwrap().endpoint.id;
    let moved = EndpointChanges {
        url: Some("https://mine.example".parse().unwrap()),
        ..EndpointChanges::default()
    };
    let widened = EndpointChanges {
        types: Some(vec!["user.created".parse().unwrap()]),
        ..EndpointChanges::default()
    };

    let within = world.webhooks.within(&[Scope::WebhooksWrite].into());
    for changes in [moved, widened] {
        let refused = within.update_if(id, None, changes).await;
        assert_eq!(wrong(refused), (ErrorKind::Forbidden, "scope_missing"));
    }
    assert!(within.update_if(id, None, enabled(false)).await.is_ok());
    let refused = within.update_if(id, None, enabled(true)).await;
    assert_eq!(wrong(refused), (ErrorKind::Forbidden, "scope_missing"));
}

#[tokio::test]
async fn disabling_keeps_the_first_reason_and_enabling_ends_a_stall_and_makes_what_waits_due() {
    let world = WebhookWorld::new();
    let events = world.events(3).await;
    let endpoint = world.endpoint().await.endpoint;
    let id = endpoint.id;
    let later = endpoint.created_at.saturating_add(std::time::Duration::from_hours(9));
    world.park(id, &events[0], "waiting", Some(later)).await;
    world.park(id, &events[1], "given_up", Some(later)).await;
    let stall = json!({ "since": later, "reason": "failing", "probes": 4, "next_at": later });
    world
        .rewrite("webhook_delivery", id, |delivery| {
            delivery["stall"] = stall;
            delivery["failing_since"] = json!(later);
        })
        .await;
    let update = |changes| world.webhooks.update_if(id, None, changes);
    let stalled = update(EndpointChanges { description: Some("x".into()), ..Default::default() });
    let stalled = stalled.await.unwrap();
    assert_eq!((stalled.stalled_since, stalled.next_attempt_at), (Some(later), Some(later)));
    assert_eq!(stalled.stall_reason.unwrap().to_string(), "failing");

    let disabled = update(enabled(false)).await.unwrap();
    let again = update(enabled(false)).await.unwrap();
    let enabled = update(enabled(true)).await.unwrap();

    assert_eq!(disabled.disabled_reason.unwrap().to_string(), "by_caller");
    assert_eq!((disabled.enabled, disabled.next_attempt_at), (false, None));
    assert_eq!(again.version, disabled.version);
    assert_eq!((enabled.enabled, enabled.disabled_at, enabled.stalled_since), (true, None, None));
    assert_eq!((enabled.failing_since, enabled.cursor), (None, 3));
    assert_eq!((enabled.parked, enabled.given_up), (1, 1));
    let expected = [(1, "waiting".to_owned(), 3, true), (2, "given_up".to_owned(), 3, false)];
    assert_eq!(world.parked(id).await, expected);
}

#[tokio::test]
async fn a_list_has_pages_and_the_state_of_each_endpoint_but_not_its_last_tries() {
    let world = WebhookWorld::new();
    let events = world.events(2).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        world.clock.advance(std::time::Duration::from_mins(1));
        ids.push(world.endpoint().await.endpoint.id);
    }
    world.park(ids[2], &events[0], "waiting", Some(events[0].event.at)).await;
    let recent = json!([{
        "at": events[0].event.at, "sequence": 1, "type": "plan.created", "attempt": 2,
        "outcome": "answered", "status": 500, "duration_ms": 7,
    }]);
    world.rewrite("webhook_delivery", ids[2], |delivery| delivery["recent"] = recent).await;

    let two = PageLimit::new(2).unwrap();
    let first = world.webhooks.list(None, two).await.unwrap();
    let last = world.webhooks.list(first.next.clone(), two).await.unwrap();

    let listed: Vec<_> = first.items.iter().chain(&last.items).map(|it| it.id).collect();
    assert_eq!(listed, ids);
    let shown = &last.items[0];
    assert_eq!((shown.parked, shown.next_attempt_at), (1, Some(events[0].event.at)));
    assert_eq!((&shown.recent, &last.next), (&None, &None));
    let whole = world.webhooks.get(ids[2]).await.unwrap();
    let tried = &whole.recent.as_ref().unwrap()[0];
    assert_eq!((tried.outcome, tried.status, tried.duration_ms), ("refused", Some(500), 7));
    let parked = world.webhooks.parked(ids[2], first.next, two).await.unwrap();
    assert_eq!(parked.items.len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_does_not_exist_is_not_found_by_any_call() {
    use std::time::Duration;
    use subscription_core::webhooks::{Resend, Rewind};
    let world = WebhookWorld::new();
    let id = world.endpoint().await.endpoint.id;
    world.webhooks.delete_if(id, None).await.unwrap();
    let webhooks = &world.webhooks;

    let all = [
        wrong(webhooks.get(id).await),
        wrong(webhooks.update_if(id, None, enabled(true)).await),
        wrong(webhooks.delete_if(id, None).await),
        wrong(webhooks.rotate_secret(id, Duration::ZERO).await),
        wrong(webhooks.ping(id).await),
        wrong(webhooks.rewind(id, Rewind::To(0)).await),
        wrong(webhooks.resend(id, Resend::All).await),
        wrong(webhooks.parked(id, None, PageLimit::MAX).await),
    ];

    assert!(all.iter().all(|error| *error == (ErrorKind::NotFound, "not_found")), "{all:?}");
}
